"""A kind of column and a loss are added by their pages: applied to a copy of the sources, they run."""

from pathlib import Path

import pytest
import worked


@pytest.mark.parametrize(("page", "most"), [("add-a-column.md", 2), ("add-a-loss.md", 3)])
def test_a_worked_example_runs_on_a_copy_and_changes_few_files(page: str, most: int, tmp_path: Path) -> None:
    worked.apply(page, tmp_path)
    done = worked.run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert 1 <= len(worked.files_to_touch(page)) <= most


def test_without_its_changes_an_example_does_not_run(tmp_path: Path) -> None:
    worked.apply("add-a-column.md", tmp_path)
    (tmp_path / "src/colonnade/data/forms.py").write_text(
        (worked.ROOT / "src/colonnade/data/forms.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    assert worked.run(tmp_path).returncode != 0
