"""Which method is recommended, on what people it is rehearsed, and what a machine and a line do to seconds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forecast_jobs import planned, tables
from hypothesis import given
from hypothesis import strategies as st
from typed import untyped

from colonnade.cli.plan import facts
from colonnade.data.schema import Schema
from colonnade.errors import InputError
from colonnade.federation.job import Job
from colonnade.forecast.cost import Cost
from colonnade.forecast.forecast import Expected, Forecast, forecast
from colonnade.forecast.machine import Machine, NetworkLink
from colonnade.forecast.pairs import MOST_TRIALS, ONE_PAIR, best_of, difference, race
from colonnade.forecast.pilot_run import PilotRuns
from colonnade.forecast.plan_job import Answer
from colonnade.forecast.recommend import AS_MUCH, Candidate, choose
from colonnade.forecast.synthetic import Invented
from colonnade.forecast.work import Work
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
    name: str, error: float | None, *errors: float | None, size: float = 1.0, admits: bool | None = True
) -> Candidate:
    expected = None if error is None else Expected((error, *errors), 100)
    made = Forecast(Cost({("a", "b", "x"): size}), True, None, "products", expected)
    return Candidate(untyped(METHODS[name]), answers=(Answer("bank", admits, ""),), forecast=made)


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
        assert best.expected.error <= made.expected.error + ONE_PAIR
        if made.expected.error <= best.expected.error:
            assert best.cost.bytes_sent <= AS_MUCH * made.cost.bytes_sent


def test_a_method_with_a_wide_error_bar_is_not_recommended_over_a_better_one() -> None:
    # What people drawn anew do to one they do to the other: only the difference counts.
    sure = candidate("moments", 0.20, 0.24, 0.28, 0.22, size=50)
    wide = candidate("local", 0.23, 0.29, 0.32, 0.26, size=5)
    assert choose((sure, wide)).recommended == "moments"
    assert "least expected error" in choose((sure, wide)).why


def test_a_difference_within_its_own_error_is_a_tie_and_goes_to_what_sends_less() -> None:
    one = candidate("slr", 0.20, 0.24, 0.28, 0.22, size=50)
    other = candidate("moments", 0.23, 0.22, 0.29, 0.22, size=5)
    choice = choose((one, other))
    assert choice.recommended == "moments"
    assert "in 4 trials on the same people it differs from that of slr by 0.005 ± " in choice.why
    assert "a tie goes to what is simpler and cheaper" in choice.why


def test_what_a_third_method_is_told_apart_from_is_no_tie() -> None:
    # Two trials of the least tell nobody apart from it: the difference to the last is 0.1 ± 0.4.
    least, near = candidate("slr", 0.276, 0.277, size=50), candidate("moments", 0.28, 0.272, 0.279, size=20)
    far = candidate("one-shot", 0.402, 0.355, 0.383, size=1)
    assert difference(Expected((0.402, 0.355), 9), Expected((0.276, 0.277), 9)).margin > 0.2
    assert choose((near, least, far)).recommended == "moments"


TRIALS = st.lists(st.floats(0, 1), min_size=2, max_size=6)


@given(TRIALS, TRIALS, st.floats(-0.2, 0.2))
def test_what_all_trials_share_does_not_matter_to_a_difference(
    one: list[float], other: list[float], shift: float
) -> None:
    plain = difference(Expected(tuple(one), 9), Expected(tuple(other), 9))
    moved = difference(
        Expected(tuple(error + shift * place for place, error in enumerate(one)), 9),
        Expected(tuple(error + shift * place for place, error in enumerate(other)), 9),
    )
    if plain.pairs > 1:
        assert moved.mean == pytest.approx(plain.mean, abs=1e-9)
        assert moved.margin == pytest.approx(plain.margin, abs=1e-6)
    back = difference(Expected(tuple(other), 9), Expected(tuple(one), 9))
    assert back.mean == pytest.approx(-plain.mean) and back.margin == pytest.approx(plain.margin)
    assert not (plain.worse and back.worse)


def test_the_margin_of_a_difference_covers_the_truth_at_its_rate() -> None:
    # Student's interval, so exact for normal differences; 2,000 draws, z at 1e-9.
    rng, missed = np.random.default_rng(1), 0
    for _ in range(2000):
        people, truth = rng.normal(0, 0.05, 4), 0.01
        one = people + truth + rng.normal(0, 0.01, 4)
        gap = difference(Expected(tuple(one), 9), Expected(tuple(people), 9))
        missed += abs(gap.mean - truth) > gap.margin
    assert abs(missed - 100) / math.sqrt(2000 * 0.05 * 0.95) < 6.1


def test_trials_that_one_of_two_lacks_are_left_out_of_their_difference() -> None:
    gap = difference(Expected((0.3, None, 0.5, 0.9), 9), Expected((0.1, 0.2, 0.3), 9))
    assert gap.pairs == 2 and gap.mean == pytest.approx(0.2)


def test_who_has_the_least_mean_by_luck_of_its_people_gives_way_to_who_is_better_in_pairs() -> None:
    lucky, steady = Expected((0.20, 0.21), 9), Expected((0.10, 0.1105, 0.40, 0.41), 9)
    assert lucky.error < steady.error and best_of([lucky, steady]) == 1


def runner(errors: dict[int, float], ran: list[int], first: int = 2) -> Forecast:
    def trial(number: int) -> float:
        ran.append(number)
        return errors[number]

    expected = Expected(tuple(errors[number] for number in range(first)), 9)
    return Forecast(Cost({}), True, None, "products", expected, trial=trial)


def test_only_those_that_cannot_be_told_apart_run_again_and_all_of_them_the_same_trials() -> None:
    rng = np.random.default_rng(3)
    people = rng.normal(0.3, 0.05, 20)
    near, also, far = (dict(enumerate(people + gap + rng.normal(0, 0.002, 20))) for gap in (0, 0.0005, 0.3))
    runs: list[list[int]] = [[], [], []]
    ended = race(
        [runner(errors, ran) for errors, ran in zip((near, also, far), runs, strict=True)], seconds=60
    )
    assert runs[0] == runs[1] == list(range(2, MOST_TRIALS)) and len(runs[2]) <= 2
    assert [len(made.expected.errors) for made in ended[:2] if made.expected] == [MOST_TRIALS] * 2


def test_a_race_ends_when_time_is_up_and_leaves_who_cannot_run_again_alone() -> None:
    ran: list[int] = []
    once = Forecast(Cost({}), False, None, "products", Expected((0.3,), 9))
    made = runner(dict.fromkeys(range(9), 0.3), ran)
    assert race([made, once], seconds=0.0) == (made, once) and not ran
    assert race([once, once], seconds=9.0) == (once, once)
    assert race([], seconds=9.0) == ()


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


def test_people_of_another_draw_are_others_with_the_same_columns() -> None:
    schema = Schema.parse(EVERY_KIND + LABELS["real"]).public("bank")
    fits = []
    for draw, people in ((0, 4000), (1, 4000), (0, 300)):
        (block,) = Invented({"bank": schema}, people, draw=draw).tables(people)["bank"].blocks()
        x = np.column_stack([schema.encoder("linear").encode(block), np.ones(people)])
        fits.append((block, np.linalg.lstsq(x, np.asarray(block.label), rcond=None)[0]))
    (one, fit), (other, again), _ = fits
    assert not np.array_equal(one.columns["age"], other.columns["age"])
    assert np.corrcoef(fit, again)[0, 1] > 0.95, "what columns say of the label is the same"


def test_a_plan_has_one_answer() -> None:
    made = tables([2, 2], 600)
    asked, plan, _ = planned("moments", made, 600, options={})
    schemas = {table.party: table.public() for table in made}
    one, again = (
        forecast(PilotRuns(schemas, weighed=False), untyped(METHODS["moments"]), asked, plan)
        for _ in range(2)
    )
    assert one.expected == again.expected and one.expected is not None and len(one.expected.errors) == 2
    assert one.trial is not None and again.trial is not None and one.trial(5) == again.trial(5)


def test_progress_goes_forward_and_is_full_only_at_the_end() -> None:
    heard: list[int] = []
    work = Work(lambda step, done, total: heard.append(done), parts=3)
    for left in (5.0, 1.0, 0.1):
        work.told(left)
        work.done()
    assert max(heard) < 100
    work.end()
    assert heard == sorted(heard) and heard[-1] == 100


def test_progress_takes_parts_to_come_for_as_long_as_the_first() -> None:
    heard: list[int] = []
    work = Work(lambda step, done, total: heard.append(done), parts=10)
    work.told(600.0)
    work.done()
    assert max(heard) <= 10


def test_the_progress_of_a_plan_begins_before_trials_choose_its_method_and_is_full_when_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[tuple[str, int]] = []

    def noting(name: str) -> Any:
        real = getattr(facts, name)

        def noted(*given: Any, **named: Any) -> Any:
            heard.append((f"{name} begins", 0))
            made = real(*given, **named)
            heard.append((f"{name} ends", 0))
            return made

        return noted

    for name in ("settle", "candidates", "error_without_privacy"):
        monkeypatch.setattr(facts, name, noting(name))
    made = tables([2, 2], 300)
    owners = [table.party for table in made]
    job = Job.parse(
        f"name = 'n'\ntask = 'classification'\nparties = {owners}\nactive = '{owners[0]}'\nepsilon = 4.0\ndelta = 1e-6"
    )
    facts.plan_facts(
        job,
        {table.party: table.public() for table in made},
        files={},
        rows=300,
        held=dict.fromkeys(owners, 300),
        named=frozenset(),
        effort=0.01,
        advance=lambda step, done, total: heard.append((step, done)),
    )
    words, shown = [word for word, _ in heard], [done for word, done in heard if word == "rehearsing"]
    assert heard[0] == ("rehearsing", 0) and heard[-1] == ("rehearsing", 100) and shown == sorted(shown)
    assert shown.count(100) == 1
    for name in ("settle", "candidates"):
        assert "rehearsing" in words[words.index(f"{name} begins") : words.index(f"{name} ends")]
    assert words[-2] == "error_without_privacy ends"


def test_a_method_too_long_to_run_is_simulated_by_its_twin_or_on_fewer_people() -> None:
    made = tables([2, 2], 1500)
    rehearsals = PilotRuns(
        {table.party: table.public() for table in made}, effort=0.0, tries=1, weighed=False
    )
    asked, plan, _ = planned("slr", made, 1500, options={"epochs": 4.0})
    found = forecast(rehearsals, untyped(METHODS["slr"]), asked, plan)
    assert not found.whole and found.expected is None and "--effort" in found.unknown
    asked, plan, _ = planned("intermediate", made, 1500, options={})
    quick = PilotRuns(rehearsals.schemas, effort=60.0, tries=1, draws=2, weighed=False)
    found = forecast(quick, untyped(METHODS["intermediate"]), asked, plan)
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
    seconds = NetworkLink(bandwidth, latency).seconds(cost)
    assert math.isclose(seconds, rounds * latency + 8 * size / bandwidth)
    assert (
        NetworkLink().seconds(cost) == 0 <= seconds <= NetworkLink(bandwidth / 2, 2 * latency).seconds(cost)
    )
