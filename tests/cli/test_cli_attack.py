"""`colonnade attack` as a user runs it."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_project import Cli
from encrypted_runs import WIDER

from colonnade.lab.campaign import Campaign
from colonnade.protocols import paillier


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two parties with public data, and keys that take no time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paillier, "PaillierKeys", lambda bits: WIDER)
    rng = np.random.default_rng(0)
    x = {"bank": rng.uniform(0, 1, (60, 3)), "shop": rng.uniform(0, 1, (60, 6))}
    yes = x["bank"].sum(axis=1) + x["shop"].sum(axis=1) > 4.5
    for party, values in x.items():
        names = [f"{party}{i}" for i in range(values.shape[1])]
        head = ["id", *names, *(["y"] if party == "bank" else [])]
        lines = [",".join(head)]
        for number, row in enumerate(values):
            label = [("yes" if yes[number] else "no")] if party == "bank" else []
            lines.append(",".join([str(number), *(f"{value:.6f}" for value in row), *label]))
        (tmp_path / f"{party}.csv").write_text("\n".join(lines) + "\n")
        schema = 'id = "id"\n' + "".join(
            f'columns.{n} = {{kind = "numeric", low = 0, high = 1}}\n' for n in names
        )
        if party == "bank":
            schema += 'label = {column = "y", kind = "classes", classes = ["no", "yes"]}\n'
        (tmp_path / f"{party}.schema.toml").write_text(schema)
        (tmp_path / f"{party}.toml").write_text(
            f'party = "{party}"\ndata = "{party}.csv"\nschema = "{party}.schema.toml"\ndataset = "made up"\n'
            f'ledger = "{party}.ledger"\npublic = true\n[[budget]]\nepsilon = 1.0\ndelta = 1e-5\n'
        )
    (tmp_path / "job.toml").write_text(
        'name = "risk"\ntask = "classification"\nparties = ["bank", "shop"]\nactive = "bank"\n'
        "epsilon = 0.5\ndelta = 1e-5\n"
    )
    return tmp_path


@pytest.mark.slow  # the same claim in process: tests/lab/test_attacks_campaign.py
def test_attacks_succeed_without_a_defence_and_fail_with_one(project: Path, cli: Cli) -> None:
    said = cli("attack job.toml --epochs 1 --people 24")
    assert "The encrypted gradient without a defence" in said and "refused: bank at step" in said
    facts = json.loads((project / "attacks" / "job" / "facts.json").read_text())
    rates = {
        (finding["attack"], finding["defence"]): finding["success"]["rate"]
        for finding in facts["findings"]
        if finding["success"] is not None
    }
    assert rates["labels from gradients", "none"] > 0.99
    assert rates["labels from packed answers", "none"] > 0.99
    # 60 coins: 0.39 is six standard deviations.
    assert abs(rates["labels from gradients", "sound"] - 0.5) < 0.42
    assert (project / "attacks" / "job" / "attacks.svg").exists()
    assert (project / "attacks" / "job" / "attacks.txt").read_text().splitlines()[0] in said
    # Nothing was charged: no ledger was even made.
    assert not (project / "bank.ledger").exists()


def test_attacks_are_told_to_programs(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Campaign, "findings", lambda self: iter(()))
    facts = cli.facts("attack job.toml --output out")
    assert facts["findings"] == [] and facts["people"] == 60 and facts["picture"] is None
    assert (project / "out" / "facts.json").exists()
