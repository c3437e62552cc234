"""Small plans of noisy margin descent, and runs of them as every party runs it."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from gradient_tables import tables_of
from plan_runs import ledgers_for, run_protocol
from training_specs import requested
from typed import untyped

from colonnade.methods.margin.plan import MarginOptions
from colonnade.methods.margin.protocol import OwnRows, noisy_margin
from colonnade.runtime.party import Group


class Silence:
    """Noise that is none, in place of either."""

    support = 0

    def part(self, parts: Any) -> Any:
        return self

    def draw(self, shape: Any, randomness: Any) -> Any:
        return np.zeros(shape, dtype=np.int64)

    def draw_symmetric(self, size: Any, randomness: Any) -> Any:
        return np.zeros((size, size), dtype=np.int64)


def watched_rows(monkeypatch: pytest.MonkeyPatch) -> dict[str, OwnRows]:
    """The integers that every owner makes of its rows from here on."""
    found: dict[str, OwnRows] = {}
    honest = untyped(OwnRows.read).__func__

    def watched(cls: Any, owner: str, *how: Any) -> Any:
        found[owner] = honest(cls, owner, *how)
        return found[owner]

    monkeypatch.setattr(OwnRows, "read", classmethod(watched))
    return found


def margin_plan(
    tables: Any, group: Any = None, *, epsilon: float = 1.0, share: Any = Fraction(1, 10), **terms: Any
) -> Any:
    group = group or Group.of(tuple(table.party for table in tables), active=tables[0].party)
    how = {"steps": 3, "harmonics": 6, "moments_share": float(share), **terms}
    return requested(MarginOptions, epsilon=epsilon, delta=1e-5, **how).planned(
        group, tuple(table.public() for table in tables), tables[0].rows
    )


def silenced(plan: Any) -> Any:
    """The plan without noise, in the field it would have with it."""
    _ = plan.scheme, plan.views, plan.replaced
    plan.__dict__.update(noise=Silence(), moments_noise=Silence())
    return plan


def run_margin(plan: Any, tables: Any, **how: Any) -> Any:
    """The server's result is its descent."""
    outcome = run_protocol(noisy_margin, plan, tables, **how)
    return replace(outcome, results={name: opened for name, (opened, _) in outcome.results.items()})


__all__ = ["Silence", "ledgers_for", "margin_plan", "run_margin", "silenced", "tables_of"]
