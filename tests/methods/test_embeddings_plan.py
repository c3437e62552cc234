"""Plans for sums of embeddings: what each observer learns, how noise is chosen, what is refused."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from embeddings_parties import EVERYBODY_PUBLIC, LABEL, group_of, schemas_of, tables_for
from hypothesis import given, settings
from hypothesis import strategies as st
from training_specs import requested
from typed import untyped

from colonnade.errors import PlanError
from colonnade.methods.network.plan import EmbeddingsPlan, NetworkOptions
from colonnade.methods.network.protocol import formula_bytes
from colonnade.privacy.events import Composed, PoissonBinomial, Repeated
from colonnade.privacy.guarantee import account
from colonnade.privacy.observers import Coalition, ColumnsOf, OthersPart, PartOf, PartyView, Server
from colonnade.protocols.plans import TrainingSpec

PAPER = EVERYBODY_PUBLIC.with_options(beta=0.1, trials=4, embedding=16)


def plan_of(
    request: TrainingSpec,
    *,
    rows: int = 200,
    parties: int = 3,
    holder_has_columns: bool = True,
    label: str = LABEL,
) -> EmbeddingsPlan:
    tables = tables_for(8, parties, holder_has_columns=holder_has_columns, label=label)
    made: EmbeddingsPlan = request.plan(group_of(tables), schemas_of(tables), rows)
    return made


def cost(plan: EmbeddingsPlan, observer: Server | Coalition, unit: Any) -> float:
    return account(event(plan, observer, unit), plan.delta).epsilon


def event(plan: EmbeddingsPlan, observer: Any, unit: Any) -> Any:
    (found,) = [view.event for view in plan.views if view.observer == observer and view.unit == unit]
    return found


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 90), st.integers(1, 40), st.sampled_from([0.0, 0.25]), st.integers(0, 9))
def test_every_record_is_in_exactly_one_batch_of_an_epoch(
    rows: int, batch: int, held_out: float, seed: int
) -> None:
    plan = plan_of(PAPER.with_options(batch=batch, held_out=held_out, seed=seed, epochs=3), rows=rows)
    held = None
    for epoch in range(3):
        batches = list(plan.batches(epoch))
        assert sorted(np.concatenate([each.rows for each in batches]).tolist()) == list(range(rows))
        apart = sorted(np.concatenate([[], *(each.rows for each in batches if each.held_out)]).tolist())
        assert held is None or apart == held
        held = apart
        assert [each.step for each in batches] == list(
            range(epoch * plan.steps_in_epoch, (epoch + 1) * plan.steps_in_epoch)
        )
    assert len(untyped(held)) == plan.held_out


def test_epochs_and_seeds_have_orders_of_their_own_and_plans_hashes_of_theirs() -> None:
    plan = plan_of(PAPER)
    first, second = (next(plan.batches(epoch)).rows.tolist() for epoch in (0, 1))
    other = next(plan_of(PAPER.with_options(seed=1)).batches(0)).rows.tolist()
    assert first != second and first != other
    plan = plan_of(PAPER)
    assert plan.hash == plan_of(replace(PAPER)).hash
    for change in (
        {"trials": 5},
        {"beta": 0.11},
        {"seed": 3},
        {"gradient_bits": 16},
        {"held_out": 0.5},
    ):
        assert plan_of(PAPER.with_options(**change)).hash != plan.hash


# M, b, β, e: ε of the rigorous loss distribution at δ = 1e-5 for 16 coordinates, computed outside this repository.
@pytest.mark.parametrize(
    ("parties", "trials", "beta", "epochs", "epsilon"),
    [(2, 4, 0.05, 1, 5.130), (5, 4, 0.1, 1, 7.084), (5, 4, 0.1, 10, 30.783), (10, 4, 0.05, 10, 7.767)],
)
def test_the_label_holders_epsilon_is_that_of_an_independent_computation(
    parties: int, trials: int, beta: float, epochs: int, epsilon: float
) -> None:
    request = PAPER.with_options(trials=trials, beta=beta, epochs=epochs)
    plan = plan_of(request, parties=parties, holder_has_columns=False)
    assert cost(plan, Server(), PartOf("p0")) == pytest.approx(epsilon, rel=0.01)


def test_who_is_not_known_to_an_observer_hides_a_part() -> None:
    alone = plan_of(PAPER, parties=3, holder_has_columns=False)
    shared = plan_of(PAPER, parties=3, holder_has_columns=True)
    leaf = PoissonBinomial(3, 4, shared.beta)
    assert event(alone, Server(), PartOf("p0")) == Repeated(leaf, 160)
    assert event(shared, Server(), PartOf("p0")) == Repeated(replace(leaf, contributors=2), 160)
    assert event(alone, PartyView("p1"), PartOf("p0")) == Repeated(replace(leaf, contributors=2), 160)
    assert cost(shared, Server(), PartOf("p0")) > cost(alone, Server(), PartOf("p0"))
    plan = plan_of(PAPER.with_options(coalitions=(("h", "p0"),)), parties=4)
    both = Coalition(("h", "p0"))
    assert event(plan, both, PartOf("p1")) == Repeated(PoissonBinomial(2, 4, plan.beta), 160)
    assert cost(plan, both, PartOf("p1")) > cost(plan, Server(), PartOf("p1"))
    assert all(view.unit != PartOf("p0") for view in plan.views if view.observer == both)
    plan = plan_of(PAPER, rows=50, parties=4)
    part, record, columns = (
        cost(plan, Server(), unit) for unit in (PartOf("p0"), OthersPart(), ColumnsOf("p0"))
    )
    assert part < record < columns
    assert event(plan, Server(), OthersPart()).event.changed == 3
    assert event(plan, Server(), ColumnsOf("p0")).times == 50 * 160


@settings(max_examples=6, deadline=None)
@given(st.integers(2, 6), st.integers(1, 4), st.sampled_from([0.02, 0.1, 0.2]), st.integers(1, 3))
def test_more_contributors_never_cost_more_and_more_epochs_never_less(
    parties: int, trials: int, beta: float, epochs: int
) -> None:
    request = PAPER.with_options(trials=trials, beta=beta, epochs=epochs, embedding=2)
    here = cost(plan_of(request, parties=parties), Server(), PartOf("p0"))
    assert cost(plan_of(request, parties=parties + 1), Server(), PartOf("p0")) <= here * (1 + 1e-9)
    longer = plan_of(request.with_options(epochs=epochs + 1), parties=parties)
    assert cost(longer, Server(), PartOf("p0")) >= here


FROZEN = requested(
    NetworkOptions, task="classification", epsilon=4.0, delta=1e-5, embedding=2, trials=2, epochs=7
)
LOCAL = FROZEN.with_options(regime="private-local", epochs=2, label_epsilon=1.0, parameters=50)


def test_a_frozen_run_and_the_local_baseline_keep_their_epsilon() -> None:
    plan = plan_of(FROZEN)
    assert plan.passes == 1 and plan.options.epochs == 7
    assert event(plan, Server(), PartOf("p0")) == Repeated(PoissonBinomial(2, 2, plan.beta), 2)
    observers = {view.observer for view in plan.views}
    assert observers == {Server(), PartyView("h")}
    assert 3.9 < cost(plan, Server(), PartOf("p0")) <= 4.0
    sound = plan_of(FROZEN.with_options(mechanism="local-gaussian"))
    assert 3.9 < cost(sound, Server(), PartOf("p0")) <= 4.0
    paper = plan_of(PAPER.with_options(mechanism="local-gaussian"))
    assert float(paper.local_variance) == pytest.approx(2 * 3 / (4 * 0.1**2) * 4096**2)


def test_a_private_local_run_pays_within_its_targets_or_is_refused() -> None:
    plan = plan_of(LOCAL)
    spent = event(plan, Server(), PartOf("p0"))
    assert isinstance(spent, Composed) and len(spent.events) == 2
    assert 3.9 < cost(plan, Server(), PartOf("p0")) <= 4.0
    assert account(spent.events[0], 1e-5).epsilon <= 2.0
    assert plan.update_noise is not None and plan.label_noise is not None
    fellow = event(plan, PartyView("p0"), PartOf("h"))
    assert PoissonBinomial(1, 1, plan.label_beta) in fellow.events
    assert account(PoissonBinomial(1, 1, plan.label_beta), 0.0).epsilon <= 1.0
    request = replace(LOCAL.with_options(local_share=0.9, parameters=1000), epsilon=20.0)
    with pytest.raises(PlanError, match="nothing can be stated about them"):
        plan_of(request, parties=6)


def test_labels_are_coins_or_counts_and_a_sum_needs_contributors() -> None:
    many = '[label]\ncolumn = "y"\nkind = "classes"\nclasses = ["0", "1", "2"]\n'
    assert plan_of(PAPER, label=many).label_coordinates == 2
    real = '[label]\ncolumn = "y"\nkind = "real"\nlow = 0\nhigh = 1\n'
    assert plan_of(replace(PAPER, task="regression"), label=real).label_coordinates == 1
    with pytest.raises(PlanError, match="alone declares columns"):
        plan_of(FROZEN, parties=1, holder_has_columns=False)
    plan = plan_of(PAPER.with_options(epochs=3), rows=200, parties=5)
    assert formula_bytes(plan) == pytest.approx(3 * 200 * 5 * 16 * (math.log2(4 * 5) + 32) / 8)


def test_the_papers_regime_states_no_guarantee_and_may_randomise_labels() -> None:
    plan = plan_of(PAPER)
    assert plan.guarantees == () and plan.release("p0", run="r", reproducible=False).lines == ()
    assert "not end to end" in plan.statement and "not a guarantee" in plan.statement
    assert "shows labels" in plan.statement and not [view for view in plan.views if view.unit == PartOf("h")]
    plan = plan_of(PAPER.with_options(label_epsilon=2.0))
    assert plan.label_beta == Fraction(380797, 1000000) and "randomised labels" in plan.statement
    assert PoissonBinomial(1, 1, plan.label_beta) in event(plan, PartyView("p0"), PartOf("h")).events


def test_an_owner_is_charged_for_what_others_see_and_not_for_its_own_look() -> None:
    plan = plan_of(FROZEN.with_options(coalitions=[["h", "p1"]]))
    lines = {(line.observer, line.unit) for line in plan.release("p0", run="r", reproducible=False).lines}
    observers, units = ("party:h", "coalition:h+p1"), ("own-part:p0", "others-part")
    assert lines == {(observer, unit) for observer in observers for unit in units}
    assert plan.release("h", run="r", reproducible=False).lines == ()
    assert plan.release("server", run="r", reproducible=False).lines == ()
    plan = plan_of(LOCAL)
    lines = {(line.observer, line.unit) for line in plan.release("h", run="r", reproducible=False).lines}
    assert lines == {
        (f"party:{name}", unit) for name in ("p0", "p1") for unit in ("own-part:h", "others-part")
    }


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"beta": 0.3}, "β from above 0 to 1/4"),
        ({"beta": 0.0}, "β from above 0 to 1/4"),
        ({"beta": None}, "β from above 0 to 1/4"),
        ({"trials": 0}, "trials = 0 is not a whole number from 1"),
        ({"trials": 1 << 20}, "b is from 1 to 4096"),
        ({"embedding": 4096, "batch": 10**6}, "batches of at most 4096"),
        ({"gradient_bits": 8}, "16 or 32 bits"),
        ({"held_out": 1.0}, "from 0 to below 1"),
        ({"coalitions": (("h", "zoe"),)}, "a coalition is two owners or more of h, p0, p1"),
        ({"regime": "none"}, "is not one of frozen, private-local, paper"),
        ({"mechanism": "laplace"}, "is not one of poisson-binomial"),
        ({"task": "pca"}, "classification or regression"),
        ({"clip": 0.0}, "not a positive number"),
        ({"regime": "frozen"}, "calibrates β to ε"),
        ({"regime": "frozen", "beta": None, "mechanism": "none"}, "a baseline for public data"),
        ({"regime": "frozen", "beta": None, "epsilon": 1.0, "local_share": 1.0}, "between 0 and 1"),
        ({"regime": "frozen", "beta": None, "epsilon": 1.0, "label_epsilon": 0.0}, "label_epsilon"),
        ({"regime": "frozen", "beta": None, "epsilon": -1.0}, "positive number"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_what_would_do(change: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError) as refused:
        own = {name: change[name] for name in ("task", "epsilon") if name in change}
        changed = {name: value for name, value in change.items() if name not in own}
        plan_of(replace(PAPER.with_options(**changed), **own))
    assert says in str(refused.value)
