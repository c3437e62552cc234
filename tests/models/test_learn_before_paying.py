"""What cannot be had is refused before it is paid for, and what stopped half way says where."""

import warnings
from typing import Any

import pytest
from learn_releases import Shoppers

from colonnade import (
    PCA,
    Federation,
    GammaRegression,
    LinearRegression,
    LogisticRegression,
    NeuralClassifier,
    NeuralRegressor,
    PoissonRegression,
    Schema,
    SupportVectorClassifier,
    Table,
)
from colonnade.errors import DataError, DeltaTooLarge


def federation(age: list[float]) -> Federation:
    def declared(column: str) -> Schema:
        return Schema.parse(f'id = "n"\ncolumns.{column} = {{kind = "numeric", low = 0, high = 90}}')

    bank = Table.from_arrays("bank", {"age": age}, declared("age"), ids=["a", "b", "c"])
    shop = Table.from_arrays("shop", {"spent": [1, 5, 9]}, declared("spent"), ids=["d", "e", "f"])
    return Federation([bank, shop], budget=(2.0, 1e-5))


SHORT = {"epochs": 1}


@pytest.mark.parametrize(
    ("learner", "kind", "chosen"),
    [
        (LogisticRegression, "two", {"method": "moments"}),
        (LogisticRegression, "two", {}),
        (LinearRegression, "real", {"method": "moments"}),
        (PCA, "none", {"method": "moments"}),
        (SupportVectorClassifier, "two", {"options": SHORT}),
        (PoissonRegression, "count", {"options": SHORT}),
        (GammaRegression, "cost", {"options": SHORT}),
        (NeuralClassifier, "two", {"embedding": 1, "epochs": 1}),
        (NeuralRegressor, "real", {"embedding": 1, "epochs": 1}),
    ],
)
def test_what_is_advised_of_a_large_delta_can_be_given_to_every_estimator(
    learner: Any, kind: str, chosen: dict[str, Any]
) -> None:
    if learner.__name__.startswith("Neural"):
        pytest.importorskip("torch")
    requested = {"epsilon": 20.0, "delta": 0.05, **chosen}
    people = Shoppers(60).federation(kind)
    with pytest.raises(DeltaTooLarge, match=r"or say accepted_delta = 0\.05 if you mean it"):
        learner(**requested).fit(people)
    for ledger in people.ledgers.values():
        ledger.set_budget(people.datasets.get(ledger.party, "d"), "*", "*", epsilon=900.0, delta=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = learner(**requested, accepted_delta=0.05).fit(people)
    assert fitted.privacy_ and all(item.delta == 0.05 for item in fitted.privacy_)
    assert learner(**requested, accepted_delta=0.05).get_params()["accepted_delta"] == 0.05


def test_a_run_that_stopped_says_at_which_party_and_after_which_step() -> None:
    parties = federation([30, 50, 70])
    with pytest.raises(DataError, match="no ids in common"):
        parties.moments(task="pca", epsilon=1.0, delta=1e-5)
    stopped = parties.stopped
    assert stopped is not None and stopped.party in ("bank", "shop") and stopped.run
    assert isinstance(stopped.error, DataError) and set(stopped.reached) == {"bank", "shop", "server"}
    assert [entry.kind for entry in parties.ledgers["bank"].entries()] == ["opened", "budget", "compared"]
