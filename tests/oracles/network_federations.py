"""Small federations that a network can learn something from."""

from typing import Any

import numpy as np
from training_specs import table_of

from colonnade.federation.federation import Federation

CLASSES = '[label]\ncolumn = "y"\nkind = "classes"\nclasses = ["no", "yes"]\n'
THREE = '[label]\ncolumn = "y"\nkind = "classes"\nclasses = ["a", "b", "c"]\n'
REAL = '[label]\ncolumn = "y"\nkind = "real"\nlow = -1\nhigh = 1\n'


def rows_of(rows: Any, *, parties: int = 3, label: Any = CLASSES, seed: int = 0) -> Any:
    """Two columns at each party and a label that leans on all of them, by name, and the label."""
    generator = np.random.default_rng(seed)
    columns = {f"x{number}": generator.uniform(-1, 1, rows) for number in range(2 * parties)}
    score = sum(columns.values()) / np.sqrt(2 * parties)
    if label == REAL:
        return columns, np.clip(score, -1, 1)
    if label == THREE:
        return columns, np.array(["a", "b", "c"])[np.digitize(score, [-0.3, 0.3])]
    return columns, np.where(score > 0, "yes", "no")


def federation_of(
    rows: int = 300,
    *,
    parties: int = 3,
    label: Any = CLASSES,
    seed: int = 0,
    holder_has_columns: bool = True,
    budget: Any = (1e6, 1e-5),
    first: int = 0,
    **more: Any,
) -> Any:
    columns, y = rows_of(rows, parties=parties, label=label, seed=seed)
    ids = np.arange(first, first + rows)
    tables = []
    for party in range(parties):
        arrays = {name: columns[name] for name in (f"x{2 * party}", f"x{2 * party + 1}")}
        holds = party == 0 and holder_has_columns
        tables.append(table_of(f"p{party}", arrays, label if holds else "", y, ids=ids))
    if not holder_has_columns:
        tables.insert(0, table_of("h", {}, label, y, ids=ids))
    return Federation(tables, budget=budget, **more)
