"""Which method is recommended, on what people it is rehearsed, and what a machine and a line do to seconds."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from forecast_jobs import planned, tables
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.schema import Schema
from colonnade.errors import InputError
from colonnade.learn.forecasting.choosing import AS_MUCH, TOLD_APART, Candidate, choose
from colonnade.learn.forecasting.cost import Cost
from colonnade.learn.forecasting.forecast import Expected, Forecast, forecast
from colonnade.learn.forecasting.invented import Invented
from colonnade.learn.forecasting.machine import Line, Machine
from colonnade.learn.forecasting.rehearsal import Rehearsals
from colonnade.learn.planning import Answer
from colonnade.methods.table import METHODS

NAMES = ("moments", "functional", "slr", "local", "intermediate", "one-shot")
EVERY_KIND = """id = "customer"
columns.age = {kind = "numeric", low = 18, high = 90}
columns.gain = {kind = "numeric", low = 0, high = 99999, transform = "log1p"}
columns.since = {kind = "date", low = 2000-01-01, high = 2020-12-31}
columns.band = {kind = "bins", edges = [0, 10, 20, 50], missing = "category"}
columns.sex = {kind = "binary", values = ["F", "M"]}
columns.job = {kind = "categorical", categories = ["clerk", "farmer", "none of these"]}
"""
LABELS = {
    "classes": 'label = {column = "y", kind = "classes", classes = ["a", "b", "c"]}',
    "real": 'label = {column = "y", kind = "real", low = -3, high = 4}',
    "count": 'label = {column = "y", kind = "count", low = 0, high = 9}',
}


def candidate(
    name: str, error: float | None, *, spread: float = 0.0, size: float = 1.0, admits: bool | None = True
) -> Candidate:
    expected = None if error is None else Expected(error, spread, 3, 100)
    made = Forecast(Cost({("a", "b", "x"): size}), True, None, "products", expected)
    return Candidate(METHODS[name], answers=(Answer("bank", admits, ""),), forecast=made)


errors = st.none() | st.floats(0, 1)


@given(st.lists(st.tuples(errors, st.integers(1, 9), st.sampled_from([True, False, None])), max_size=6))
def test_what_is_recommended_is_admitted_and_as_good_as_the_best(
    drawn: list[tuple[float | None, int, bool | None]],
) -> None:
    found = tuple(
        candidate(name, error, size=size, admits=admits)
        for name, (error, size, admits) in zip(NAMES, drawn, strict=False)
    )
    choice = choose(found)
    known = {
        item.method.name: item
        for item in found
        if item.admitted is not False and item.forecast is not None and item.forecast.expected is not None
    }
    assert (choice.recommended is None) == (not known) and choice.why
    if choice.recommended is None:
        return
    best = known[choice.recommended].forecast
    assert best is not None and best.expected is not None
    for item in known.values():
        made = item.forecast
        assert made is not None and made.expected is not None
        assert best.expected.error <= made.expected.error + TOLD_APART
        if made.expected.error <= best.expected.error:
            assert best.cost.bytes_sent <= AS_MUCH * made.cost.bytes_sent


def test_errors_that_draws_do_not_tell_apart_are_decided_by_bytes() -> None:
    near = [candidate("moments", 0.20, spread=0.02, size=50), candidate("local", 0.23, spread=0.02, size=5)]
    assert choose(tuple(near)).recommended == "local" and "sends clearly less" in choose(tuple(near)).why
    far = [candidate("moments", 0.20, spread=0.001, size=50), candidate("local", 0.23, spread=0.001, size=5)]
    assert choose(tuple(far)).recommended == "moments" and "least expected error" in choose(tuple(far)).why


def test_of_methods_that_are_alike_the_jobs_own_is_kept() -> None:
    alike = (candidate("moments", 0.20, size=52), candidate("functional", 0.20, size=50))
    assert choose(alike).recommended == "moments" and choose(alike[::-1]).recommended == "functional"


def test_what_is_refused_or_unknown_is_named_and_not_recommended() -> None:
    choice = choose(
        (candidate("moments", 0.1, admits=False), candidate("local", 0.4), candidate("slr", None))
    )
    assert choice.recommended == "local"
    assert "A budget refuses moments" in choice.why and "Nothing foretells the error of slr" in choice.why
    assert "No budget admits" in choose((candidate("moments", 0.1, admits=False),)).why
    assert "Nothing foretells" in choose((candidate("moments", None),)).why


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_invented_people_are_as_declared_and_the_same_every_time(label: str) -> None:
    schema = Schema.parse(EVERY_KIND + label).public("bank")
    people = Invented({"bank": schema}, 300, tested=50)
    table = people.tables(200)["bank"]
    assert table.public() == schema and table.rows == 200
    (block,) = table.blocks()
    (again,) = Invented({"bank": schema}, 300, tested=50).tables(200)["bank"].blocks()
    assert all(np.array_equal(block.columns[name], again.columns[name]) for name in block.columns)
    features = schema.encoder("linear").encode(block)
    assert np.isfinite(features).all() and np.abs(features).max() <= 1 + 1e-9
    assert block.label is not None and len(np.unique(block.label)) > 2
    assert people.held_out["bank"].rows == 50
    assert set(people.held_out["bank"].ids()).isdisjoint(table.ids())


def test_invented_columns_say_something_about_the_label() -> None:
    schema = Schema.parse(EVERY_KIND + LABELS["real"]).public("bank")
    (block,) = Invented({"bank": schema}, 4000).tables(4000)["bank"].blocks()
    features = schema.encoder("linear").encode(block)
    targets = np.asarray(block.label) - np.mean(np.asarray(block.label))
    fitted = features @ np.linalg.lstsq(features, targets, rcond=None)[0]
    # People and seed are fixed, so that this is a number and not a chance.
    assert 0.2 < np.var(fitted) / np.var(targets) < 0.9


def test_a_method_too_long_to_run_is_simulated_by_its_twin_or_on_fewer_people() -> None:
    made = tables([2, 2], 1500)
    rehearsals = Rehearsals(
        {table.party: table.public() for table in made}, effort=0.0, tries=1, weighed=False
    )
    asked, plan, _ = planned("slr", made, 1500, options={"epochs": 4.0})
    found = forecast(rehearsals, METHODS["slr"], asked, plan)
    assert not found.whole and found.expected is None and "--effort" in found.unknown
    asked, plan, _ = planned("intermediate", made, 1500, options={})
    quick = Rehearsals(rehearsals.schemas, effort=60.0, tries=1, draws=2, weighed=False)
    found = forecast(quick, METHODS["intermediate"], asked, plan)
    assert found.whole and found.expected is not None and found.expected.rows == 1500
    assert 0 <= found.expected.error <= 1 and found.to_data()["expected"]["draws"] == 2


def test_a_machine_comes_back_from_the_file_it_went_into(tmp_path: Path) -> None:
    machine = Machine(cores=4, products=1e9, draws=2e7, powers=3e5, floats=5e9)
    path = tmp_path / "there.json"
    for data in (machine.to_data(), {"machine": machine.to_data(), "name": "Default risk"}):
        path.write_text(json.dumps(data))
        assert Machine.load(path) == machine
    with pytest.raises(InputError, match="nowhere"):
        Machine.load(tmp_path / "nowhere.json")


@given(st.floats(1e3, 1e9), st.floats(0, 10), st.integers(0, 10**6), st.integers(0, 50))
def test_a_slower_line_never_takes_less_time(
    bandwidth: float, latency: float, size: int, rounds: int
) -> None:
    cost = Cost({("a", "b", "x"): float(size)}, {("b", "x"): float(rounds)})
    seconds = Line(bandwidth, latency).seconds(cost)
    assert math.isclose(seconds, rounds * latency + 8 * size / bandwidth)
    assert Line().seconds(cost) == 0 <= seconds <= Line(bandwidth / 2, 2 * latency).seconds(cost)
