"""Another owner's columns from its scores: exactly if it has one, up to a rotation if it has more.

"Is Vertical Logistic Regression Privacy-Preserving?", theorem 3.5 for one column and remark 4.9 for the owner without
the label. For several columns theorem 3.6 says that scores cannot show them: any rotation gives the same scores. What
they do show is every inner product of two records, which is the records up to that rotation.

The other owner's weights move by −(η/s)Σ f·x with coefficients f that the attacker knows, so its score of record i,
between two looks at it, moves by −(η/s)Σ f_j⟨x_i, x_j⟩: linear in the inner products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.attacks.views import PartyView

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
# A score smaller than this part of the largest of all gives no ratio that can be trusted.
_WEAK = 1e-3


@dataclass(frozen=True, eq=False)
class ForeignScores:
    """One batch of the others' scores, and the coefficients that moved the weights after it."""

    rows: Integers
    scores: Array
    coefficients: Array


def foreign_scores(view: PartyView, labels: Array) -> tuple[ForeignScores, ...]:
    """What the others' columns contribute to every score, for an attacker who has the labels, its own or
    recovered."""
    scores = []
    for look, told in zip(view.looks, view.diary.scores, strict=True):
        if told.size:
            scores.append(ForeignScores(look.rows, told, look.coefficients))
        else:
            others = look.coefficients - look.own_scores + 2.0 * labels[look.rows]
            scores.append(ForeignScores(look.rows, others, look.coefficients / view.scale))
    return tuple(scores)


def recover_column(scores: tuple[ForeignScores, ...], *, rows: int, step: float) -> Array:
    """The values of another owner's only column, up to one sign; NaN where no chain of batches reaches.

    Scores of one batch are in the ratio of the values; batches of different epochs share records, so ratios spread.
    The size follows from how far a score moved between two looks (equation (13)), here by least squares over all of
    them.
    """
    ratios = _ratios(scores, rows)
    known = np.isfinite(ratios)
    filled = np.where(known, ratios, 0.0)
    last: dict[int, tuple[float, float]] = {}
    moved, expected = [], []
    travelled = 0.0
    for batch in scores:
        for row, score in zip(batch.rows.tolist(), batch.scores.tolist(), strict=True):
            if row in last and known[row]:
                before, at = last[row]
                moved.append(score - before)
                expected.append(ratios[row] * (travelled - at))
            last[row] = (score, travelled)
        travelled -= step * float(batch.coefficients @ filled[batch.rows])
    if not moved:
        return np.full(rows, np.nan)
    square = float(np.dot(moved, expected) / (np.dot(expected, expected) or 1.0))
    size = np.sqrt(square) if square > 0 else np.nan
    return np.asarray(ratios * size)


def _ratios(scores: tuple[ForeignScores, ...], rows: int) -> Array:
    """Values over that of one record, by passing from batch to batch; NaN where none leads there."""
    ratios = np.full(rows, np.nan)
    strongest = max(scores, key=lambda batch: float(np.max(np.abs(batch.scores), initial=0.0)))
    ratios[strongest.rows[int(np.argmax(np.abs(strongest.scores)))]] = 1.0
    least = _WEAK * float(np.max(np.abs(strongest.scores), initial=0.0))
    changed = True
    while changed:
        changed = False
        for batch in scores:
            there = np.isfinite(ratios[batch.rows])
            links = there & (np.abs(batch.scores) > least)
            if not links.any() or there.all():
                continue
            # The weight behind a batch of scores, from its most trustworthy record.
            best = np.flatnonzero(links)[int(np.argmax(np.abs(batch.scores[links])))]
            weight = batch.scores[best] / ratios[batch.rows[best]]
            ratios[batch.rows[~there]] = batch.scores[~there] / weight
            changed = True
    return ratios


def recover_inner_products(
    scores: tuple[ForeignScores, ...], *, rows: int, step: float, starts_at_zero: bool
) -> Array:
    """⟨xᵢ, xⱼ⟩ for all pairs of records, by least squares over every two successive looks at a record.

    There are n(n + 1)/2 unknowns and n equations an epoch, so about n/2 epochs are needed. If weights start at zero,
    so does every score, which is one look more.
    """
    pairs = np.full((rows, rows), -1, dtype=np.int64)
    upper = np.triu_indices(rows)
    pairs[upper] = np.arange(len(upper[0]))
    pairs = np.maximum(pairs, pairs.T)
    walked = np.zeros(rows)
    last = {row: (0.0, np.zeros(rows)) for row in range(rows)} if starts_at_zero else {}
    equations, moved = [], []
    for batch in scores:
        for row, score in zip(batch.rows.tolist(), batch.scores.tolist(), strict=True):
            if row in last:
                before, at = last[row]
                equation = np.zeros(len(upper[0]))
                np.add.at(equation, pairs[row], walked - at)
                equations.append(equation)
                moved.append(score - before)
            last[row] = (score, walked.copy())
        walked[batch.rows] -= step * batch.coefficients
    products, *_ = np.linalg.lstsq(np.array(equations), np.array(moved), rcond=None)
    return np.asarray(products[pairs])
