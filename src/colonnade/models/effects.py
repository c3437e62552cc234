"""What the noise of a release did to a model: its intervals, the effect of every column, and what stands out of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from colonnade.models.inputs import Array, units
from colonnade.models.moments import default_floor, learnable_rank, noise_edge
from colonnade.models.release import MomentRelease
from colonnade.models.uncertainty import Uncertainty, Watch, noise_uncertainty

COVERS = (
    "Intervals cover, {:g} times in 100 on average over the columns, what the same rule with the same floor would have "
    "found without the noise that protects people. They do not say how other people's rows would have changed it "
    "(sampling error), and not what the floor damps."
)


def learning_facts(
    release: MomentRelease, model_facts: Mapping[str, Any], watch: Watch | None = None
) -> dict[str, Any]:
    """Intervals around coefficients, and effects by column; no intervals where the rule is not the default."""
    if not model_facts or "intercept" not in model_facts:
        return {}
    # A fit of the matched rule takes seconds, and intervals would take a hundred.
    matched = model_facts.get("rule", {}).get("name") == "matched"
    uncertainty = None if matched else noise_uncertainty(release, watch=watch)
    given = np.array(model_facts["coefficients"], dtype=np.float64)
    if len(given) > 1:
        unknown = uncertainty.unknown if uncertainty else ()
        given = given - np.delete(given, list(unknown), axis=0).mean(axis=0)
    if uncertainty is not None and not np.allclose(uncertainty.coefficients, given, rtol=1e-6, atol=1e-9):
        uncertainty = None
    added: dict[str, Any] = {"by_column": _effects(release, model_facts["rows"], given, uncertainty)}
    if release.label.one_hot:
        added["count_noise"] = release.class_moments().count_noise
    if uncertainty is not None:
        widths = [[_finite(width) for width in row] for row in uncertainty.half_widths]
        added["intervals"] = {
            "rate": uncertainty.rate,
            "covers": COVERS.format(100 * uncertainty.rate),
            "coefficients": given.tolist(),
            "half_widths": widths,
        }
    return added


def _effects(
    release: MomentRelease, rows: list[str], coefficients: Array, uncertainty: Uncertainty | None
) -> list[dict[str, Any]]:
    """For every row of coefficients, its columns with their effects, the strongest first."""
    modes = {party: encoder.mode for party, encoder in release.encoders}
    columns: list[list[dict[str, Any]]] = [[] for _ in rows]
    for unit in units(release.encoders):
        if unit.mapped:
            # What went through a map together has no effect column by column.
            continue
        column = unit.columns[0]
        places, features = column.shown(modes[unit.party])
        combinations = np.zeros((len(places), release.columns))
        combinations[:, unit.span] = (features - features.mean(axis=0)) / math.sqrt(release.attributes)
        effects = coefficients @ combinations.T
        widths = None if uncertainty is None else uncertainty.half_widths_of(combinations)
        for number in range(len(rows)):
            points = [
                {
                    "at": at,
                    "effect": float(effects[number, place]),
                    "half_width": None if widths is None else _finite(widths[number, place]),
                }
                for place, at in enumerate(places)
            ]
            columns[number].append(
                {
                    "column": unit.name,
                    "owner": unit.party,
                    "ordered": column.ordered,
                    "points": points,
                    "range": float(np.ptp(effects[number])),
                }
            )
    return [
        {"row": row, "columns": sorted(entries, key=lambda item: -item["range"])}
        for row, entries in zip(rows, columns, strict=True)
        if entries
    ]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def spectrum_facts(release: MomentRelease) -> dict[str, Any]:
    """Eigenvalues of the scatter against what noise alone shows; none where it drowned even the row count."""
    if not release.plain_moments().count > 0:
        return {"eigenvalues": [], "edge": 0.0, "floor": 0.0, "learnable_rank": 0}
    values = np.asarray(np.linalg.eigvalsh(release.plain_moments().scatter().matrix)[::-1], dtype=np.float64)
    return {
        "eigenvalues": [float(f"{value:.6g}") for value in values],
        "edge": noise_edge(release.noise, len(values)),
        "floor": release.noise * default_floor(len(values)),
        "learnable_rank": learnable_rank(values, release.noise),
    }
