"""Which method is recommended, on what people it is rehearsed, and what a line does to seconds."""

import math

import numpy as np
import pytest
from forecast_jobs import planned, tables
from hypothesis import given
from hypothesis import strategies as st
from typed import there, untyped

from colonnade.data.schema import Schema
from colonnade.methods.method import Method
from colonnade.methods.table import METHODS
from colonnade.planning.cost import Cost
from colonnade.planning.forecast import (
    FEWEST_PAIRS,
    MOST_TRIALS,
    Expected,
    Forecast,
    Work,
    best_of,
    difference,
    forecast,
    race,
)
from colonnade.planning.machine import NetworkLink
from colonnade.planning.pilot import PilotRuns, SyntheticPeople
from colonnade.planning.recommend import Admission, Candidate, choose
from colonnade.protocols.plans import Task

NAMES = ("moments", "functional", "slr", "local", "private-messages", "one-shot")
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


def candidate(name: str, *errors: float | None, admits: bool | None = True, split: bool = False) -> Candidate:
    known = any(error is not None for error in errors)
    expected = Expected(errors, 100) if known else None
    made = Forecast(Cost(), True, None, expected, split=split)
    return Candidate(untyped(METHODS[name]), answers=(Admission("bank", admits, ""),), forecast=made)


def expected_of(item: Candidate) -> Expected | None:
    return there(item.forecast).expected


ENTRIES = st.lists(
    st.tuples(
        st.lists(st.none() | st.floats(0, 1), max_size=5),
        st.booleans(),
        st.sampled_from([True, True, False, None]),
    ),
    min_size=1,
    max_size=6,
)


@given(ENTRIES, st.sampled_from(["", *NAMES]))
def test_only_who_is_shown_to_be_better_takes_the_place_of_the_jobs_own_or_the_usual_method(
    drawn: list[tuple[list[float | None], bool, bool | None]], usual: str
) -> None:
    entries = tuple(
        candidate(name, *(trials or [None]), split=split, admits=admits)
        for name, (trials, split, admits) in zip(NAMES, drawn, strict=False)
    )
    choice = choose(entries, usual=usual, lead=0.005)
    assert choice.why
    own = entries[0]
    may = {
        item.method.name: item
        for item in entries
        if item.admitted is not False
        and expected_of(item) is not None
        and (not there(item.forecast).split or there(own.forecast).split)
    }
    kept = may.get(own.method.name) or may.get(usual)
    if choice.recommended is None:
        assert kept is None and all(len(there(expected_of(item)).known) < 3 for item in may.values())
        return
    # Never what a budget refuses, whose error nobody knows, or in parts where nobody asked for it.
    best = there(expected_of(may[choice.recommended]))
    if kept is None:
        assert len(best.known) >= FEWEST_PAIRS
        return
    gap = difference(there(expected_of(kept)), best)
    if choice.recommended != kept.method.name:
        # Never by one trial, never with a larger error, never within chance.
        assert gap.pairs >= 3 and gap.mean > gap.margin >= 0
        # On people who suit a squared loss a lead of less than half a point over the usual method is none.
        assert gap.mean >= 0.005 or kept.method.name != usual
    for item in may.values():
        # Whoever stays is not shown to be worse than anybody it could have given way to.
        if choice.recommended == kept.method.name:
            lost = difference(best, there(expected_of(item)))
            assert not lost.worse or (lost.mean < 0.005 and kept.method.name == usual)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_one_or_two_trials_tell_nobody_apart(a: float, b: float, c: float, d: float) -> None:
    for one, other in (((a,), (b,)), ((a, b), (c, d)), ((a, b, c, d), (c, d)), ((a, None, b), (c, d, a))):
        assert not difference(Expected(one, 9), Expected(other, 9)).worse


OWN = candidate("margin", 0.171, 0.168)
CHEAP, BETTER = (candidate("one-shot", error, split=True) for error in (0.191, 0.101))
ALSO = candidate("moments", 0.172, 0.171)
IN_PARTS = candidate("private-messages", 0.30, 0.31, 0.32, 0.30, split=True)
PARTS = candidate("one-shot", 0.20, 0.21, 0.22, 0.20, split=True)
# What people drawn anew do to one they do to the other: only the difference counts.
SURE, WIDE = candidate("moments", 0.20, 0.24, 0.28, 0.22), candidate("local", 0.23, 0.29, 0.32, 0.26)
NEAR, NEXT = candidate("slr", 0.20, 0.24, 0.28, 0.22), candidate("moments", 0.23, 0.22, 0.27, 0.21)
REFUSED = candidate("slr", 0.1, 0.1, 0.1, admits=False)
USUAL, CLOSE = candidate("moments", 0.21, 0.22, 0.20), candidate("local", 0.20, 0.23, 0.20)
HARDLY, BARELY = candidate("slr", 0.206, 0.216, 0.196), candidate("local", 0.204, 0.214, 0.194)
FAR, ONCE = candidate("functional", 0.11, 0.12, 0.10), candidate("local", 0.2)
UNKNOWN = candidate("functional", None)
FEW = "Too few trials to compare it with: moments."
LEFT = "one-shot would leave the model in parts"


@pytest.mark.parametrize(
    ("entries", "recommended", "said"),
    [
        ((OWN, ALSO, CHEAP), "margin", ("in at least 3 trials on the same people", LEFT, FEW)),
        ((OWN, ALSO, BETTER), "margin", (LEFT, FEW)),
        ((IN_PARTS, PARTS), "one-shot", ("Its model stays in parts",)),
        ((USUAL, PARTS), "moments", (LEFT,)),
        ((SURE, WIDE), "moments", ()),
        ((WIDE, SURE), "moments", ("In 4 trials on the same people its error, 0.235, is smaller",)),
        ((NEAR, NEXT), "slr", ()),
        ((NEXT, NEAR), "moments", ()),
        ((REFUSED, CLOSE, USUAL), "moments", ("the usual one for this task", "A budget refuses slr")),
        ((REFUSED, CLOSE, USUAL, FAR), "functional", ()),
        ((USUAL, HARDLY), "moments", ("and by half a point",)),
        ((HARDLY, BARELY), "local", ("smaller than that of slr by 0.002",)),
        ((REFUSED, ONCE), None, ("No method was tried at least 3 times",)),
        ((REFUSED, CLOSE, UNKNOWN), "local", ("No error is known for functional",)),
        ((REFUSED,), None, ("No budget admits",)),
        ((UNKNOWN,), None, ("No error could be estimated",)),
    ],
)
def test_a_method_is_recommended_with_the_reason(
    entries: tuple[Candidate, ...], recommended: str | None, said: tuple[str, ...]
) -> None:
    choice = choose(entries, usual="moments", lead=0.005)
    assert choice.recommended == recommended and all(words in choice.why for words in said)


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
    lucky, steady = Expected((0.20, 0.21, 0.20), 9), Expected((0.10, 0.1105, 0.0995, 0.41, 0.42), 9)
    assert lucky.error < steady.error and best_of([lucky, steady]) == 1


def runner(errors: dict[int, float], ran: list[int], first: int = 2) -> Forecast:
    def trial(number: int) -> float:
        ran.append(number)
        return errors[number]

    expected = Expected(tuple(errors[number] for number in range(first)), 9)
    return Forecast(Cost({}), True, None, expected, trial=trial)


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
    once = Forecast(Cost({}), False, None, Expected((0.3,), 9))
    made = runner(dict.fromkeys(range(9), 0.3), ran)
    assert race([made, once], seconds=0.0) == (made, once) and not ran
    assert race([once, once], seconds=9.0) == (once, once)
    assert race([], seconds=9.0) == ()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_plan_has_one_answer_and_an_area_under_the_curve_for_classes(task: Task) -> None:
    made = tables([2, 2], 600, task=task)
    requested, plan, _ = planned("moments", made, 600, task=task, options={})
    schemas = {table.party: table.public() for table in made}
    one, again = (
        forecast(PilotRuns(schemas, weighed=False), untyped(METHODS["moments"]), requested, plan)
        for _ in range(2)
    )
    assert one.expected == again.expected and len(there(one.expected).errors) == 2
    assert there(one.trial)(5) == there(again.trial)(5)
    area = there(one.expected).auc
    # Whoever tells classes apart by chance has an area of 1/2.
    assert area is None if task == "regression" else 0.5 < there(area) < 1


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_invented_people_are_as_declared_and_the_same_every_time(label: str) -> None:
    schema = Schema.parse(EVERY_KIND + label).public("bank")
    people = SyntheticPeople({"bank": schema}, 300, tested=50)
    table = people.tables(200)["bank"]
    assert table.public() == schema and table.rows == 200
    (block,) = table.blocks()
    (again,) = SyntheticPeople({"bank": schema}, 300, tested=50).tables(200)["bank"].blocks()
    assert all(np.array_equal(block.columns[name], again.columns[name]) for name in block.columns)
    features = schema.encoder("linear").encode(block)
    assert np.isfinite(features).all() and np.abs(features).max() <= 1 + 1e-9
    assert block.label is not None and len(np.unique(block.label)) > 2
    assert people.held_out["bank"].rows == 50
    assert set(people.held_out["bank"].ids()).isdisjoint(table.ids())


def test_people_of_another_draw_are_others_whose_columns_say_the_same_of_the_label() -> None:
    schema = Schema.parse(EVERY_KIND + LABELS["real"]).public("bank")
    ages, fits = [], []
    for draw in (0, 1):
        (block,) = SyntheticPeople({"bank": schema}, 4000, draw=draw).tables(4000)["bank"].blocks()
        x = np.column_stack([schema.encoder("linear").encode(block), np.ones(4000)])
        fits.append(np.linalg.lstsq(x, np.asarray(block.label), rcond=None)[0])
        ages.append(block.columns["age"])
        # People and seed are fixed, so that this is a number and not a chance.
        assert 0.2 < np.var(x @ fits[-1]) / np.var(np.asarray(block.label)) < 0.9
    assert not np.array_equal(ages[0], ages[1])
    assert np.corrcoef(*fits)[0, 1] > 0.95


def test_progress_is_full_when_every_part_is_over() -> None:
    heard: list[tuple[int, int]] = []
    work = Work(lambda step, done, total: heard.append((done, total)), parts=2)
    work.done()
    work.done()
    assert heard == [(0, 2), (1, 2), (2, 2)]


def test_a_method_whose_trials_take_too_long_has_no_prediction_unless_it_has_a_twin() -> None:
    made = tables([2, 2], 1500)
    schemas = {table.party: table.public() for table in made}
    for name, options, known in (
        ("slr", {"epochs": 4.0, "rate": 1.0}, False),
        ("margin", {"steps": 3}, True),
    ):
        requested, plan, _ = planned(name, made, 1500, options=options)
        runs = PilotRuns(schemas, effort=0.0, tries=1, weighed=False)
        found = forecast(runs, untyped(METHODS[name]), requested, plan)
        assert (found.expected is not None) is known is not ("--effort" in found.unknown)
    assert found.to_data()["expected"]["draws"] == 2 and there(found.expected).twin


@pytest.mark.parametrize("name", ["moments", "local"])
def test_a_trial_has_as_much_noise_for_each_person_as_the_whole_plan(name: str) -> None:
    made = tables([2, 2], 100)
    schemas = {table.party: table.public() for table in made}
    method, (requested, plan, _) = METHODS[name], planned(name, made, 40_000, options={})
    assert isinstance(method, Method)
    smaller = PilotRuns(schemas, most=10_000).trial_plan(method, requested, plan)
    assert smaller.rows == 10_000
    ratio = there(method.noise(smaller)).deviation / there(method.noise(plan)).deviation
    # Sums carry four times less with a quarter of the people, up to how ε and noise go together; values as much.
    assert ratio == pytest.approx(0.25 if name == "moments" else 1.0, rel=0.2)


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
