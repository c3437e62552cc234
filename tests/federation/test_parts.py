"""A share of the people held out: cut alike by all parties, in every run, and counted apart."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_specs import requested as spec_of

from colonnade import Federation, Ledger, Schema, Table
from colonnade.errors import GroupMismatch, ModelDamaged, OutOfRange, PlanError, RemoteProtocolError
from colonnade.federation.holdout import kept_split
from colonnade.federation.job import Job
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import moments_session
from colonnade.protocols.agreement import PartSpec

PEOPLE = 600


def table(party: str, seed: int, *, label: bool = False, people: range = range(PEOPLE)) -> Table:
    text = f'id = "n"\ncolumns.{party}_value = {{kind = "numeric", low = -4, high = 4}}\n'
    if label:
        text += '[label]\ncolumn = "buys"\nkind = "classes"\nclasses = ["no", "yes"]\n'
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.array(people))
    values = np.random.default_rng(seed).normal(size=max(people) + 1)[order]
    columns = {"n": [f"p{number}" for number in order], f"{party}_value": values.clip(-4, 4)}
    if label:
        columns["buys"] = np.where(values > 0, "yes", "no")
    return Table.from_arrays(party, columns, Schema.parse(text))


def federation(tmp_path: Path | None = None, held_out: float | None = 0.2, **options: object) -> Federation:
    tables = [table("bank", 1, label=True), table("shop", 2)]
    ledgers = {}
    for name in ("bank", "shop") if tmp_path is not None else ():
        path = Path(str(tmp_path)) / f"{name}.ledger"
        ledgers[name] = Ledger.open(path) if path.exists() else Ledger.create(path, name)
        ledgers[name].set_budget(name, "*", "*", epsilon=9.0, delta=1e-5)
    budget = None if tmp_path is not None else (9.0, 1e-5)
    return Federation(tables, budget=budget, ledgers=ledgers, held_out=held_out, **options)  # type: ignore[arg-type]


REQUEST = spec_of(MomentsOptions, "classification", 2.0, delta=1e-5)


def people(run: object) -> dict[str, list[str]]:
    return {owner: list(aligned.table.ids()) for owner, aligned in run.aligned.items()}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("share", "name", "rows", "many"), [(0.3, "held-out", 9, 3), (0.3, "training", 9, 6)]
)
def test_a_part_has_a_whole_number_of_people_and_never_none(
    share: float, name: Any, rows: int, many: int
) -> None:
    found = PartSpec(share, name).people(rows)
    assert found == many and isinstance(found, int)
    assert PartSpec(0.1, "held-out").people(2) == 1


def test_every_data_set_is_split_by_a_key_of_its_own() -> None:
    first, second = (set(people(federation().run(moments_session, REQUEST))["bank"]) for _ in range(2))
    assert first != second


def test_both_parties_cut_alike_and_the_parts_are_all_of_the_people() -> None:
    parties = federation()
    training = people(parties.run(moments_session, REQUEST))
    held_out = people(parties.run(moments_session, REQUEST, part="held-out"))
    assert training["bank"] == training["shop"] and held_out["bank"] == held_out["shop"]
    assert not set(training["bank"]) & set(held_out["bank"])
    assert len(training["bank"]) + len(held_out["bank"]) == PEOPLE
    # Five standard deviations of a share of 0.2 of 600.
    assert abs(len(held_out["bank"]) - 120) < 50


@pytest.mark.parametrize("held_out", [0.2, None])
def test_a_second_release_about_the_other_part_adds_nothing_and_without_parts_it_would(
    held_out: float | None,
) -> None:
    parties = federation(held_out=held_out)
    parties.run(moments_session, REQUEST)
    before = {name: parties.ledgers[name].totals() for name in parties.tables}
    parties.run(moments_session, REQUEST, part="training" if held_out is None else "held-out")
    for name, totals in before.items():
        for after, total in zip(parties.ledgers[name].totals(), totals, strict=True):
            assert after.entries == 2
            assert (after.epsilon > total.epsilon) if held_out is None else after.epsilon == total.epsilon


def test_a_cut_is_kept_beside_the_ledger_and_used_again(tmp_path: Path) -> None:
    first = people(federation(tmp_path).run(moments_session, REQUEST))
    splits = [kept_split(tmp_path / f"{name}.ledger", name) for name in ("bank", "shop")]
    assert splits[0] is not None and splits[1] is not None and splits[0].key == splits[1].key
    again = people(federation(tmp_path).run(moments_session, REQUEST, part="held-out"))
    assert not set(first["bank"]) & set(again["bank"])
    assert len(first["bank"]) + len(again["bank"]) == PEOPLE


def test_the_key_of_whoever_was_cut_before_is_used_and_another_key_counts_in_full(tmp_path: Path) -> None:
    federation(tmp_path).run(moments_session, REQUEST)
    (mine,) = tmp_path.glob("bank.ledger.cut.*.json")
    mine.unlink()
    again = federation(tmp_path)
    again.run(moments_session, REQUEST, part="held-out")
    # The bank had no cut any more and took the shop's, so both count the parts apart.
    assert all(not total.otherwise for name in again.tables for total in again.ledgers[name].totals())
    said = json.loads(mine.read_text())
    mine.write_text(json.dumps({**said, "key": "00" * 32}))
    federation(tmp_path).run(
        moments_session, spec_of(MomentsOptions, "classification", 0.5, delta=1e-5), part="held-out"
    )
    for name in ("bank", "shop"):
        totals = Ledger.open(tmp_path / f"{name}.ledger").totals()
        assert all(total.otherwise == 1 and total.entries == 3 for total in totals)


def test_another_share_than_before_is_refused_and_nothing_is_charged(tmp_path: Path) -> None:
    federation(tmp_path).run(moments_session, REQUEST)
    with pytest.raises(PlanError, match=r"held_out = 0\.3, but bank's data set was cut at 0\.2 before"):
        federation(tmp_path, held_out=0.3).run(moments_session, REQUEST)
    assert all(total.entries == 1 for total in Ledger.open(tmp_path / "bank.ledger").totals())


def test_a_cut_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    federation(tmp_path).run(moments_session, REQUEST)
    next(tmp_path.glob("bank.ledger.cut.*.json")).write_text("{")
    with pytest.raises(ModelDamaged, match="should say how data set 'bank' is cut"):
        federation(tmp_path).run(moments_session, REQUEST)


@pytest.mark.parametrize("share", [0, 1, -0.2, 1.5])
def test_a_share_of_nobody_or_everybody_is_refused(share: float) -> None:
    with pytest.raises(PlanError, match="between 0 and 1"):
        federation(held_out=share)
    text = f'name = "risk"\ntask = "classification"\nparties = ["a", "b"]\nepsilon = 1.0\nheld_out = {share}'
    with pytest.raises(OutOfRange, match="held_out: found"):
        Job.parse(text)


def test_parties_that_hold_out_different_shares_name_the_difference() -> None:
    parties = federation()
    requested = parties.parts("training") | {"server": PartSpec(0.3, "training")}
    with pytest.raises((RemoteProtocolError, GroupMismatch, PlanError), match="held_out"):
        parties._run(moments_session, REQUEST, parts=requested)
