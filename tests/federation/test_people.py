"""Lists of people trained on: told by rules, joined over runs, lost to nobody."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import Federation, Ledger
from colonnade.data.declaring import Spelling
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import CannotWrite, ModelError, TrainedOn
from colonnade.models.files.membership import IdRules, TrainingMembership, remember, remembered
from colonnade.randomness import SystemRandomness

RULES = IdRules("customer", Spelling())


def table(names: list[str], declared: str = '"customer"') -> Table:
    schema = Schema.parse(f'id = {declared}\ncolumns.age = {{kind = "numeric", low = 0, high = 99}}')
    return Table.from_arrays("bank", {schema.id: names, "age": [1] * len(names)}, schema)


def test_a_list_is_read_back_and_tells_members_from_strangers(tmp_path: Path) -> None:
    names = [f"p{number}" for number in range(500)]
    TrainingMembership.of(names, RULES, SystemRandomness(), dataset="customers", run="r").save(
        tmp_path / "people.npz"
    )
    people = TrainingMembership.load(tmp_path / "people.npz")
    assert (len(people), people.rules, people.dataset, people.runs) == (500, RULES, "customers", ("r",))
    assert all(name in people for name in names) and not any(f"q{name}" in people for name in names)


def test_a_data_set_remembers_everybody_of_every_run_and_nobody_of_another(tmp_path: Path) -> None:
    ledger = tmp_path / "bank [1].ledger"
    remember(ledger, "customers", table(["a", "b"]), run="first")
    remember(ledger, "customers", table(["b", "c"]), run="second")
    remember(ledger, "visitors", table(["d"]), run="third")
    (people,) = remembered(ledger, "customers")
    assert len(people) == 3 and people.runs == ("first", "second")
    assert all(name in people for name in "abc") and "d" not in people
    assert remembered(tmp_path / "bank.ledger", "customers") == remembered(None, "customers") == ()
    # Named in another way, they are other lists of the same data set.
    remember(ledger, "customers", table(["A"], '{column = "customer", case = "upper"}'), run="fourth")
    assert len(remembered(ledger, "customers")) == 2


def test_runs_that_end_at_once_are_all_remembered(tmp_path: Path) -> None:
    ledger = tmp_path / "bank.ledger"
    with ThreadPoolExecutor(8) as pool:
        for done in [
            pool.submit(remember, ledger, "customers", table([f"p{number}"]), run=str(number))
            for number in range(24)
        ]:
            done.result()
    (people,) = remembered(ledger, "customers")
    assert len(people) == 24 and set(people.runs) == {str(number) for number in range(24)}
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".lock", ".npz"]


def test_only_ids_read_as_in_training_can_be_asked(tmp_path: Path) -> None:
    people = TrainingMembership.of(["a"], RULES, SystemRandomness())
    people.check_rules("bank", table(["a"]).schema)
    for declared in ('"number"', '{column = "customer", case = "lower"}'):
        with pytest.raises(TrainedOn, match=r"bank: people were trained on under ids of column 'customer'"):
            people.check_rules("bank", table(["a"], declared).schema)


def test_a_list_of_a_later_format_and_a_strange_one_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "people.npz"
    parts: dict[str, Any] = {"key": np.zeros(32, dtype=np.uint8), "digests": np.zeros(0, dtype=np.uint64)}

    def write(about: object) -> None:
        np.savez(path, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), **parts)

    strange: object = {"format": 2, "column": "a", "rules": {"case": "?"}, "dataset": "", "runs": []}
    for about in ({"format": 3}, {}, [], strange):
        write(about)
        with pytest.raises(ModelError):
            TrainingMembership.load(path)


def test_a_list_that_cannot_be_written_stops_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = 'id = "customer"\ncolumns.{} = {{kind = "numeric", low = 0, high = 99}}'
    rng = np.random.default_rng(1)
    tables = [
        Table.from_arrays(
            party,
            {"customer": list(range(50)), party: rng.uniform(0, 99, 50)},
            Schema.parse(declared.format(party)),
        )
        for party in ("bank", "shop")
    ]
    ledgers = {party: Ledger.create(tmp_path / f"{party}.ledger", party) for party in ("bank", "shop")}
    for party, ledger in ledgers.items():
        ledger.set_budget(party, "*", "*", epsilon=4.0, delta=1e-5)
    federation = Federation(tables, ledgers=ledgers)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TrainingMembership, "save", full)
    with pytest.raises(CannotWrite, match=r"cannot be remembered .*No space left.*Nothing was charged"):
        federation.moments(task="pca", epsilon=1.0, delta=1e-5)
    assert not any(entry.kind == "charge" for ledger in ledgers.values() for entry in ledger.entries())
    assert remembered(ledgers["bank"].path, "bank") == ()
    monkeypatch.undo()
    federation.moments(task="pca", epsilon=1.0, delta=1e-5)
    (people,) = remembered(ledgers["bank"].path, "bank")
    assert len(people) == 50 and people.runs == (federation.runs[-1].name,)
