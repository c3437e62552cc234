"""A party whose disk is full tells its peers at once, whatever of its own it could not write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from certificates import Root
from relayed_jobs import houses, run_job
from two_houses import MEMBERS, charges, job_text, split

from colonnade.federation import site
from colonnade.federation.whole_files import open_own
from colonnade.runtime.journal import Journal

FULL = Path("/dev/full")


class _Full:
    """A file on a disk that is full."""

    def write(self, _contents: bytes) -> int:
        raise OSError(28, "No space left on device")

    def close(self) -> None:
        """It has nothing to write."""


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
def test_peers_are_told_that_a_party_cannot_write_and_the_job_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kits = houses(tmp_path, Root.make())
    texts = dict.fromkeys(MEMBERS, job_text(split(2)))
    append, write = Journal._append, site._write

    def full_append(journal: Journal, kind: int, peer: str, step: str, frame: bytes, **more: Any) -> Any:
        if "shop" in str(journal._folder) and step == "scores 1":
            journal._file.close()
            journal._file = _Full()  # type: ignore[assignment]
        return append(journal, kind, peer, step, frame, **more)

    def full_write(path: Path, facts: dict[str, Any]) -> None:
        if "shop" in str(path):
            raise OSError(28, "No space left on device")
        write(path, facts)

    def full_log(path: Path) -> Any:
        return FULL.open("w") if "shop" in str(path) else open_own(path)

    with monkeypatch.context() as disk:
        disk.setattr(Journal, "_append", full_append)
        disk.setattr(site, "_write", full_write)
        disk.setattr(site, "open_own", full_log)
        broken = run_job(kits, texts=texts)
    assert "nothing leaves that is not in the record of the run" in broken["shop"]["reason"]
    assert "shop stopped: it cannot take part (InputError)" in broken["bank"]["reason"], broken["bank"]
    ended = run_job(kits, texts=texts, job_id="j2", resumes="j1")
    assert {outcome["state"] for outcome in ended.values()} == {"finished"}, ended
    assert [charges(tmp_path, party) for party in ("bank", "shop")] == [1, 1]
