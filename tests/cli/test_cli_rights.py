"""Who may read what a run leaves: its party alone what is its own, everybody whom the umask lets what is shared."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_project import Project, train

SHARED = ("release.npz", "model.json", "facts.json", "report.html")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def rights(folder: Path) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in (folder, *folder.rglob("*"))
    }


@pytest.mark.parametrize(("mask", "shared"), [(0o000, 0o644), (0o077, 0o600)])
def test_own_files_are_for_their_party_and_shared_ones_follow_the_umask(
    project: Project, mask: int, shared: int
) -> None:
    with umask(mask):
        assert train(project, "--output", "run") == 0
    found = rights(project.path("run"))
    assert found.pop(".") == found.pop("parties") == 0o700
    assert {name: found.pop(name) for name in SHARED} == dict.fromkeys(SHARED, shared)
    assert {name.split(".", 1)[1] for name in found} == {"html", "people.npz", "outcome.json", "log.jsonl"}
    assert set(found.values()) == {0o600}, found


def test_the_parts_of_a_model_are_their_parties_own(project: Project) -> None:
    project.edit("job.toml", '"moments"', '"intermediate"')
    with umask(0o022):
        assert train(project, "--output", "run") == 0
    found = rights(project.path("run"))
    assert {found[f"parties/{party}.model.json"] for party in ("bank", "insurer")} == {0o600}
    assert found["facts.json"] == found["report.html"] == 0o644


def test_a_draft_that_a_killed_process_left_gives_a_file_no_rights(tmp_path: Path) -> None:
    from colonnade.federation.files import write_whole

    left = tmp_path / f".own.{os.getpid()}.draft"
    left.write_text("half")
    left.chmod(0o666)
    write_whole(tmp_path / "own", "whole", own=True)
    assert rights(tmp_path) == {".": rights(tmp_path)["."], "own": 0o600}
    assert (tmp_path / "own").read_text() == "whole"
