"""The theorem on noisy quadratics (docs/proofs/noisy-quadratic.md), held against releases of public sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from benchmarks.public_data import PublicSet
from colonnade.methods.moments.method import noise_of
from colonnade.models.release import MomentRelease
from colonnade.randomness import public_permutation
from reproduction.one_place import OnePlace
from reproduction.sections import Section, Table, timed

Array = NDArray[np.float64]
DRAWS = 20
LOW, HIGH = 4 / 9, 4.0


def squares_section(
    title: str, sets: Mapping[str, PublicSet], *, people: tuple[int, ...], epsilons: tuple[float, ...]
) -> Section:
    """Mean excess over draws of the noise, over what the theorem's middle says."""
    rows, ratios, single = [], [], []
    with timed() as watch:
        for name, everybody in sets.items():
            for count in people:
                if count > len(everybody.labels):
                    continue
                chosen = public_permutation(len(everybody.labels), 0)[:count]
                place = OnePlace(everybody.tables(2, chosen))
                for epsilon in epsilons:
                    cells, each = _compared(place, epsilon)
                    rows.append((name, f"{count:,}", f"{epsilon:g}", *cells))
                    ratios.append(fmean(each))
                    single += each
    within = sum(LOW <= ratio <= HIGH for ratio in single) / len(single)
    text = f"""
For squares there is a theorem ([proof](proofs/noisy-quadratic.md)): a least-squares model from a moment release with
noise s on every entry, damped by λ = 4s√d, has an excess of the damped squared error of s²·((1 + ‖w‖²)·tr A⁻¹ + wᵀA⁻¹w)
on average, up to a factor between 4/9 and 4. Here the class is a number, −1 or 1, and every line has {DRAWS} draws of
the noise of a real plan on the same people. *Foretold* is that middle, by person; *measured* the mean of the draws.
The means are between {min(ratios):.2f} and {max(ratios):.2f} of what is foretold, {median(ratios):.2f} in the middle;
of single draws {within:.0%} lie within the theorem's factor, which is for one draw and its own r.
"""
    head = ("set", "people", "ε", "columns", "noise s", "‖w‖²", "foretold", "measured", "ratio")
    return Section(
        title,
        text,
        (Table("Excess of the mean squared error", head, tuple(rows)),),
        (),
        watch.seconds,
        facts={"ratios": [round(ratio, 4) for ratio in ratios], "within": round(within, 4)},
    )


def _compared(place: OnePlace, epsilon: float) -> tuple[tuple[str, ...], list[float]]:
    """One line of the table, and every draw's excess over what is foretold."""
    plan = place.plan("moments", "regression", epsilon=epsilon)
    noise = noise_of(plan)
    exact = place.exact_moments(plan)
    matrix, right = _quadratic(exact)
    damping = 4.0 * noise * math.sqrt(len(matrix))
    damped = matrix + damping * np.eye(len(matrix))
    inverse = np.linalg.inv(damped)
    best = inverse @ right
    length = float(best @ best)
    foretold = noise**2 * ((1.0 + length) * float(np.trace(inverse)) + float(best @ inverse @ best))
    found = []
    for _ in range(DRAWS):
        noisy, side = _quadratic(place.moments("regression", epsilon=epsilon))
        weights = np.linalg.solve(noisy + damping * np.eye(len(matrix)), side)
        off = weights - best
        found.append(float(off @ damped @ off))
    people = plan.rows
    cells = (
        str(len(matrix) - 1),
        f"{noise:.3g}",
        f"{length:.3g}",
        f"{foretold / people:.2e}",
        f"{fmean(found) / people:.2e}",
        f"{fmean(found) / foretold:.2f}",
    )
    return cells, [each / foretold for each in found]


def _quadratic(release: MomentRelease) -> tuple[Array, Array]:
    """A and b in natural units: of the features and the constant, against the label."""
    natural = np.asarray(release.matrix, dtype=np.float64) / release.gamma**2
    return natural[:-1, :-1], natural[:-1, -1]
