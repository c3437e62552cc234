"""Noisy margin descent against its ideal twin, its refusals, and the attacks on versions that are wrong."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from gradient_tables import NAMES
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from margin_runs import margin_plan, run_margin, silenced, tables_of, watched_rows
from training_specs import planned_on, requested
from typed import untyped

from colonnade.crypto.sharing import Shamir, reshare, total
from colonnade.errors import (
    DeltaTooLarge,
    GroupMismatch,
    LabelMismatch,
    LocalProtocolError,
    NotMasked,
    PlanError,
    RemoteProtocolError,
    TooMuchMemory,
)
from colonnade.methods.margin import protocol
from colonnade.methods.margin.plan import MarginOptions, MarginSchedule
from colonnade.methods.margin.protocol import MarginDescent, OwnRows, descended, ideal_slopes, summed_slopes
from colonnade.noise.discrete_gaussian import LARGEST_VARIANCE
from colonnade.numbers.field import FIELD63, FieldArray
from colonnade.privacy.guarantee import account
from colonnade.protocols import plans, sharing
from colonnade.protocols.messages import tell
from colonnade.protocols.sharing import Shared, open_to
from colonnade.protocols.verified_products import complex_products
from colonnade.randomness import SeededRandomness
from colonnade.runtime.party import Group, Party
from colonnade.runtime.wire import Message


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, OwnRows]:
    return watched_rows(monkeypatch)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(2, 5), st.integers(0, 4), st.integers(0, 99), st.sampled_from([7, 10**6]))
@example(2, 0, 0, 10**6)
def test_without_noise_everything_opened_is_the_ideal(
    read: Any, count: int, active: Any, seed: int, block: Any
) -> None:
    parties = NAMES[:count]
    holder = parties[active % count]
    tables = tables_of(parties, 30, active=holder, seed=seed)
    read.clear()
    # Computing parties that own nothing can keep the shares as well.
    roles = {} if seed else {"computing_parties": ("one", "two", "three")}
    plan = silenced(margin_plan(tables, Group.of(parties, active=holder, **untyped(roles)), steps=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(plan), "block", property(lambda self: min(self.rows, block)))
        outcome = run_margin(plan, tables)
    ideal, seen = descended(plan, read, SeededRandomness("none")), outcome.results["server"]
    assert seen.moments.tolist() == ideal.moments.tolist()
    assert [one.tolist() for one in seen.opened] == [one.tolist() for one in ideal.opened]
    assert np.array_equal(seen.model, ideal.model) and np.abs(seen.model).sum() > 0
    assert all(outcome.results[name] is None for name in parties), "only the server trains"


def test_what_is_opened_is_the_ideal_plus_every_owners_noise(read: Any) -> None:
    tables = tables_of(("bank", "insurer", "shop"), 50)
    plan = margin_plan(tables)
    drawn, noise = [], plan.noise

    class Witnessed:
        def part(self, parts: Any) -> Any:
            return self

        def draw(self, shape: Any, randomness: Any) -> Any:
            drawn.append(noise.part(plan.group.whole).draw(shape, randomness))
            return drawn[-1]

    _ = plan.scheme, plan.views, plan.replaced
    plan.__dict__["noise"] = Witnessed()
    seen = run_margin(plan, tables).results["server"]
    joint = np.concatenate([read[owner].features for owner in plan.group.owners], axis=1).astype(np.float64)
    for step, (weights, opened) in enumerate(zip(seen.path, seen.opened, strict=True)):
        ideal = summed_slopes(joint, ideal_slopes(plan, read, weights))
        whole = ideal + sum(part[0] for part in drawn[3 * step : 3 * step + 3])
        assert opened.tolist() == whole.tolist()
        assert np.abs(whole - ideal).max() > 0


def test_a_step_takes_two_hundred_and_sixteen_bytes_a_row_between_two_owners() -> None:
    tables = tables_of(("bank", "insurer"), 3000)
    found = []
    for steps in (1, 3):
        outcome = run_margin(margin_plan(tables, steps=steps), tables)
        found.append(sum(outcome.bytes_by_step[step] for step in ("waves", "slopes")))
    assert 216 <= (found[1] - found[0]) / (2 * 3000) <= 217


@pytest.mark.parametrize(
    ("weight", "said"), [(np.nan, "not finite"), (np.inf, "not finite"), (1e308, "past 2")]
)
def test_weights_by_which_no_score_is_a_number_are_refused_whatever_the_rows_are(
    monkeypatch: pytest.MonkeyPatch, weight: float, said: str
) -> None:
    tables = tables_of(("bank", "insurer"), 30)
    plan = margin_plan(tables)
    honest = MarginDescent.step

    def step(self: Any, opened: Any) -> None:
        honest(self, opened)
        self.weights = np.full_like(self.weights, weight)

    monkeypatch.setattr(MarginDescent, "step", step)
    with pytest.raises(RemoteProtocolError, match=said):
        run_margin(plan, tables)


def test_owners_that_were_told_different_weights_deal_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tables_of(("bank", "insurer"), 30)
    plan = margin_plan(tables)
    dealt, share, honest = [], untyped(protocol).share, protocol.published_weights

    async def two_faced(party: Party, descent: Any, plan: Any, step: Any) -> Any:
        if descent is None or step == 0:
            return await honest(party, descent, plan, step)
        for owner, lie in (("bank", 0.0), ("insurer", 1e-9)):
            announced = descent.weights + lie
            await tell(party, owner, f"weights {step}", Message(arrays={"weights": announced}))
        return descent.weights

    async def watched(party: Party, mine: Any, shapes: Any, **how: Any) -> Any:
        if mine is not None and how["step"].startswith("waves"):
            dealt.append(how["step"])
        return await share(party, mine, shapes, **how)

    monkeypatch.setattr(protocol, "published_weights", two_faced)
    monkeypatch.setattr(protocol, "share", watched)
    with pytest.raises(RemoteProtocolError, match="told something else"):
        run_margin(plan, tables)
    assert set(dealt) == {"waves 0.0"}


def test_members_with_another_plan_deal_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest holds the plan beside the weights."""
    tables = tables_of(("bank", "insurer"), 30)
    plan = margin_plan(tables)
    heard = []

    async def watched(party: Party, step: str, announced: Any, *public: Any) -> None:
        heard.append([array.tobytes() for array in public])

    monkeypatch.setattr(protocol, "agree_on_public", watched)
    run_margin(plan, tables)
    assert all(first == bytes.fromhex(plan.hash) for first, _ in heard)
    assert len(heard) == 2 * plan.schedule.steps


def test_the_server_sees_nothing_of_the_labels_in_the_shape_of_frames() -> None:
    shapes = []
    for seed in (1, 2):
        tables = tables_of(("bank", "insurer"), 40, seed=seed)
        outcome = run_margin(margin_plan(tables, steps=2), tables, record=True)
        shapes.append([(seen.sender, seen.step, len(seen.frame)) for seen in outcome.seen["server"]])
    assert shapes[0] == shapes[1]


# --- wrong versions, attacked


@pytest.mark.parametrize(
    ("raised", "error", "words"),
    [
        (False, LocalProtocolError, "cannot add shares of degree"),
        (True, NotMasked, "degree-2 masks"),
    ],
)
def test_noise_of_degree_t_can_neither_be_added_to_a_gradient_nor_be_raised_and_opened(
    monkeypatch: pytest.MonkeyPatch, raised: bool, error: type[Exception], words: str
) -> None:
    tables = tables_of(("bank", "insurer"), 20)
    share = sharing.share

    async def lazy(party: Party, mine: Any, shapes: Any, *, scheme: Any, degree: Any, step: str) -> Any:
        if step != "noise 0":
            return await share(party, mine, shapes, scheme=scheme, degree=degree, step=step)
        dealt = await share(party, mine, shapes, scheme=scheme, degree=scheme.threshold, step=step)
        at = party.group.computing_parties.index(party.name)
        return {
            owner: Shared(scheme.constant(one.share, at, scheme.threshold), one.shape, degree)
            if raised
            else one
            for owner, one in dealt.items()
        }

    monkeypatch.setattr(sharing, "share", lazy)
    with pytest.raises(error, match=words):
        run_margin(margin_plan(tables), tables)


ROW, SLOPE, EXTENT, MOST = np.array([[17, -5, 30]]), 1_234_567, 32, 1 << 22


class ComputingParties:
    """Three computing parties of one person's row and slope, as they stand before the last product of a step."""

    def __init__(self, seed: int) -> None:
        self.scheme, self.randomness = Shamir(3, FIELD63), SeededRandomness(f"computing parties {seed}")
        self.rows = self.dealt(ROW, 1)
        # The slope comes from a product of degree 2 and was dealt anew by everybody.
        factors = [self.dealt(np.array([[value]]), 1) for value in (SLOPE, 1)]
        products = [left.multiply(right) for left, right in zip(*factors, strict=True)]
        again = [reshare(self.scheme, j, one, self.randomness) for j, one in enumerate(products)]
        self.slopes = [total(self.scheme, [pieces[j] for pieces in again]) for j in range(3)]

    def dealt(self, values: Any, degree: Any) -> Any:
        pieces = self.scheme.deal(FIELD63.encode(values), degree, self.randomness)
        return [self.scheme.expand(piece) for piece in pieces]

    def products(self) -> Any:
        return [rows.transpose_times(slope) for rows, slope in zip(self.rows, self.slopes, strict=True)]

    def opened(self, noise: Any) -> Any:
        """What the server is sent: every computing party's share of the noisy gradient."""
        return [product + part for product, part in zip(self.products(), noise, strict=True)]


def middle(shares: Any) -> Any:
    """The coefficient of X of the polynomial through shares at 0, 1, −1."""
    return (shares[1] - shares[2]).times(FIELD63.inverse(2))


def element(array: Any, at: Any) -> Any:
    """A field element as an integer; object arithmetic modulo the field's modulus is exact."""
    return int(array.decode()[at, 0])


def solved(found: Any, of_slope: Any, of_row: Any) -> Any:
    """Rows and slopes with found = of_slope·row + slope·of_row, both small: what the server reads, or None."""
    modulus = FIELD63.modulus
    values = [element(found, at) for at in range(3)]
    rows = [element(of_row, at) for at in range(3)]
    slope_share = element(of_slope, 0)
    for first in range(-EXTENT, EXTENT + 1):
        slope = (values[0] - slope_share * first) * pow(rows[0], -1, modulus) % modulus
        slope = slope - modulus if slope > modulus // 2 else slope
        if abs(slope) > MOST:
            continue
        row = []
        for value, mine in zip(values, rows, strict=True):
            entry = (value - slope * mine) * pow(slope_share, -1, modulus) % modulus
            row.append(entry - modulus if entry > modulus // 2 else entry)
        if all(abs(entry) <= EXTENT for entry in row):
            return row, slope
    return None


def noise_of(computing_parties: Any, degree: Any, seed: int) -> Any:
    """The owners' noise as the computing parties hold it; at degree 1 raised to the degree of a product."""
    drawn = np.random.default_rng(seed).integers(-(1 << 40), 1 << 40, (3, 1))
    shares = computing_parties.dealt(drawn, degree)
    if degree == 2:
        return shares, FIELD63.zeros((3, 1))
    return [computing_parties.scheme.constant(one, j, 1) for j, one in enumerate(shares)], shares[0]


def unmasked(computing_parties: Any, degree: Any) -> Any:
    """What a server that keeps the share at 0 reads of one opening."""
    noise, known = noise_of(computing_parties, degree, 3)
    seen = middle(computing_parties.opened(noise)) - known
    return solved(
        seen,
        computing_parties.slopes[0],
        FieldArray(FIELD63, computing_parties.rows[0].words.transpose(0, 2, 1).copy()),
    )


def test_replayed_noise_or_noise_of_degree_t_lets_the_server_read_a_row_and_its_slope() -> None:
    assert unmasked(ComputingParties(1), 1) == (ROW[0].tolist(), SLOPE)
    assert unmasked(ComputingParties(1), 2) is None, "noise of degree 2t is a mask"
    # Two openings with the same shares of noise: their difference has none.
    first, second = ComputingParties(1), ComputingParties(2)
    noise, _ = noise_of(first, 2, 3)
    seen = middle(first.opened(noise)) - middle(second.opened(noise))
    of_slope = first.slopes[0] - second.slopes[0]
    of_row = (first.rows[0] - second.rows[0]).transpose()
    assert solved(seen, of_slope, of_row) == (ROW[0].tolist(), SLOPE)
    fresh, _ = noise_of(second, 2, 4)
    seen = middle(first.opened(noise)) - middle(second.opened(fresh))
    assert solved(seen, of_slope, of_row) is None, "fresh noise is a fresh mask"


def test_a_mask_that_was_opened_is_not_opened_again() -> None:
    tables = tables_of(("bank", "insurer"), 20)
    plan = margin_plan(tables, steps=2)
    again = []

    async def repeated(
        party: Party, receiver: str, value: Any, *, scheme: Any, release: Any, step: str
    ) -> Any:
        if step == "gradient 0":
            again.append(value)
        if step == "gradient 1":
            value = Shared(value.share, value.shape, value.degree, again[0].masks)
        return await open_to(party, receiver, value, scheme=scheme, release=release, step=step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "open_to", repeated)
        with pytest.raises(NotMasked, match="used in an earlier opening"):
            run_margin(plan, tables)


def test_products_of_waves_turn_by_sums_of_angles() -> None:
    """The tree at its smallest: every way to pair three owners gives the product of all three."""
    drawn = np.random.default_rng(5).integers(-50, 50, (3, 4, 2 * 2 * 3))
    as_complex = [
        np.concatenate([part[:, at : at + 3] + 1j * part[:, at + 3 : at + 6] for at in (0, 6)], axis=1)
        for part in drawn
    ]
    whole = as_complex[0] * as_complex[1] * as_complex[2]
    for order in itertools.permutations(range(3)):
        parts = [FIELD63.encode(drawn[at]) for at in order]
        found = complex_products(complex_products(parts[0], parts[1], 2), parts[2], 2).decode()
        joined = np.concatenate(
            [found[:, at : at + 3] + 1j * found[:, at + 3 : at + 6] for at in (0, 6)], axis=1
        )
        assert np.array_equal(joined, whole)


# Plans of noisy margin descent: what they charge whom, which grids they take, and what they refuse.


PAIR = ("bank", "insurer")


def costs(plan: Any) -> Any:
    return {one.observer.name: one.epsilon for one in plan.guarantees}


def test_costs_are_ordered_by_what_an_observer_knows_and_noise_by_steps_and_epsilon() -> None:
    found = costs(margin_plan(tables_of(PAIR, 500), steps=20))
    assert 0.99 < found["server"] == found["reader"] <= 1.0
    assert found["server"] < found["party:bank"] < found["party:insurer"] < 2.2 * found["server"]
    plan = margin_plan(tables_of(PAIR, 500))
    zeroed, replaced = (account(event, 1e-5).epsilon for event in (plan.zeroed(1), plan.replaced))
    assert zeroed < replaced < 2.3 * zeroed
    found = costs(margin_plan(tables_of(NAMES[:4], 500)))
    assert found["any 2 owners"] > found["party:insurer"]
    few, many = (margin_plan(tables_of(PAIR, 500), steps=steps) for steps in (5, 20))
    loud, quiet = (margin_plan(tables_of(PAIR, 500), epsilon=epsilon) for epsilon in (0.5, 2.0))
    assert many.deviation == pytest.approx(2 * few.deviation, rel=0.02)
    assert loud.deviation > 3 * quiet.deviation


@pytest.mark.parametrize("share", [Fraction(1, 100), Fraction(1, 2)])
def test_the_share_of_the_moments_is_theirs(share: Any) -> None:
    plan = margin_plan(tables_of(PAIR, 500), share=share, steps=10)
    of_moments = plan.row.norm_squared**2 / plan.moments_variance
    of_gradients = plan.schedule.steps * plan.gradient_zeroed.l2**2 / plan.variance
    assert float(of_moments / (of_moments + of_gradients)) == pytest.approx(float(share), rel=1e-6)


@pytest.mark.parametrize("owners", [2, 3, 4, 5])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_grids_are_as_fine_as_noise_can_be_drawn(owners: Any, epsilon: float) -> None:
    plan = margin_plan(tables_of(NAMES[:owners], 500), epsilon=epsilon, steps=20)
    assert plan.variance <= LARGEST_VARIANCE and plan.moments_variance <= LARGEST_VARIANCE
    lost = plan.slopes.most / plan.scale - 0.5
    assert lost < {2: 0.005, 3: 0.02, 4: 0.06, 5: 0.15}[owners] * max(1, 0.3 / epsilon)
    assert plan.hash == replace(plan).hash


def test_plans_that_differ_in_any_choice_differ_in_their_hash_and_schedules_say_what_they_are() -> None:
    tables = tables_of(PAIR, 100)
    plans = [
        margin_plan(tables),
        margin_plan(tables, steps=4),
        margin_plan(tables, harmonics=5),
        margin_plan(tables, share=Fraction(1, 5)),
        margin_plan(tables, gamma=512),
    ]
    assert len({plan.hash for plan in plans}) == len(plans)
    assert MarginSchedule().to_data()["coefficients"][0] == 164082
    assert math.isclose(float(MarginSchedule().moments_share), 0.1)


@pytest.mark.parametrize(
    ("choice", "part"),
    [
        ({"steps": 0}, "steps = 0: there are 1 to 1000"),
        ({"steps": 1001}, "steps = 1001"),
        ({"harmonics": 2}, "harmonics = 2"),
        ({"harmonics": 9}, "fitted with 3 to 8"),
        ({"share": Fraction(0)}, "moments_share = 0"),
        ({"share": Fraction(1)}, "between 0 and 1"),
        ({"gamma": 2}, "gamma = 2 is outside"),
        ({"gamma": 1 << 28}, "leaves no grid for the curve"),
        ({"epsilon": 0.0}, "epsilon = 0"),
    ],
)
def test_choices_that_no_plan_has_are_named(choice: Any, part: Any) -> None:
    with pytest.raises(PlanError, match=part):
        margin_plan(tables_of(PAIR, 100), **choice)


def test_groups_deltas_labels_and_memory_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(f"party{number}" for number in range(15))
    with pytest.raises(PlanError, match=r"15 owners multiply 15 rounded factors.*'moments'"):
        margin_plan(tables_of(names, 50))
    tables = tables_of(PAIR, 50)
    with pytest.raises(GroupMismatch, match="no computing parties"):
        margin_plan(tables, Group.pair("bank", "insurer", active="bank"))
    with pytest.raises(LabelMismatch):
        margin_plan(tables, Group.of(PAIR, active="insurer"))
    with pytest.raises(DeltaTooLarge):
        planned_on(requested(MarginOptions, epsilon=1.0, delta=0.1), tables)
    monkeypatch.setattr(plans, "physical_memory", lambda: 1 << 18)
    with pytest.raises(TooMuchMemory, match="5000 rows of"):
        margin_plan(tables_of(PAIR, 5000))
