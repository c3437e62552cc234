"""A ledger that is gone: what was spent is not forgotten in silence, and beginning again is said aloud."""

from pathlib import Path
from typing import Any

from certificates import Root
from cli_project import Cli, Project, train
from relayed_jobs import houses, run_job, unseeded
from two_houses import MEMBERS, job_text

from colonnade.cli.app import run
from colonnade.ledger import Ledger

INPUT, LEDGER = 3, 6


def lose(folder: Path, party: str) -> None:
    for path in folder.glob(f"{party}.ledger*"):
        path.unlink()


def test_a_first_ledger_is_announced_and_one_that_is_gone_is_refused_until_it_is_begun_anew(
    project: Project, cli: Cli
) -> None:
    out = cli("train job.toml --output first")
    assert out.count("is new: what") == 2 and out.index("within every budget") < out.index("is new: what")
    assert cli.facts("train job.toml --output second")["new_ledgers"] == {}
    lose(project.folder, "bank")
    charged = project.charges("insurer")
    before = project.files()
    said = cli("train job.toml --output third", code=LEDGER)
    assert said.startswith("error E605: ") and "insurer holds receipts of a ledger of bank" in said
    assert "`colonnade ledger bank.toml --new`" in said
    assert (project.charges("insurer"), project.path("bank.ledger").exists()) == (charged, False)
    assert project.files() == before

    findings = {item["what"]: item for item in cli.facts("doctor job.toml", code=INPUT)["findings"]}
    assert not findings["bank ledger"]["fine"] and "E605" in findings["bank ledger"]["found"]
    assert findings["insurer ledger"]["fine"]

    assert "begun anew: the disk was lost" in cli(
        "ledger", "bank.toml", "--new", "--reason", "the disk was lost"
    )
    assert train(project, "--output", "third") == 0
    out = cli("doctor job.toml")
    assert out.count("1 receipt that peers here hold agrees") == 2
    assert "It agrees with 1 receipt kept by insurer" in cli("ledger bank.toml --witness insurer.toml")


def test_another_ledger_in_the_place_of_the_known_one_is_refused(trained: Project, cli: Cli) -> None:
    lose(trained.folder, "bank")
    Ledger.create(trained.path("bank.ledger"), "bank")
    assert "is not the ledger of bank that a peer holds receipts of" in cli(
        "train job.toml --output second", code=LEDGER
    )
    assert trained.charges("bank") == 0
    # It holds no charge, so it may be given up, and is kept.
    assert run(["ledger", "bank.toml", "--new"]) == 0
    assert trained.path("bank.ledger.before").exists()
    assert train(trained, "--output", "second") == 0


def test_sites_refuse_a_peers_new_ledger_before_anything_is_charged(tmp_path: Path) -> None:
    kits = houses(tmp_path, Root.make())
    texts = dict.fromkeys(MEMBERS, job_text('method = "moments"'))

    def states(job_id: str) -> set[str]:
        unseeded(kits)
        outcomes.update(run_job(kits, texts=texts, job_id=job_id))
        return {item["state"] for item in outcomes.values()}

    outcomes: dict[str, dict[str, Any]] = {}
    assert states("one") == {"finished"}
    (place,) = tmp_path.rglob("bank.ledger")
    lose(place.parent, "bank")
    assert states("two") == {"failed"}
    for member in MEMBERS:
        assert "is not the ledger of bank that" in outcomes[member]["reason"], outcomes[member]
    assert not any(entry.kind == "charge" for entry in Ledger.open(place).entries())
    (party,) = tmp_path.rglob("bank.toml")
    assert run(["ledger", str(party), "--new"]) == 0
    assert states("three") == {"finished"}
    # A ledger that goes on is known, whatever came before it.
    assert states("four") == {"finished"}
