"""Logistic regression by noisy gradients as users meet it: learners, options, notes, the paper's three releases."""

from typing import Any

import numpy as np
import pytest
from gradient_tables import tables_of
from typed import untyped

from colonnade import Federation, LogisticRegression
from colonnade.errors import PlanError
from colonnade.methods.slr.method import as_log_odds
from colonnade.methods.slr.plan import SlrOptions
from colonnade.methods.table import train_with
from colonnade.protocols.plans import TrainingSpec

ROWS = 4000
SHORT: dict[str, Any] = {"epochs": 4.0, "rate": 0.25, "weight_cap": 4.0}


def federation(parties: Any = ("bank", "shop"), rows: Any = ROWS, **more: Any) -> Any:
    return Federation(
        tables_of(parties, rows), **{"budget": (200.0, 1e-5), "public": True, "noise_seed": 5, **more}
    )


def people(source: Any) -> Any:
    """Everybody's raw columns and labels in one place, as only a test may have them."""
    rows: dict[Any, Any] = {}
    labels = None
    for table in source.tables.values():
        for block in table.blocks(ROWS):
            rows |= dict(block.columns)
            labels = block.label if block.label is not None else labels
    kinds = {name: np.array(list("abc"))[codes] for name, codes in rows.items() if name.endswith("_kind")}
    return rows | kinds, np.array(["no", "yes"])[labels]


@pytest.fixture(scope="module")
def fitted() -> Any:
    source = federation()
    return source, LogisticRegression(epsilon=2.0, method="slr", options=SHORT).fit(source)


def test_it_learns_what_the_moments_learn(fitted: Any) -> None:
    source, model = fitted
    rows, labels = people(source)
    exact = LogisticRegression(method="non-private").fit(federation())
    assert model.score(rows, labels) > exact.score(rows, labels) - 0.03 > 0.7


def test_its_privacy_and_run_are_there_to_read(fitted: Any) -> None:
    source, model = fitted
    by_name = {one.observer.name: one for one in model.privacy_}
    assert by_name["server"].epsilon <= 2.0 < by_name["party:shop"].epsilon
    assert "who is in a batch" in str(by_name["server"])
    run = source.runs[-1]
    assert run.plan.schedule.steps == 16 and run.release is None
    assert {"batch", "weights", "gradient", "noise"} <= set(run.outcome.bytes_by_step)


def test_every_owner_reads_the_same_weights_as_the_server(fitted: Any) -> None:
    source, _ = fitted
    run = source.runs[-1]
    for owner in run.plan.group.owners:
        assert run.result(owner).weights.tolist() == run.result().weights.tolist()


def test_log_odds_are_those_of_the_weights_on_the_training_rows(fitted: Any) -> None:
    source, model = fitted
    run = source.runs[-1]
    weights, plan = run.result().weights, run.plan
    rows, _ = people(source)
    encoded = {
        party: encoder.encode({c.name: rows[c.name] for c in encoder.columns})
        for party, encoder in plan.encoders.items()
    }
    parts = [
        np.column_stack([encoded[party], np.ones(ROWS)]) if party == plan.label_holder else encoded[party]
        for party in plan.group.owners
    ]
    scores = np.concatenate(parts, axis=1) @ weights / np.sqrt(plan.attributes)
    # The constant on the grid is ⌊γ/√(m + 1)⌋, at most one unit short.
    np.testing.assert_allclose(model.decision_function(rows), scores, atol=4.0 / plan.gamma)
    assert as_log_odds(weights, plan)[0].shape == model.coef_[0].shape


@pytest.mark.parametrize("optimiser", [pytest.param("sgd", marks=pytest.mark.slow), "adam"])
def test_any_optimiser_may_move_the_weights(optimiser: Any) -> None:
    source = federation()
    rate = 0.5 if optimiser == "adam" else 8.0
    options = SHORT | {"optimiser": optimiser, "learning_rate": rate}
    model = LogisticRegression(epsilon=2.0, method="slr", options=options).fit(source)
    rows, labels = people(source)
    assert model.score(rows, labels) > 0.7


def test_five_parties_train_with_two_colluders_allowed_for() -> None:
    source = federation(("bank", "insurer", "shop", "clinic", "school"), rows=1000)
    options = {**SHORT, "rate": 1.0}
    model = LogisticRegression(epsilon=4.0, method="slr", options=options).fit(source)
    assert source.runs[-1].plan.group.threshold == 2
    assert model.coef_.shape == (1, 5 * 6)


def test_notes_say_how_often_a_person_can_be_used() -> None:
    source = federation()
    learnt = train_with(
        source, "slr", TrainingSpec("classification", 2.0, delta=1e-5, options=SlrOptions(**SHORT))
    )
    assert f"more than {untyped(learnt.run).plan.uses} of them" in " ".join(untyped(learnt).notes)


def test_a_budget_that_does_not_cover_the_whole_schedule_stops_it_before_it_starts() -> None:
    source = federation(budget=(1.0, 1e-5))
    with pytest.raises(Exception, match="costs ε"):
        LogisticRegression(epsilon=2.0, method="slr", options=SHORT).fit(source)
    assert source.runs == []


# --- the paper's own algorithm


def test_three_releases_learn_too_and_promise_nothing() -> None:
    source = federation(rows=2000)
    options = SlrOptions(calibration="paper", gamma=64, **SHORT)
    learnt = train_with(source, "slr", TrainingSpec("classification", 4.0, delta=1e-5, options=options))
    assert tuple(learnt.privacy) == () and learnt.run is None
    assert all("paper formula, not a guarantee" in str(text) for text in (*learnt.figures, *learnt.notes))
    rows, labels = people(source)
    assert LogisticRegression().fit(learnt).score(rows, labels) > 0.7


def test_three_releases_are_refused_on_private_data() -> None:
    options = SHORT | {"calibration": "paper"}
    with pytest.raises(PlanError, match="public"):
        LogisticRegression(method="slr", options=options).fit(federation(rows=100, public=False))


def test_three_releases_have_no_plan() -> None:
    with pytest.raises(PlanError, match="there is no plan of it"):
        TrainingSpec("classification", 1.0, options=SlrOptions(calibration="paper")).check()


def test_a_grid_too_fine_for_the_papers_noise_is_refused() -> None:
    options = SHORT | {"calibration": "paper", "gamma": 1 << 16, "epochs": 1.0, "rate": 1.0}
    with pytest.raises(PlanError, match="Take a smaller gamma"):
        LogisticRegression(epsilon=1.0, method="slr", options=options).fit(federation(rows=100))
