"""How well an owner of an encrypted gradient tells two records apart by the statistic that the audit uses."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from training_specs import requested

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.data.schema import PublicSchema
from colonnade.lab import audited_descents as audit
from colonnade.lab.attacks import Look
from colonnade.lab.people import corner, together
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.runtime.party import Group

BATCHES, ROWS, DRAWS = 20, 5, 400


def plan() -> Any:
    label = ClassLabel("label", classes=("no", "yes"))
    schemas = (
        PublicSchema("bank", (NumericColumn("income", low=0, high=1),), label),
        PublicSchema("shop", (NumericColumn("visits", low=0, high=1),), None),
    )
    group = Group.of(("bank", "shop"), active="bank")
    return requested(EncryptedOptions, epsilon=1.0, delta=1e-5).plan(group, schemas, ROWS)


def scores(
    record: int, owner: str, monkeypatch: pytest.MonkeyPatch, drawn: np.random.Generator
) -> NDArray[np.float64]:
    """The statistic over runs in which the first record goes with the rest or against it, under noise as large."""
    agreed = plan()
    holds = owner == agreed.active
    people = together([corner(agreed.schemas, place) for place in (0.0, 1.0, 0.0, 1.0, 1.0)])
    label = people["bank"].label
    assert label is not None and set(label.tolist()) == {0, 1}
    statistic = audit._scores_statistic(agreed, owner)
    found = []
    for _ in range(DRAWS):
        looks = []
        for _ in range(BATCHES):
            # What the others' weights make of one and the same column, which differs from batch to batch.
            common = drawn.normal()
            if holds:
                others = np.full(ROWS, common)
                others[0] *= record
            else:
                others = np.full(ROWS, 0.2 * common)
                others[0] = -0.5 * record
            others = others + drawn.normal(size=ROWS)
            own = drawn.normal(size=ROWS)
            announced = others + own - (2.0 * (2.0 * label - 1.0) if holds else 0.0)
            looks.append(Look(0, np.arange(ROWS), announced, own, True))
        monkeypatch.setattr(audit, "OwnerView", lambda *_, looks=looks: SimpleNamespace(looks=looks))
        session: Any = SimpleNamespace(result=lambda _: SimpleNamespace(diary=None), people=people)
        claim: Any = None
        found.append(float(statistic(session, claim)[0]))
    return np.array(found)


@pytest.mark.parametrize(("owner", "least"), [("bank", 0.99), ("shop", 0.99)])
def test_under_noise_as_large_as_what_it_looks_for_it_orders_nearly_every_pair_of_runs(
    owner: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = np.random.default_rng(5)
    low, high = (scores(record, owner, monkeypatch, drawn) for record in (-1, 1))
    ordered = float(np.mean(low[:, None] > high[None, :]))
    assert max(ordered, 1 - ordered) > least
