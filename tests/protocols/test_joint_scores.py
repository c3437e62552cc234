"""Joint scores: exact sums for one reader, refused where a promise was made, noisy and charged where ε is given."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from embeddings_parties import desks_for, group_of, schemas_of, tables_for

from colonnade.data.encoder import Encoder
from colonnade.data.labels import LabelBlock
from colonnade.errors import BudgetExceeded, DataError, PlanError, PrivacyError
from colonnade.evaluation.scores import linear_bound, linear_terms, score_jointly, trained_people
from colonnade.federation.federation import Federation
from colonnade.models.inputs import InputSpec
from colonnade.privacy.events import PoissonBinomial, Repeated
from colonnade.protocols.joint_scores import ScoresSpec, scores_session
from colonnade.runtime.party import Party
from colonnade.runtime.run import run_here

EXACT = ScoresSpec(receiver="h", width=2, bound=3.0, weights="released")


def terms_of(table: Any) -> Any:
    return lambda aligned: np.outer(next(aligned.blocks()).columns["x"], [1.0, -2.0])


def scored(
    tables: Any,
    request: Any,
    *,
    trained: Any = (),
    epsilon: float = 1e6,
    record: bool = False,
    terms: Any = terms_of,
) -> Any:
    async def session(party: Party, table: Any, requested: Any) -> Any:
        mine = terms(table) if table is not None and table.schema.columns else None
        return await scores_session(party, table, requested, mine, frozenset(trained))

    return run_here(session, group_of(tables), desks_for(tables, epsilon=epsilon), request, record=record)


def exact_sums(tables: Any) -> Any:
    return sum(np.outer(next(table.blocks()).columns["x"], [1.0, -2.0]) for table in tables)


def test_the_receiver_alone_reads_the_exact_sums_with_columns_or_without() -> None:
    tables = tables_for(15)
    outcome = scored(tables, EXACT, record=True)
    assert np.allclose(outcome.results["h"].sums, exact_sums(tables), atol=3 * 3.0 / 2**23)
    for member in ("p0", "p1", "server"):
        assert outcome.results[member].sums is None
        assert all(seen.step != "scores" for seen in outcome.seen[member])
    tables = tables_for(15, parties=2, holder_has_columns=False)
    outcome = scored(tables, EXACT)
    assert np.allclose(outcome.results["h"].sums, exact_sums(tables[1:]), atol=1e-5)
    assert "disclosed to h" in outcome.results["h"].plan.statement


def test_people_who_were_trained_on_are_refused_without_noise() -> None:
    with pytest.raises(PrivacyError, match=r"2 of the 15 people to score were trained on.*--epsilon"):
        scored(tables_for(15), EXACT, trained=("3", "7", "99"))


def test_with_epsilon_the_scores_are_noisy_accounted_for_and_charged() -> None:
    tables = tables_for(15)
    request = replace(EXACT, epsilon=4.0, delta=1e-5, trials=4)
    outcome = scored(tables, request, trained=("3", "7"))
    plan = outcome.results["h"].plan
    assert plan.views[0].event == Repeated(PoissonBinomial(2, 4, plan.beta), 2)
    assert 3.9 < plan.guarantees[0].epsilon <= 4.0
    grid = outcome.results["h"].sums * float(plan.beta) * 4 / 3.0
    assert np.allclose(grid, np.rint(grid), atol=1e-6)
    lines = {(line.observer, line.unit) for line in plan.release("p0", run="r", reproducible=False).lines}
    assert lines == {("party:h", "own-part:p0"), ("party:h", "others-part")}
    with pytest.raises(BudgetExceeded):
        scored(tables, request, epsilon=1.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"weights": "paper"}, "released, public or privately trained"),
        ({"receiver": "zoe"}, "not among the owners"),
        ({"width": 0}, "all of them are positive"),
        ({"bound": float("inf")}, "all of them are positive"),
        ({"epsilon": 0.0}, "positive number"),
    ],
)
def test_what_cannot_be_scored_is_refused(change: Any, says: Any) -> None:
    tables = tables_for(15)
    with pytest.raises(PlanError, match=says):
        replace(EXACT, **change).plan(group_of(tables), schemas_of(tables), 15)


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        (np.eye(15, 2) * 3.1, "outside ±3"),
        (np.where(np.eye(15, 2) > 0, np.nan, 0.0), "not numbers"),
        (np.zeros((15, 1)), "agreed were 2 each"),
    ],
)
def test_terms_that_are_not_as_agreed_are_refused_by_their_own_party(terms: Any, says: Any) -> None:
    with pytest.raises(DataError, match=says):
        scored(tables_for(15), EXACT, terms=lambda table: lambda aligned: terms)


def test_a_linear_model_whose_weights_stay_apart_is_scored_as_if_they_were_together() -> None:
    federation = Federation(tables_for(30, parties=2), budget=(10.0, 1e-5))
    schemas = schemas_of(list(federation.tables.values()))
    encoders = tuple((schema.party, Encoder(schema.columns, "linear")) for schema in schemas)
    frame = InputSpec(encoders, LabelBlock(schemas[0].label))
    coefficients = np.array([[1.5, -0.5]])
    request = ScoresSpec("h", 1, linear_bound(frame, coefficients), "private")
    found = score_jointly(federation, request, linear_terms(frame, coefficients), trained_on={})
    raw = {f"{party}.x": next(table.blocks()).columns["x"] for party, table in federation.tables.items()}
    assert np.allclose(found.sums, frame.features(raw) @ coefficients.T, atol=1e-5)
    assert found.ids[:2] == ("0", "1") and "exact" in found.statement
    known = trained_people(found.run)
    assert len(known["h"]) == 30 and all(str(number) in known["h"] for number in range(30))
    with pytest.raises(PrivacyError, match="30 of the 30"):
        score_jointly(federation, request, linear_terms(frame, coefficients), trained_on=known)
