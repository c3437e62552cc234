"""A job between sites that holds people out: every member cuts alike, and its ledger counts the part."""

import json
from pathlib import Path

import pytest
import two_houses
from certificates import Root
from relayed_jobs import houses, run_job
from two_houses import MEMBERS, MOMENTS, PARTIES, give_bank_two_labels, in_process, job_text

from colonnade.federation.holdout import kept_cut
from colonnade.ledger import Ledger
from colonnade.sites.kit import Kit

ROOT = Root.make()


@pytest.fixture
def kits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Kit]:
    """Every member's kit, and every party's own files, in one folder; enough people to judge on."""
    monkeypatch.setattr(two_houses, "ROWS", 2000)
    return houses(tmp_path, ROOT)


def test_members_cut_alike_and_charge_the_training_part(kits: dict[str, Kit], tmp_path: Path) -> None:
    everybody = in_process(MOMENTS).runs[0].plan.rows
    # Of two labels the model of the first is judged.
    give_bank_two_labels(tmp_path)
    text = f"held_out = 0.2\n{job_text(MOMENTS, epsilon=4.0)}"
    outcomes = run_job(kits, texts=dict.fromkeys(MEMBERS, text))
    notify = [outcome.get("reason") for outcome in outcomes.values()]
    assert {outcome["state"] for outcome in outcomes.values()} == {"finished"}, notify
    rows = {outcome["rows"] for outcome in outcomes.values()}
    assert len(rows) == 1 and 0.5 * everybody < rows.pop() < everybody
    for member in PARTIES:
        facts = json.loads((kits[member].run_folder("j1") / "facts.json").read_text())
        assert facts["evaluated"] and [one["model"] for one in facts["labels"]] == [
            "model.json",
            "model-2.json",
        ]
    keys, parts = set(), []
    for party in PARTIES:
        (path,) = tmp_path.rglob(f"{party}*.ledger")
        ledger = Ledger.open(path)
        charged = [entry.body for entry in ledger.entries() if entry.kind == "charge"]
        parts.append([body["release"].get("part", {}).get("name") for body in charged])
        cut = kept_cut(path, charged[-1]["dataset"])
        assert cut is not None and cut.share == 0.2
        keys.add(cut.key)
    assert len(keys) == 1 and parts == [["training", "held-out"]] * 2
