"""Plans of noisy messages: what they refuse, whom they protect, what they charge."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from intermediate_samples import LABELS, request, tables
from pydantic import ValidationError
from training_specs import requested
from typed import untyped

from colonnade.data.labels import ClassLabel, CountLabel, RealLabel
from colonnade.data.schema import PublicSchema
from colonnade.errors import PlanError, SchemaError
from colonnade.methods.glm.losses import LOSSES, Penalty
from colonnade.methods.messages.plan import GRID, MOST_STEPS, IntermediatePlan
from colonnade.methods.one_shot.protocol import OneShotOptions
from colonnade.privacy import paper as hdp_vfl
from colonnade.privacy.events import Composed
from colonnade.privacy.guarantee import account
from colonnade.privacy.observers import OthersPart, PartOf
from colonnade.privacy.sensitivity.messages import Schedule
from colonnade.runtime.party import Group


def plan_of(
    rows: int = 200, *, loss: str = "logistic", widths: tuple[int, ...] = (2, 3), **changes: Any
) -> IntermediatePlan:
    made = tables(4, loss=loss, widths=widths)
    group = Group.of(tuple(table.party for table in made), active=made[0].party)
    plan: IntermediatePlan = request(loss, **changes).plan(
        group, tuple(table.public() for table in made), rows
    )
    return plan


@pytest.mark.parametrize("loss", LABELS)
def test_every_partys_part_of_a_record_costs_the_others_at_most_epsilon(loss: str) -> None:
    plan = plan_of(loss=loss, epsilon=0.7, batch=50)
    assert [guarantee.observer.name for guarantee in plan.guarantees] == ["party:clinic", "party:bank"]
    assert all(0.69 < guarantee.epsilon <= 0.7 for guarantee in plan.guarantees)
    assert all(guarantee.unit == OthersPart() for guarantee in plan.guarantees)


def test_with_three_owners_all_but_one_together_learn_at_most_epsilon_about_its_part() -> None:
    plan = plan_of(widths=(2, 3, 1), epsilon=1.0)
    together = [guarantee for guarantee in plan.guarantees if guarantee.observer.name.startswith("coalition")]
    assert {guarantee.unit.name for guarantee in together} == {
        PartOf(owner).name for owner in plan.group.owners
    }
    assert all(guarantee.epsilon <= 1.0 for guarantee in together)
    alone = plan.views[0]
    assert isinstance(alone.event, Composed)
    assert len(alone.event.events) == 2
    assert plan.guarantees[0].epsilon > 1.0  # it may compare the parts of two parties at once


def test_a_party_charges_what_others_see_of_its_own_columns_and_the_server_nothing() -> None:
    plan = plan_of(widths=(2, 3, 1))
    assert plan.release("server", run="r", reproducible=False).lines == ()
    lines = plan.release("bank", run="r", reproducible=False).lines
    assert {(line.observer, line.unit) for line in lines} == {
        ("party:clinic", "others-part"),
        ("party:shop", "others-part"),
        ("coalition:clinic+shop", "own-part:bank"),
    }
    (own,) = [line for line in lines if line.unit == "own-part:bank"]
    assert own.event == plan.event("bank")


def test_every_passive_party_has_noise_for_its_own_share_of_the_row() -> None:
    plan = plan_of(widths=(1, 1, 6))
    assert plan.cap("shop") > plan.cap("bank")
    assert plan.sigma("shop") > plan.sigma("bank")
    caps = [plan.cap(owner) for owner in plan.group.owners]
    assert math.fsum(cap**2 for cap in caps) <= 1 + 1e-9


@given(
    st.sampled_from(sorted(LABELS)),
    st.integers(2, 60),
    st.integers(1, 60),
    st.integers(1, 4),
    st.floats(0.05, 5),
)
@settings(deadline=None, max_examples=25)
def test_a_plan_costs_what_its_events_cost_and_more_epsilon_never_needs_more_noise(
    loss: str, rows: int, batch: int, epochs: int, epsilon: float
) -> None:
    settings: dict[str, Any] = {"loss": loss, "batch": min(batch, rows), "epochs": epochs}
    plan = plan_of(rows, epsilon=epsilon, **settings)
    looser = plan_of(rows, epsilon=2 * epsilon, **settings)
    for owner in plan.group.owners:
        assert account(plan.event(owner), plan.delta).epsilon <= epsilon
    # A passive step may become shorter as residuals become clearer, never the noise larger.
    assert looser.sigma(plan.active) <= plan.sigma(plan.active)


def test_a_record_is_used_once_an_epoch_and_a_short_last_batch_is_divided_by_the_nominal_size() -> None:
    plan = plan_of(10, batch=4, epochs=3)
    slices = [rows for _, rows in plan.batches()]
    assert [(rows.start, rows.stop) for rows in slices[:3]] == [(0, 4), (4, 8), (8, 10)]
    assert slices[:3] * 3 == slices
    assert plan.schedule == Schedule(10, 4, 3)


def test_the_step_of_a_passive_party_makes_up_for_clipping_but_not_at_any_price() -> None:
    few, many = plan_of(50, epochs=5), plan_of(50_000, epochs=5)
    assert few.rate("bank") == few.rate("clinic") == few.learning_rate
    assert many.rate("bank") > many.rate("clinic")
    own_entries = (2 * many.radius * many.cap("bank")) ** 2 * many.options.epochs
    assert many.sensitivity("bank").total ** 2 < 1.12 * own_entries


@pytest.mark.parametrize("loss", LABELS)
def test_a_step_that_could_spread_weights_apart_is_refused_with_the_largest_allowed(loss: str) -> None:
    with pytest.raises(PlanError, match=r"learning_rate = 1e\+06 .* The largest allowed here is") as refused:
        plan_of(loss=loss, learning_rate=1e6)
    largest = float(str(refused.value).rstrip(".").rsplit(" ", 1)[1])
    assert plan_of(loss=loss, learning_rate=largest).learning_rate == largest
    with pytest.raises(PlanError):
        plan_of(loss=loss, learning_rate=largest * 1.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 201}, "batch = 201 for 200 rows"),
        ({"batch": 0}, "batch = 0 for 200 rows"),
        ({"epochs": 0}, "epochs = 0"),
        ({"radius": -1.0}, "radius = -1"),
        ({"stretch": math.inf}, "stretch = inf"),
        ({"clip": 0.0}, "clip = 0"),
        ({"epsilon": 0.0}, "epsilon = 0"),
        ({"batch": 1, "epochs": MOST_STEPS}, "steps; 100000 is the most"),
        ({"loss": "poisson", "radius": 1e4}, "radius = 10000 lets scores grow so far"),
        ({"loss": "gamma", "calibration": "paper"}, "HDP-VFL has no noise for Gamma"),
        ({"penalty": "?"}, "penalties are finite"),
        ({"epsilon": 0.01, "radius": 1e9}, r"outside 1e-9 to 2\^88"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        if changes.get("penalty") == "?":
            changes = {"penalty": Penalty(l1=-1.0)}
        plan_of(**changes)


@pytest.mark.parametrize(
    ("loss", "label", "message"),
    [
        ("logistic", ClassLabel("y", ("a", "b", "c")), "two classes; 'y' has 3 classes"),
        ("svm", ClassLabel("y", ("a", "b", "c")), "two classes; 'y' has 3 classes"),
        ("poisson", RealLabel("y", low=-1, high=1), "from 0 up; 'y' is declared from -1"),
        ("gamma", CountLabel("y", low=0, high=9), "above 0; 'y' is declared from 0 to 9"),
        ("least_squares", ClassLabel("y", ("a", "b")), "kind 'classes'"),
        ("logistic", RealLabel("y", low=-1, high=1), "kind 'real'"),
    ],
)
def test_a_label_that_does_not_fit_its_loss_is_refused(loss: str, label: ClassLabel, message: str) -> None:
    made = tables(4)
    schemas = (PublicSchema("clinic", made[0].public().columns, label), made[1].public())
    with pytest.raises(PlanError, match=message):
        request(loss).plan(Group.of(("clinic", "bank"), active="clinic"), schemas, 100)


@pytest.mark.parametrize(("loss", "kind"), [("logistic", "real"), ("poisson", "classes")])
def test_a_loss_says_itself_which_labels_it_takes(loss: str, kind: str) -> None:
    label = RealLabel("y", low=0, high=1) if kind == "real" else ClassLabel("y", ("a", "b"))
    with pytest.raises(PlanError, match="needs a label"):
        LOSSES[loss].check(label)


def test_a_passive_party_without_columns_is_refused_and_an_active_one_is_not() -> None:
    made = tables(4)
    label_only = PublicSchema("clinic", (), untyped(LABELS["logistic"]))
    group = Group.of(("clinic", "bank"), active="clinic")
    assert request().plan(group, (label_only, made[1].public()), 50).cap("clinic") > 0
    with pytest.raises(SchemaError, match="A party without the label needs at least one column"):
        PublicSchema("bank", (), None)


def test_paper_mode_has_the_papers_noise_its_figures_and_no_guarantee() -> None:
    plan = plan_of(
        30_000,
        calibration="paper",
        batch=3200,
        radius=1.0,
        learning_rate=0.1,
        delta=0.01,
        accepted_delta=0.01,
    )
    assert plan.guarantees == ()
    assert plan.release("bank", run="r", reproducible=False).lines == ()
    claimed = hdp_vfl.passive_sensitivity(
        batch=3200, epochs=10, steps=100, radius=1, step_size=0.1, lipschitz=1
    )
    assert plan.figures[0] == claimed
    sigma = hdp_vfl.classical_sigma(1.0, 0.01, sensitivity=claimed.value).value
    assert plan.sigma("bank") == pytest.approx(sigma)
    assert plan.sigma("bank") == pytest.approx(19.69, abs=0.005)
    assert plan.clip is None


@pytest.mark.parametrize("calibration", ["paper", "none"])
def test_what_protects_nobody_runs_only_where_every_owner_declared_its_data_public(calibration: str) -> None:
    with pytest.raises(PlanError, match="bank did not"):
        plan_of(calibration=calibration, public=("clinic",))


def test_every_field_of_a_plan_is_in_its_hash() -> None:
    plan = plan_of()
    others = [
        replace(plan, spec=plan.spec.with_options(seed=1)),
        replace(plan, clip=2.0),
        replace(plan, spec=plan.spec.with_options(stretch=2.0)),
        replace(plan, spec=plan.spec.with_options(penalty="l1", strength=0.1)),
        replace(plan, variances=tuple(2 * variance for variance in plan.variances)),
        replace(plan, batch=7),
    ]
    assert len({plan.hash, *(other.hash for other in others)}) == 7


def test_noisy_columns_cost_the_same_however_often_they_are_used() -> None:
    made = tables(4, widths=(2, 3, 1))
    group = Group.of(tuple(table.party for table in made), active="clinic")
    plan = requested(OneShotOptions, "classification", 1.0).plan(
        group, tuple(table.public() for table in made), 100
    )
    assert {guarantee.observer.name for guarantee in plan.guarantees} == {
        "party:clinic",
        "coalition:clinic+shop",
        "coalition:bank+clinic",
    }
    assert plan.release("clinic", run="r", reproducible=False).lines == ()
    assert {line.unit for line in plan.release("bank", run="r", reproducible=False).lines} == {
        "others-part",
        "own-part:bank",
    }
    # μ = 2c/s, as the Gaussian would have it, and a little more for the Rényi route.
    assert plan.sigma("bank") == pytest.approx(2 * plan.clipped.cap("bank") * 3.73, rel=0.1)
    with pytest.raises(ValidationError, match="stretch"):
        OneShotOptions(stretch=-1.0)


def rounding_of_doubles(plan: IntermediatePlan, owner: str) -> Fraction:
    """What two runs can lose of one entry, exactly, as docs/proofs/message-sensitivity.md adds it up."""
    unit, active = Fraction(1, 1 << 53), owner == plan.active
    cap, radius, rate = (Fraction(value) for value in (plan.cap(owner), plan.radius, plan.rate(owner)))
    residual = Fraction(plan.bounds.size)
    pull = residual if active or plan.clip is None else Fraction(plan.clip)
    operations = plan.clipped.encoders[owner].width + 1 + 16
    weights = plan.rows * plan.options.epochs * rate * pull * cap
    weights += plan.schedule.steps * operations * (radius + rate * pull * cap)
    scores = cap * weights + operations * (radius * (cap + Fraction(plan.passive_cap)) + residual + 1)
    made: Fraction = 2 * max(Fraction(1), Fraction(plan.bounds.slope)) * unit * scores
    return made


@pytest.mark.parametrize("loss", LABELS)
@pytest.mark.parametrize("changes", [{}, {"epochs": 1, "rows": 10}, {"radius": 0.01}], ids=str)
def test_all_that_doubles_can_lose_is_charged_beside_the_grid(loss: str, changes: dict[str, Any]) -> None:
    plan = plan_of(loss=loss, **changes)
    for owner in plan.group.owners:
        charged = Fraction(plan.charged_grid(owner)) - GRID
        lost = rounding_of_doubles(plan, owner)
        assert lost * (1 - Fraction(1, 10**6)) <= charged <= lost * (1 + Fraction(1, 10**6))
