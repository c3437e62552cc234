"""Pages that only slow tests follow were followed as they are."""

import shutil
from pathlib import Path

import followed
import pytest
from fences import ROOT
from followed import SHOWN, digest, known


@pytest.mark.parametrize("test", SHOWN)
def test_a_page_was_followed_since_it_or_what_it_shows_changed(test: str) -> None:
    assert known().get(test) == digest(test), (
        f"{SHOWN[test][0]}, or what it shows, changed since it was last followed. Run\n"
        f"    pytest -m slow tests/docs/{test}\n"
        "which follows it and notes that in tests/docs/followed.json."
    )


def test_a_change_to_what_a_page_shows_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = "test_operate_pages.py"
    for name in (f"tests/docs/{test}", *SHOWN[test]):
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / name, place) if (ROOT / name).is_dir() else shutil.copy(ROOT / name, place)
    monkeypatch.setattr(followed, "ROOT", tmp_path)
    before = digest(test)
    verb = tmp_path / "src/colonnade/cli/federation.py"
    verb.write_text(verb.read_text().replace("Send", "Bring"))
    assert digest(test) != before
