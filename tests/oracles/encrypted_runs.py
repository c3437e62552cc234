"""Small federations for the encrypted gradient, with keys that protect nothing and take no time."""

from collections.abc import Callable
from typing import Any

import numpy as np
from training_specs import planned_on, requested, table_of

from colonnade.data.table import AlignedTable, Table
from colonnade.federation.federation import Federation, Run
from colonnade.methods.encrypted.plan import EncryptedOptions, EncryptedPlan
from colonnade.methods.encrypted.protocol import encrypted_session
from colonnade.protocols.paillier import PaillierKeys, PaillierKeysForTests
from colonnade.protocols.plans import TrainingSpec

SMALL = PaillierKeysForTests(256)
WIDER = PaillierKeysForTests(512)


def tables_of(
    widths: dict[str, int], rows: int, *, seed: int = 0, classes: tuple[str, str] = ("no", "yes")
) -> list[Table]:
    """One table a party with so many numeric columns; the first party holds the label, which all columns decide."""
    rng = np.random.default_rng(seed)
    columns = {party: rng.uniform(-1, 1, (rows, width)) for party, width in widths.items()}
    score = sum(values.sum(axis=1) for values in columns.values()) + rng.normal(size=rows) * 0.3
    label = np.where(score > 0, classes[1], classes[0])
    declared = f"label = {{column = 'y', kind = 'classes', classes = {list(classes)}}}"
    tables: list[Table] = []
    for party, values in columns.items():
        arrays = {f"{party}{i}": values[:, i] for i in range(values.shape[1])}
        tables.append(table_of(party, arrays, "" if tables else declared, label))
    return tables


class ShortKeys(EncryptedOptions):
    """The options with keys that no job may ask for."""

    short_bits: int | None = None

    @property
    def keys(self) -> PaillierKeys:
        return super().keys if self.short_bits is None else PaillierKeysForTests(self.short_bits)


def request_of(widths: Any, **changes: Any) -> TrainingSpec:
    chosen: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-5, "epochs": 2, "batch": 8, "learning_rate": 0.1}
    chosen |= {"defence": "none", "public": tuple(widths), "alignment": "equal"}
    keys = changes.pop("keys", SMALL if changes.get("defence", "none") == "none" else WIDER)
    short = isinstance(keys, PaillierKeysForTests)
    chosen["short_bits" if short else "key_bits"] = keys.bits
    return requested(ShortKeys, **{**chosen, **changes})


def plan_of(widths: dict[str, int], rows: int, **changes: Any) -> EncryptedPlan:
    made: EncryptedPlan = planned_on(request_of(widths, **changes), tables_of(widths, rows))
    return made


def run_of(
    widths: dict[str, int],
    rows: int,
    *,
    session: Callable[..., Any] = encrypted_session,
    seed: int = 0,
    budget: tuple[float, float] = (50.0, 1e-3),
    record: bool = True,
    **changes: str | float | PaillierKeys,
) -> Run[Any]:
    federation = Federation(tables_of(widths, rows, seed=seed), budget=budget, public=True)
    return federation.run(session, request_of(widths, **changes), record=record)


def aligned_of(run: Run[Any]) -> dict[str, AlignedTable]:
    return {owner: run.result(owner).aligned for owner in run.plan.group.owners}
