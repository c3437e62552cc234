"""The encrypted gradient as a method: what it trains, what it promises, and on which data."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from encrypted_runs import SMALL, WIDER, tables_of
from numpy.typing import NDArray
from typed import there, untyped

from colonnade.data.table import Table
from colonnade.federation.federation import Federation
from colonnade.methods.encrypted import plan as encrypted_plan
from colonnade.methods.encrypted.method import METHOD
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.methods.encrypted.protocol import OwnerState, encrypted_session
from colonnade.methods.table import METHODS
from colonnade.privacy.paper import LABEL
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SystemRandomness

WIDTHS = {"a": 2, "b": 3}


def requested(epsilon: float = 1.0, **options: Any) -> TrainingSpec:
    return TrainingSpec(
        "classification", epsilon, delta=1e-5, options=EncryptedOptions(epochs=2, batch=20, **options)
    )


@pytest.fixture(autouse=True)
def short_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"none": SMALL}
    monkeypatch.setattr(encrypted_plan, "PaillierKeys", lambda bits: keys.get(bits, WIDER))


def federation(*, public: bool = True, rows: int = 60) -> Federation:
    return Federation(tables_of(WIDTHS, rows), budget=(20.0, 1e-5), public=public)


def raw_rows(tables: Iterable[Table]) -> dict[str, NDArray[np.float64]]:
    return {
        name: np.concatenate([block.columns[name] for block in table.blocks()])
        for table in tables
        for name in (column.name for column in table.schema.columns)
    }


def test_the_method_is_in_the_table_and_each_defence_says_what_it_is() -> None:
    assert METHODS["encrypted"] is METHOD and METHOD.tasks == ("classification",)
    sound = METHOD.train(federation(public=False), requested(defence="sound"))
    assert [item.epsilon <= 1.0 for item in sound.privacy] == [True, True] and untyped(sound).figures == ()
    none = METHOD.train(federation(), requested(defence="none"))
    assert tuple(none.privacy) == () and "no ε" in untyped(none).notes[0]
    paper = METHOD.train(federation(), requested(epsilon=0.5, defence="paper", learning_rate=0.5))
    assert tuple(paper.privacy) == () and LABEL in untyped(paper).notes[0]
    assert len(untyped(paper).figures) == 2 and all(LABEL in str(figure) for figure in untyped(paper).figures)


def test_scores_of_the_model_are_those_of_the_parties_together() -> None:
    parties = federation()
    learnt = METHOD.train(parties, requested(defence="none"))
    run = learnt.run
    together = sum(
        OwnerState(o, untyped(run).aligned[o], untyped(run).plan, SystemRandomness()).features
        @ untyped(run).result(o).weights
        for o in WIDTHS
    )
    scores = (
        untyped(learnt).frame.features(raw_rows(parties.tables.values())) @ untyped(learnt).coefficients[0]
    )
    # Rows of the run are rounded to the grid 1/γ.
    assert np.allclose(scores, together, atol=1e-3 * np.abs(untyped(learnt).coefficients).sum())
    assert untyped(learnt).split and untyped(learnt).intercepts.tolist() == [0.0]


def test_without_a_defence_it_learns_as_well_as_least_squares() -> None:
    parties = federation(rows=200)
    options = EncryptedOptions(epochs=60, batch=200, learning_rate=7.0, defence="none")
    learnt = METHOD.train(parties, TrainingSpec("classification", 1.0, delta=1e-5, options=options))
    features = untyped(learnt).frame.features(raw_rows(parties.tables.values()))
    run = learnt.run
    labels = OwnerState("a", untyped(run).aligned["a"], untyped(run).plan, SystemRandomness()).labels
    fitted, *_ = np.linalg.lstsq(features, 2 * there(labels), rcond=None)
    # The Taylor coefficient is the gradient of ‖Xθ − 2y‖²/8.
    assert np.allclose(untyped(learnt).coefficients[0], fitted, rtol=0.05, atol=0.05)


def test_between_machines_every_owner_keeps_its_own_weights() -> None:
    parties = federation(public=False)
    run = METHOD.train(parties, requested()).run
    own = METHOD.model(requested(), {"b": untyped(run).result("b")})
    assert untyped(own).frame.feature_names == ("b0", "b1", "b2")
    assert untyped(own).coefficients[0].tolist() == untyped(run).result("b").weights.tolist()
    nobody = METHOD.model(requested(), {"server": untyped(run).result("server")})
    assert untyped(nobody).coefficients.size == 0 and untyped(nobody).split
    assert METHOD.resumable and METHOD.session(requested()) is encrypted_session
