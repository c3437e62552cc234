"""How far one record moves second moments that are told apart by class: Σ onehot(y) ⊗ zzᵀ with z = (x̃, g).

A record has one class, so it is in one of C matrices, as it would be in the one matrix of a plain release; only where
it changes its class do two of them move. Proofs: docs/proofs/conditional-moments.md.
"""

from __future__ import annotations

from colonnade.privacy.leaves import MatrixChange
from colonnade.privacy.sensitivity.matrix import (
    RowShape,
    matrix_change_part_replaced,
    matrix_change_replace,
    matrix_change_zero_out,
    root_up,
)


def conditional_change_zero_out(row: RowShape) -> MatrixChange:
    """One record becomes the zero row: D = zzᵀ in the matrix of its class, and 0 in the others.

    Guarantee: that of a plain release, whose row has the same entries.
    """
    _by_class(row)
    return matrix_change_zero_out(row)


def conditional_change_replace(row: RowShape) -> MatrixChange:
    """One record becomes any other: in one matrix if the class stays, else in two, zzᵀ out of one and into another.

    Guarantee, with B ≥ ‖z‖² and A₀, Q₀, R₀ those of a record zeroed out: F ≤ √2·B (attained), and A, Q and R are at
    most the larger of a plain replacement's and of 2A₀, 2Q₀, 2R₀.
    """
    _by_class(row)
    return _larger(matrix_change_replace(_one_class(row)), _moved(row))


def conditional_change_part_replaced(part: RowShape, rest: RowShape) -> MatrixChange:
    """One party's part of one record, or everybody's but one's, is replaced, and the rest of the record stays.

    Guarantee: where the label stays, that of a plain release. Where `part` holds the label, the record may change its
    class, and then `rest` moves with it from one matrix to the other: the bound of a record replaced.
    """
    whole = part.beside(rest)
    _by_class(whole)
    if part.label_entries:
        return conditional_change_replace(whole)
    return matrix_change_part_replaced(part, _one_class(rest))


def _by_class(row: RowShape) -> None:
    if not row.one_hot:
        raise ValueError("moments are told apart by a one-hot label")


def _one_class(row: RowShape) -> RowShape:
    """Rows within one class: the label is a constant there, one entry that every row has."""
    return RowShape(row.features, row.norm_squared, 1, row.label_norm_squared, one_hot=True)


def _moved(row: RowShape) -> MatrixChange:
    once = matrix_change_zero_out(row)
    return MatrixChange(
        frobenius=root_up(2 * row.bound**2),
        weighted_l1=2 * once.weighted_l1,
        fourth=2 * once.fourth,
        fourth_l1=2 * once.fourth_l1,
    )


def _larger(one: MatrixChange, other: MatrixChange) -> MatrixChange:
    return MatrixChange(
        frobenius=max(one.frobenius, other.frobenius),
        weighted_l1=max(one.weighted_l1, other.weighted_l1),
        fourth=max(one.fourth, other.fourth),
        fourth_l1=max(one.fourth_l1, other.fourth_l1),
    )
