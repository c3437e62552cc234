"""Noisy margin descent: its ideal twin, attacks on wrong versions, plans, models, and runs that go on."""

import asyncio
import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gradient_tables import NAMES, people, tables_of
from margin_runs import margin_plan, run_margin, silenced, watched_rows
from numpy.typing import NDArray
from plan_runs import ledgers_for
from training_specs import planned_on, requested
from training_specs import requested as spec_of
from typed import untyped

from colonnade import Federation, LogisticRegression, Schema, Table, errors
from colonnade.crypto.sharing import Shamir, reshare, total
from colonnade.data.schema import PublicSchema
from colonnade.federation.job import Job
from colonnade.methods.margin import plan as plan_module
from colonnade.methods.margin import protocol
from colonnade.methods.margin.method import twin as margin_twin
from colonnade.methods.margin.plan import MarginOptions, MarginSchedule
from colonnade.methods.table import METHODS
from colonnade.noise.discrete_gaussian import LARGEST_VARIANCE
from colonnade.numbers.field import FIELD63, FieldArray
from colonnade.planning.forecast import default_for, settle
from colonnade.privacy.guarantee import account
from colonnade.protocols import plans, sharing
from colonnade.protocols.messages import tell
from colonnade.protocols.plans import TrainingSpec
from colonnade.protocols.sharing import Shared, open_to
from colonnade.protocols.verified_products import complex_products
from colonnade.randomness import SeededRandomness
from colonnade.runtime.channel import memory_network
from colonnade.runtime.journal import KNOWN, PROVED, Journal, JournalChannel, ReplayRandomness, ResumedLedger
from colonnade.runtime.party import Group, Party
from colonnade.runtime.wire import Message, decode


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, protocol.OwnRows]:
    return watched_rows(monkeypatch)


@pytest.mark.parametrize(("count", "active", "seed", "block"), [(2, 0, 0, 10**6), (3, 1, 5, 7), (5, 3, 9, 7)])
def test_without_noise_all_opened_is_the_ideal(
    read: Any, count: int, active: int, seed: int, block: int
) -> None:
    parties = NAMES[:count]
    holder = parties[active % count]
    tables = tables_of(parties, 30, active=holder, seed=seed)
    # Computing parties that own nothing can keep the shares as well.
    roles = {} if seed else {"computing_parties": ("one", "two", "three")}
    plan = silenced(margin_plan(tables, Group.of(parties, active=holder, **untyped(roles)), steps=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(plan), "block", property(lambda self: min(self.rows, block)))
        outcome = run_margin(plan, tables)
    ideal, seen = protocol.descended(plan, read, SeededRandomness("none")), outcome.results["server"]
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
        ideal = protocol.summed_slopes(joint, protocol.ideal_slopes(plan, read, weights))
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
def test_weights_by_which_no_score_is_finite_are_refused(monkeypatch: Any, weight: float, said: str) -> None:
    tables = tables_of(("bank", "insurer"), 30)
    plan = margin_plan(tables)
    honest = protocol.MarginDescent.step

    def step(self: Any, opened: Any) -> None:
        honest(self, opened)
        self.weights = np.full_like(self.weights, weight)

    monkeypatch.setattr(protocol.MarginDescent, "step", step)
    with pytest.raises(errors.RemoteProtocolError, match=said):
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
    with pytest.raises(errors.RemoteProtocolError, match="told something else"):
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
        (False, errors.LocalProtocolError, "cannot add shares of degree"),
        (True, errors.NotMasked, "degree-2 masks"),
    ],
)
def test_noise_of_degree_t_can_neither_be_added_to_a_gradient_nor_be_raised_and_opened(
    monkeypatch: pytest.MonkeyPatch, raised: bool, error: type[Exception], words: str
) -> None:
    tables = tables_of(("bank", "insurer"), 20)
    share = sharing.share

    async def lazy(party: Party, mine: Any, shapes: Any, *, scheme: Any, degree: Any, step: str) -> Any:
        least = scheme.threshold if step == "noise 0" else degree
        dealt = await share(party, mine, shapes, scheme=scheme, degree=least, step=step)
        if least == degree or not raised:
            return dealt
        at = party.group.computing_parties.index(party.name)
        return {
            owner: Shared(scheme.constant(one.share, at, least), one.shape, degree)
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

    async def repeated(party: Party, receiver: str, value: Any, *, step: str, **how: Any) -> Any:
        if step == "gradient 0":
            again.append(value)
        if step == "gradient 1":
            value = Shared(value.share, value.shape, value.degree, again[0].masks)
        return await open_to(party, receiver, value, step=step, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "open_to", repeated)
        with pytest.raises(errors.NotMasked, match="used in an earlier opening"):
            run_margin(plan, tables)


def test_products_of_phasors_turn_by_sums_of_angles() -> None:
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
    with pytest.raises(errors.PlanError, match=part):
        margin_plan(tables_of(PAIR, 100), **choice)


def test_groups_deltas_labels_and_memory_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(f"party{number}" for number in range(15))
    with pytest.raises(errors.PlanError, match=r"15 owners multiply 15 rounded factors.*'moments'"):
        margin_plan(tables_of(names, 50))
    tables = tables_of(PAIR, 50)
    with pytest.raises(errors.GroupMismatch, match="no computing parties"):
        margin_plan(tables, Group.pair("bank", "insurer", active="bank"))
    with pytest.raises(errors.LabelMismatch):
        margin_plan(tables, Group.of(PAIR, active="insurer"))
    with pytest.raises(errors.DeltaTooLarge):
        planned_on(requested(MarginOptions, epsilon=1.0, delta=0.1), tables)
    monkeypatch.setattr(plan_module, "smallest_field", lambda **most: most)
    made = margin_plan(tables)
    supports = [noise.part(made.group.whole).support for noise in (made.noise, made.moments_noise)]
    assert untyped(made.field)["noise"] == len(made.group.dealers) * max(supports) > 0 != min(supports)
    monkeypatch.undo()
    monkeypatch.setattr(plans, "physical_memory", lambda: 1 << 18)
    with pytest.raises(errors.TooMuchMemory, match="5000 rows of"):
        margin_plan(tables_of(PAIR, 5000))


ROWS = 4000
SHOPS = ("bank", "shop")


def federation(parties: tuple[str, ...] = SHOPS, rows: int = ROWS, **more: Any) -> Federation:
    tables = tables_of(parties, rows, **({"slope": more.pop("slope")} if "slope" in more else {}))
    return Federation(tables, **{"budget": (200.0, 1e-5), "public": True, "noise_seed": 5, **more})


@pytest.fixture(scope="module")
def fitted() -> Any:
    source = federation()
    return source, LogisticRegression(epsilon=2.0, method="margin").fit(source)


def test_it_learns_as_well_as_one_place_without_noise_and_as_its_twin(fitted: Any) -> None:
    source, model = fitted
    rows, labels = people(source)
    exact = LogisticRegression(method="non-private").fit(federation())
    assert model.score(rows, labels) > exact.score(rows, labels) - 0.02 > 0.8
    plan = source.runs[-1].plan
    twin = LogisticRegression().fit(margin_twin(plan, source.tables, SeededRandomness("twin")))
    assert twin.score(rows, labels) == pytest.approx(model.score(rows, labels), abs=0.02)


def test_its_privacy_and_run_are_there_to_read(fitted: Any) -> None:
    source, model = fitted
    by_name = {one.observer.name: one for one in model.privacy_}
    assert by_name["server"].epsilon <= 2.0 < by_name["party:shop"].epsilon < 5.0
    run = source.runs[-1]
    assert run.release is None
    steps = {"columns", "waves", "slopes", "weights", "comparison", "gradient"}
    assert steps <= set(run.outcome.bytes_by_step)
    learnt = untyped(METHODS["margin"]).model(run.plan.spec, {"server": run.result()})
    assert "steps over all 4000 people" in " ".join(learnt.notes)
    for owner in run.plan.group.owners:
        assert run.result(owner).weights.tolist() == run.result().weights.tolist()
        assert run.result(owner).descent is None, "what was opened stays with the server"


def test_probabilities_are_near_the_best_that_a_slope_could_make_them(fitted: Any) -> None:
    source, model = fitted
    rows, labels = people(source)
    signs = np.where(labels == "yes", 1.0, -1.0)
    scores = model.decision_function(rows)

    def loss(slope: Any) -> float:
        return float(np.logaddexp(0, -signs * slope * scores).mean())

    assert loss(1.0) < 1.03 * min(loss(slope) for slope in np.linspace(0.3, 3, 200))


def test_skewed_classes_get_probabilities_that_are_better_than_their_share() -> None:
    drawn = np.random.default_rng(3)
    rows, labels = people(federation())
    keep = (labels == "no") | (drawn.random(ROWS) < 0.08)
    thinned = [_some(table, keep) for table in tables_of(SHOPS, ROWS)]
    source = Federation(thinned, budget=(50.0, 1e-5), noise_seed=2)
    model = LogisticRegression(epsilon=4.0, method="margin").fit(source)
    found = model.predict_proba({name: values[keep] for name, values in rows.items()})[:, 1]
    truth = labels[keep] == "yes"
    share = truth.mean()
    assert 0.02 < share < 0.12
    constant = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    assert -np.log(np.where(truth, found, 1 - found)).mean() < 0.85 * constant
    assert found.mean() == pytest.approx(share, abs=0.04)


def _some(table: Table, keep: NDArray[np.bool_]) -> Table:
    (block,) = table.blocks(ROWS)
    names = np.array(list("abc"))
    columns = {
        name: (names[codes] if name.endswith("_kind") else codes)[keep]
        for name, codes in block.columns.items()
    }
    if block.label is not None:
        columns["y"] = np.array(["no", "yes"])[block.label][keep]
    return type(table).from_arrays(table.party, columns, table.schema)


def test_the_slope_is_that_of_the_link_at_scores_of_that_size() -> None:
    sizes = np.array([0.5, 2.0, 6.0])
    chances = (1 + np.exp(sizes)) / (3 + np.exp(sizes))
    np.testing.assert_allclose(
        protocol.log_odds_slope(sizes) * sizes, np.log(chances / (1 - chances)), rtol=1e-9
    )


def test_five_parties_train_with_two_colluders_allowed_for() -> None:
    source = federation(("bank", "insurer", "shop", "clinic", "school"), rows=1000)
    model = LogisticRegression(epsilon=4.0, method="margin", options={"steps": 4}).fit(source)
    assert source.runs[-1].plan.group.threshold == 2
    assert model.coef_.shape == (1, 5 * 6)


def test_a_classifier_without_a_method_takes_margin_and_moments_where_a_release_is_asked_about() -> None:
    source = federation(rows=200)
    model = LogisticRegression(epsilon=4.0).fit(source)
    assert model.method_ == "margin" and model.releases_ == () and "4 trials" in model.because_
    assert LogisticRegression(epsilon=4.0, ridge=1.0).fit(source).method_ == "moments"
    assert untyped(LogisticRegression(epsilon=4.0, method="moments").fit(source)).releases_


@pytest.mark.parametrize(
    ("lines", "method", "why"),
    [
        ("task = 'classification'", "margin", "most accurate"),
        ("task = 'regression'", "moments", "what regression needs"),
        ("task = 'classification'\ngamma = 8192", "moments", "the grid of a moment release"),
        ("task = 'classification'\nmethod = 'moments'", "moments", ""),
    ],
)
def test_a_job_without_a_method_says_which_it_takes_and_why(lines: str, method: str, why: str) -> None:
    job = Job.parse(f"name = 'n'\n{lines}\nparties = ['bank', 'shop']\nepsilon = 1.0")
    assert job.method == method and why in job.because and bool(job.because) == bool(why)


JOB = "name = 'n'\ntask = 'classification'\nparties = ['bank', 'shop']\n"


def declared(party: str, columns: int, classes: str | tuple[()] = ()) -> PublicSchema:
    lines = [f"columns.{party}{n} = {{kind = 'numeric', low = 0, high = 1}}" for n in range(columns)]
    if classes:
        lines.append(f"label = {{column = 'y', kind = 'classes', classes = {list(classes)}}}")
    return Schema.parse("\n".join(["id = 'n'", *lines])).public(party)


@pytest.mark.parametrize(("classes", "method"), [("ab", "margin"), ("abcd", "moments")])
def test_the_default_asks_trials_in_pairs_and_has_one_answer(classes: str, method: str) -> None:
    group = Group.of(SHOPS, active="bank")
    schemas = {"bank": declared("bank", 4, classes), "shop": declared("shop", 4)}
    requested = TrainingSpec("classification", 4.0, delta=1e-6)
    found = default_for(requested, group, schemas, rows=1000)
    assert found[0] == method and "in 4 trials margin descent" in found[1]
    assert ("beyond chance" in found[1]) == (method == "margin")
    job = Job.parse(JOB + "epsilon = 4.0\ndelta = 1e-6")
    settled = settle(job, group, schemas, rows=1000)
    assert (settled.method, job.method) == (method, "margin") and settled.because.startswith(found[1])
    assert settled.options == METHODS[method].options()


def test_a_job_that_names_a_method_or_its_options_is_left_as_it_is() -> None:
    schemas = {"bank": declared("bank", 10, "abc"), "shop": declared("shop", 10)}
    for more in ("method = 'margin'", "verify = 'rows'", "[options]\nsteps = 3"):
        job = Job.parse(JOB + "epsilon = 1.0\n" + more)
        assert settle(job, Group.of(SHOPS, active="bank"), schemas, rows=3000) is job


def test_the_default_is_moments_where_margin_would_fill_the_memory_or_cannot_be_planned() -> None:
    schemas = {"bank": declared("bank", 100, "ab"), "shop": declared("shop", 100)}
    spec = TrainingSpec("classification", 1.0, delta=1e-12)
    found = default_for(spec, Group.of(SHOPS, active="bank"), schemas, rows=10**10)
    assert found[0] == "moments" and "GiB" in found[1]
    names = [f"party{number}" for number in range(15)]
    job = Job.parse(f"name = 'n'\ntask = 'classification'\nparties = {names}\nepsilon = 1.0")
    assert job.method == "moments" and "15 owners" in job.because


def test_a_label_with_one_class_in_it_gives_a_model_all_the_same() -> None:
    """Nobody may look whether a class is there; the model then says the other, which is right."""
    rows, labels = people(federation())
    keep = labels == "no"
    source = Federation(
        [_some(table, keep) for table in tables_of(SHOPS, ROWS)], budget=(50.0, 1e-5), noise_seed=1
    )
    model = LogisticRegression(epsilon=4.0, method="margin", options={"steps": 5}).fit(source)
    assert (model.predict({name: values[keep] for name, values in rows.items()}) == "no").mean() > 0.99


class Crash(Exception):
    """A process that ended here."""


class Mortal:
    """A channel whose member ends when it comes to a step."""

    def __init__(self, inner: Any, step: str, seen: Any) -> None:
        self.inner, self.step, self.seen = inner, step, seen

    async def send(self, to: str, step: str, frame: Any) -> None:
        if step == self.step:
            raise Crash
        self.seen.append((to, step, bytes(frame)))
        await self.inner.send(to, step, frame)

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        return await self.inner.receive(peer, step, timeout)

    def stop(self, reason: Any) -> None:
        self.inner.stop(reason)


GROUP = Group.of(SHOPS, active="bank")
ASKED = spec_of(MarginOptions, epsilon=4.0, steps=3, delta=1e-5, alignment="equal")


def attempt(folder: Any, books: Any, *, resumed: Any, falls: Any = None, seen: Any = None) -> Any:
    """All members of one attempt, each with its record; what they came away with, or what stopped them."""
    tables = {table.party: table for table in tables_of(SHOPS, 60)}
    heard = [] if seen is None else seen

    async def member(name: str, inner: Any) -> Any:
        journal = (Journal.resume if resumed else Journal.begin)(folder / name)
        wire = Mortal(inner, untyped(falls if name == "shop" else None), heard)
        channel = JournalChannel(name, wire, journal)
        try:
            if resumed:
                await channel.compare(GROUP.others(name), timeout=2)
            book = ResumedLedger(books[name]) if resumed else books[name]
            party = Party(
                name, GROUP, channel, book, ReplayRandomness(journal.key), dataset=name, timeout=5.0
            )
            return await protocol.margin_session(party, tables.get(name), ASKED)
        except BaseException:
            inner.stop("it fell")
            raise
        finally:
            journal.close()

    async def main() -> Any:
        network = memory_network(GROUP.members)
        return await asyncio.gather(
            *(member(name, network[name]) for name in GROUP.members), return_exceptions=True
        )

    found = asyncio.run(main())
    for result in found:
        if isinstance(result, BaseException) and not isinstance(result, Crash | errors.ColonnadeError):
            raise result
    return dict(zip(GROUP.members, found, strict=True))


@pytest.mark.parametrize("falls", ["slopes 1.0", "noise 1", "gradient 1", "comparison weights 2"])
def test_a_run_that_fell_goes_on_with_the_same_frames_and_no_new_charge(tmp_path: Path, falls: Any) -> None:
    books = ledgers_for(GROUP)
    seen: list[Any] = []
    first = attempt(tmp_path, books, resumed=False, falls=falls, seen=seen)
    assert isinstance(first["shop"], Crash)
    ended = attempt(tmp_path, books, resumed=True, seen=seen)
    assert ended["bank"].weights.tolist() == ended["shop"].weights.tolist()
    steps = [(to, step) for to, step, _ in seen if not step.startswith("resumed")]
    frames: dict[Any, Any] = {}
    for to, step, frame in seen:
        # What ledgers have is proved anew by whoever goes on.
        if not step.startswith("resumed") and step not in (KNOWN, PROVED):
            frames.setdefault((to, step, decode(frame)[0].sender), set()).add(frame)
    assert steps and all(len(each) == 1 for each in frames.values()), "one step, one message"
    assert [entry.kind for entry in books["bank"].entries()].count("charge") == 1


def test_noise_that_would_be_dealt_again_with_fresh_sharings_stops_the_member(tmp_path: Path) -> None:
    """Fresh coins for a run that has a record: the first frame that differs is not sent."""
    books = ledgers_for(GROUP)
    attempt(tmp_path, books, resumed=False, falls="gradient 1")
    (tmp_path / "bank" / "key").write_bytes(bytes(32))
    ended = attempt(tmp_path, books, resumed=True)
    assert isinstance(ended["bank"], errors.LocalProtocolError)
    assert "something else than the record says" in str(ended["bank"])


def test_more_classes_share_the_moments_and_have_a_head_each() -> None:
    tables = tables_of(SHOPS, ROWS)
    blocks = [next(iter(table.blocks(ROWS))) for table in tables]
    score = blocks[0].columns["bank0"] + blocks[1].columns["shop0"]
    names = np.array(["low", "middle", "high"])
    labels = names[np.digitize(score, [-0.4, 0.4])]
    bank = {"bank0": blocks[0].columns["bank0"], "y": labels}
    shop = {"shop0": blocks[1].columns["shop0"]}
    declared = "id='n'\n[columns.{0}]\nkind='numeric'\nlow=-1\nhigh=1\n"
    label = f"[label]\ncolumn='y'\nkind='classes'\nclasses={names.tolist()}\n"
    source = Federation(
        [
            Table.from_arrays("bank", bank, Schema.parse(declared.format("bank0") + label)),
            Table.from_arrays("shop", shop, Schema.parse(declared.format("shop0"))),
        ],
        budget=(50.0, 1e-5),
        noise_seed=4,
    )
    model = LogisticRegression(epsilon=4.0, method="margin", options={"steps": 10}).fit(source)
    plan = source.runs[-1].plan
    assert plan.heads == 3 and model.coef_.shape == (3, 4)
    assert source.runs[-1].outcome.bytes_by_step["matrix"] < 5000, "one matrix for all heads"
    rows = {"bank0": bank["bank0"], "shop0": shop["shop0"]}
    assert model.score(rows, labels) > 0.85
    np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1.0)
