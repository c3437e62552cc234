"""What cannot be had is refused before it is paid for, and what stopped half way says where."""

from __future__ import annotations

import pytest

from colonnade import PCA, Federation, Schema, Table
from colonnade.errors import DataError, InputError


def federation(age: list[float]) -> Federation:
    def declared(column: str) -> Schema:
        return Schema.parse(f'id = "n"\ncolumns.{column} = {{kind = "numeric", low = 0, high = 90}}')

    bank = Table.from_arrays("bank", {"age": age}, declared("age"), ids=["a", "b", "c"])
    shop = Table.from_arrays("shop", {"spent": [1, 5, 9]}, declared("spent"), ids=["d", "e", "f"])
    return Federation([bank, shop], budget=(2.0, 1e-5))


def test_more_components_than_features_are_refused_before_a_release_is_paid_for() -> None:
    parties = federation([30, 50, 70])
    assert parties.features("pca") == 2
    with pytest.raises(InputError, match="n_components = 3, but there are 2 features"):
        PCA(n_components=3, epsilon=1.0, delta=1e-5).fit(parties)
    assert [entry.kind for entry in parties.ledgers["bank"].entries()] == ["opened", "budget"]


def test_a_run_that_stopped_says_at_which_party_and_after_which_step() -> None:
    parties = federation([30, 50, 70])
    with pytest.raises(DataError, match="no ids in common"):
        parties.moments(task="pca", epsilon=1.0, delta=1e-5)
    stopped = parties.stopped
    assert stopped is not None and stopped.party in ("bank", "shop") and stopped.run
    assert isinstance(stopped.error, DataError) and set(stopped.reached) == {"bank", "shop", "server"}
    assert [entry.kind for entry in parties.ledgers["bank"].entries()] == ["opened", "budget", "compared"]
