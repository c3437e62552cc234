"""A disk that is full at one party, a real one: the party says so in its outcome, and peers name it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Root
from relayed_jobs import houses, run_job
from two_houses import MEMBERS, charges, job_text, split

from colonnade.sites.health import health
from colonnade.sites.kit import Kit

LITTLE = 1 << 18
Kits = dict[str, Kit]


@pytest.fixture
def kits(tmp_path: Path) -> Kits:
    return houses(tmp_path, Root.make(), seeded=False)


@pytest.fixture
def disk(kits: Kits) -> Iterator[Path]:
    runs = kits["shop"].runs
    runs.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={LITTLE}", "colonnade-test", str(runs)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a disk can be mounted by root only")
    try:
        yield runs
    finally:
        subprocess.run(["umount", "--lazy", str(runs)], check=True)


def test_a_disk_that_fills_up_is_told_by_its_party_and_named_by_peers(kits: Kits, disk: Path) -> None:
    outcomes = run_job(kits, texts=dict.fromkeys(MEMBERS, job_text(split(4000))))
    recorded = json.loads((disk / "j1" / "outcome.json").read_text())
    assert (recorded["state"], recorded["kind"]) == ("failed", "CannotWrite")
    assert "No space left" in recorded["reason"]
    assert "shop" in outcomes["bank"]["reason"] and "connection" not in outcomes["bank"]["reason"]
    assert health(kits["shop"]).jobs == {"finished": 0, "failed": 1, "running": 0, "waiting": 0}


def test_a_disk_that_is_full_already_costs_nothing(kits: Kits, disk: Path, tmp_path: Path) -> None:
    (disk / "j0").mkdir()
    (disk / "j0" / "outcome.json").write_text('{"state": "finished"}')
    with pytest.raises(OSError, match="No space left"), (disk / "j0" / "release.npz").open("wb", 0) as file:
        while True:
            file.write(bytes(1 << 12))
    outcomes = run_job(kits)
    assert outcomes["shop"]["kind"] == "CannotWrite" and "Nothing was charged" in outcomes["shop"]["reason"]
    assert "shop stopped: it cannot take part (InputError)" in outcomes["bank"]["reason"]
    assert [charges(tmp_path, party) for party in ("bank", "shop")] == [0, 0]
    facts = health(kits["shop"])
    assert any(f"free at {disk}" in problem for problem in facts.problems) and facts.jobs["running"] == 0
