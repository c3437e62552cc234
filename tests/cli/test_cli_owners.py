"""Five owners of columns: what a run left, coalitions without names too, is read by every verb that takes a run."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_project import Cli

from colonnade.evaluation.predict import load_model
from colonnade.models.release import MomentRelease

OWNERS = ("bank", "shop", "clinic", "school", "port")
PEOPLE = 60
# Methods that deal shares, with the options that make them short: of them plans state coalitions without names.
METHODS = {
    "moments": "",
    "margin": "steps = 2",
    "functional": "",
    "slr": "epochs = 2, rate = 1.0",
    "spca": "",
}


def values(first: int) -> dict[str, Any]:
    """People from this number on: a column of each owner, and the label."""
    drawn = np.random.default_rng(first)
    columns: dict[str, Any] = {"id": [f"p{first + row}" for row in range(PEOPLE)]}
    columns |= {f"of_{owner}": drawn.uniform(0, 1, PEOPLE).round(3) for owner in OWNERS}
    columns["risk"] = np.where(sum(columns[f"of_{owner}"] for owner in OWNERS) > 2.5, "high", "low")
    return columns


def write_table(path: Path, columns: dict[str, Any]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def write_people(folder: Path, method: str, *, first: int) -> None:
    """The files of all owners about some people, and a job; ledgers lie in the folder above, one for each owner."""
    folder.mkdir()
    columns, components = values(first), method == "spca"
    for number, owner in enumerate(OWNERS):
        held = ("id", f"of_{owner}", *(["risk"] if not number else []))
        write_table(folder / f"{owner}.csv", {name: columns[name] for name in held})
        declared = f'id = "id"\ncolumns.of_{owner} = {{kind = "numeric", low = 0, high = 1}}\n'
        if not number and not components:
            declared += 'label = {column = "risk", kind = "classes", classes = ["low", "high"]}\n'
        (folder / f"{owner}.schema.toml").write_text(declared)
        (folder / f"{owner}.toml").write_text(
            f'party = "{owner}"\ndata = "{owner}.csv"\nschema = "{owner}.schema.toml"\ndataset = "{folder.name}"\n'
            f'ledger = "../{owner}.ledger"\nbudget = [{{epsilon = 900.0, delta = 1e-5}}]\n'
        )
    task = 'task = "pca"' if components else f'task = "classification"\nactive = "{OWNERS[0]}"'
    (folder / "job.toml").write_text(
        f'name = "risk"\n{task}\nmethod = "{method}"\nparties = {json.dumps(OWNERS)}\n'
        f"epsilon = 20.0\ndelta = 1e-5\noptions = {{{METHODS[method]}}}\n"
    )


@pytest.mark.parametrize("method", METHODS)
def test_what_a_run_of_five_owners_left_is_read_by_every_verb(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(tmp_path)
    write_people(Path("trained"), method, first=0)
    write_people(Path("strangers"), method, first=1000)
    write_table(Path("rows.csv"), values(2000))
    stated = cli.facts("train", "trained/job.toml", "--output", "run")["guarantees"]
    assert "any 2 owners" in {item["observer"] for item in stated}
    for path in (*Path("run").glob("model*.json"), *Path("run/parties").glob("*.model.json")):
        assert len(load_model(path).privacy) == len(stated)
    if Path("run/release.npz").exists():
        assert len(MomentRelease.load("run/release.npz").guarantees) == len(stated)
    assert cli.facts("show", "run")["guarantees"] == stated
    cli("show run --verbose")
    cli.facts("report", "run", "--output", "page.html")
    assert len(cli.facts("predict", "run", "--rows", "rows.csv")["scores"]) == PEOPLE
    if method != "spca":
        assert cli.facts("evaluate", "run", "strangers/job.toml", "--epsilon", "20")["guarantees"]
    cli.facts("export", "run", "--onnx", "model.onnx", "--card", "card.md")
    paid = set()
    for owner in (OWNERS[0], OWNERS[-1]):
        kept = cli.facts("ledger", f"trained/{owner}.toml", "--export", f"{owner}.json")
        assert cli.facts("ledger", f"{owner}.json")["totals"] == kept["totals"]
        paid |= {total["observer"] for total in kept["totals"]}
    # A ledger names whom it charges for: coalitions without names are bounded beside the lines.
    assert paid and paid <= {item["observer"] for item in stated} | {"reader", "server"}
