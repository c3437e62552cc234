"""Every method with two to five owners of columns: what a run left is read again by every verb that takes it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_project import Cli

from colonnade.evaluation.predict import load_model
from colonnade.methods.method import Method
from colonnade.methods.table import METHODS
from colonnade.models.release import MomentRelease

OWNERS = ("bank", "shop", "clinic", "school", "port")
PEOPLE = 60
INPUT, PLAN = 3, 4


@dataclass(frozen=True)
class Case:
    """A method with a task, the options that make it short, and what it leaves of a model."""

    method: str
    task: str = "classification"
    options: str = ""
    released: bool = True
    epsilon: float = 20.0


CASES = (
    Case("moments"),
    Case("moments", "regression"),
    Case("moments", "pca"),
    Case("margin", options="steps = 2"),
    Case("functional"),
    Case("functional", "regression"),
    Case("encrypted", options="epochs = 1", released=False),
    Case("slr", options="epochs = 2, rate = 1.0"),
    Case("spca", "pca"),
    Case("local"),
    Case("private-messages", options="epochs = 2", released=False, epsilon=4.0),
    Case("one-shot", released=False, epsilon=4.0),
    Case("network", options="embedding = 2, epochs = 1", released=False),
)
# Those that deal shares: of them plans state coalitions without names, from four owners on.
SHARED = ("moments", "margin", "functional", "slr", "spca")


def values(first: int, owners: tuple[str, ...], task: str) -> dict[str, Any]:
    """People from this number on: a column of each owner, and the label."""
    drawn = np.random.default_rng(first)
    columns: dict[str, Any] = {"id": [f"p{first + row}" for row in range(PEOPLE)]}
    columns |= {f"of_{owner}": drawn.uniform(0, 1, PEOPLE).round(3) for owner in owners}
    high = sum(columns[f"of_{owner}"] for owner in owners) > len(owners) / 2
    columns["risk"] = np.where(high, "high", "low") if task == "classification" else high * 1.0
    return columns


def write_table(path: Path, columns: dict[str, Any]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def write_people(
    folder: Path, case: Case, owners: tuple[str, ...], *, first: int, public: bool = False
) -> None:
    """The files of all owners about some people, and a job; ledgers lie in the folder above, one for each owner."""
    folder.mkdir()
    columns, label = values(first, owners, case.task), ""
    if case.task != "pca":
        kind = 'kind = "classes", classes = ["low", "high"]'
        kind = kind if case.task == "classification" else 'kind = "real", low = 0, high = 1'
        label = f'label = {{column = "risk", {kind}}}\n'
    for number, owner in enumerate(owners):
        held = {name: columns[name] for name in ("id", f"of_{owner}", *(["risk"] if not number else []))}
        write_table(folder / f"{owner}.csv", held)
        declared = f'id = "id"\ncolumns.of_{owner} = {{kind = "numeric", low = 0, high = 1}}\n'
        (folder / f"{owner}.schema.toml").write_text(declared + ("" if number else label))
        (folder / f"{owner}.toml").write_text(
            f'party = "{owner}"\ndata = "{owner}.csv"\nschema = "{owner}.schema.toml"\ndataset = "{folder.name}"\n'
            f'ledger = "../{owner}.ledger"\nbudget = [{{epsilon = 900.0, delta = 1e-5}}]\n'
            f"public = {json.dumps(public)}\n"
        )
    active = "" if case.task == "pca" else f'active = "{owners[0]}"\n'
    options = f"options = {{{case.options}}}\n" if case.options else ""
    (folder / "job.toml").write_text(
        f'name = "risk"\ntask = "{case.task}"\nmethod = "{case.method}"\nparties = {json.dumps(owners)}\n{active}'
        f"epsilon = {case.epsilon}\ndelta = 1e-5\n{options}"
    )


def numbered() -> Iterator[Any]:
    """Every case with two to five owners; a study but where plans state coalitions without names, once a method."""
    for place, case in enumerate(CASES):
        first = case.method not in {before.method for before in CASES[:place]}
        for count in range(2, len(OWNERS) + 1):
            quick = first and case.method in SHARED and count == len(OWNERS)
            marks = () if quick else (pytest.mark.slow,)
            yield pytest.param(case, count, id=f"{case.method}-{case.task}-{count}", marks=marks)


@pytest.mark.parametrize(("case", "count"), list(numbered()))
def test_what_a_run_of_so_many_owners_left_is_read_by_every_verb(
    case: Case, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    if case.method == "network":
        pytest.importorskip("torch")
    owners = OWNERS[:count]
    monkeypatch.chdir(tmp_path)
    write_people(Path("trained"), case, owners, first=0)
    # By weights that were made with exact values nobody is scored but whoever is public.
    apart = not case.released and case.method != "network"
    write_people(Path("strangers"), case, owners, first=1000, public=apart)
    write_table(Path("rows.csv"), values(2000, owners, case.task))

    stated = cli.facts("train", "trained/job.toml", "--output", "run")["guarantees"]
    assert (f"any {count // 2} owners" in {item["observer"] for item in stated}) == _unnamed(case, count)
    for path in (*Path("run").glob("model*.json"), *Path("run/parties").glob("*.model.json")):
        assert len(load_model(path).privacy) == len(stated)
    if Path("run/release.npz").exists():
        assert len(MomentRelease.load("run/release.npz").guarantees) == len(stated)

    assert cli.facts("show", "run")["guarantees"] == stated
    cli("show run --verbose")
    cli.facts("report", "run", "--output", "page.html")
    assert "<html" in Path("page.html").read_text()
    scored = ["predict", "run", *(["--rows", "rows.csv"] if case.released else ["strangers/job.toml"])]
    assert len(cli.facts(*scored)["scores"]) == PEOPLE
    _judged(case, cli)
    _exported(case, cli)
    paid = set()
    for owner in (owners[0], owners[-1]):
        kept = cli.facts("ledger", f"trained/{owner}.toml", "--export", f"{owner}.json")
        assert cli.facts("ledger", f"{owner}.json")["totals"] == kept["totals"]
        paid |= {total["observer"] for total in kept["totals"]}
    # A ledger names whom it charges for: coalitions without names are bounded beside the lines.
    assert paid and paid <= {item["observer"] for item in stated} | {"reader", "server"}


def _unnamed(case: Case, count: int) -> bool:
    """Whether the plan states coalitions without names, so that a case shows that they are read again."""
    return case.method in SHARED and count > 3


def _judged(case: Case, cli: Cli) -> None:
    """On private people and on a file, where the model is released; by noisy scores, where it is a network."""
    on_file = ["evaluate", "run", "--rows", "rows.csv", "--label", "risk"]
    if case.released and case.task != "pca":
        cli.facts(*on_file)
    if case.method == "network" or (case.released and case.task != "pca"):
        assert cli.facts("evaluate", "run", "strangers/job.toml", "--epsilon", "20")["guarantees"]
    elif case.released:
        assert "components" in cli(*on_file, code=PLAN)
    else:
        assert "stay with their parties" in cli("evaluate", "run", "strangers/job.toml", code=INPUT)


def _exported(case: Case, cli: Cli) -> None:
    verb = ["export", "run", "--onnx", "model.onnx", "--card", "card.md"]
    if case.released:
        pytest.importorskip("onnx")
        cli.facts(*verb)
        assert Path("model.onnx").stat().st_size and "ε" in Path("card.md").read_text()
    else:
        assert "stay with their parties" in cli(*verb, code=INPUT)


def test_every_method_is_held_to_this() -> None:
    protocols = {method.name for method in METHODS.values() if isinstance(method, Method)}
    assert {case.method for case in CASES} == protocols
