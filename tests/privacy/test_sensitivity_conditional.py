"""Sensitivities of moments by class against every integer row there is, in every class."""

from fractions import Fraction
from typing import Any

import matrix_brute_force as brute
import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade.privacy.events import MatrixChange
from colonnade.privacy.sensitivity.matrix import (
    RowShape,
    conditional_change_part_replaced,
    conditional_change_replace,
    conditional_change_zero_out,
)


def labelled(features: int, norm_squared: int, classes: int = 2, mark: int = 4) -> RowShape:
    return RowShape(features, norm_squared, classes, mark, one_hot=True)


SHAPES = [
    labelled(0, 0, 3),
    labelled(1, 4),
    labelled(1, 9, 3),
    labelled(2, 4),
    labelled(2, 8),
    labelled(2, 9, 3, 9),
    labelled(3, 3, 2, 16),
    labelled(3, 4, 2, 1),
]


def by_class(rows: NDArray[np.int64], features: int, classes: int) -> NDArray[np.int64]:
    """The released matrix of each row: z = (x, g) in the place of its class along the diagonal."""
    mark = rows[:, features:].max(axis=1, keepdims=True)
    alone = np.concatenate([rows[:, :features], mark], axis=1)
    placed = [alone * (rows[:, [features + kind]] > 0) for kind in range(classes)]
    return brute.outer(np.concatenate(placed, axis=1))


def claimed(change: MatrixChange) -> list[Any]:
    return [change.frobenius**2, change.weighted_l1, change.fourth, change.fourth_l1]


def covers(bounds: list[Fraction], exact: NDArray[np.int64]) -> bool:
    return all(bound >= int(value) for bound, value in zip(bounds, exact, strict=False))


@pytest.mark.parametrize("row", SHAPES, ids=str)
def test_no_record_moves_moments_by_class_further_when_it_is_zeroed_out_or_replaced(row: RowShape) -> None:
    exact = brute.measures(by_class(brute.all_rows(row), row.features, row.label_entries)).max(0)
    assert covers(claimed(conditional_change_zero_out(row)), exact)
    products = by_class(brute.all_rows(row), row.features, row.label_entries)
    exact = np.max([brute.measures(products - one).max(0) for one in products], axis=0)
    claim = conditional_change_replace(row)
    assert covers(claimed(claim), exact)
    # A change of class attains it wherever the norm bound is attained.
    reached = int((brute.all_rows(row) ** 2).sum(axis=1).max())
    assert exact[0] >= 2 * reached**2 and (reached < row.bound or round(claim.frobenius**2) == exact[0])


def worst_part(part: RowShape, rest: RowShape) -> NDArray[np.int64]:
    """Over all values of what stays, the largest change by what is replaced; the label is in one of them."""
    label_first = bool(part.label_entries)
    holder, other = (part, rest) if label_first else (rest, part)
    worst: list[Any] = []
    for fixed in brute.all_rows(rest):
        parts = brute.all_rows(part)
        moving = np.concatenate([parts, np.broadcast_to(fixed, (len(parts), len(fixed)))], axis=1)
        # Features of both, then the label: the order in which `by_class` reads a row.
        first, second = (part, rest)
        split = first.features + first.label_entries
        features = [moving[:, : first.features], moving[:, split : split + second.features]]
        label = moving[:, first.features : split] if label_first else moving[:, split + second.features :]
        products = by_class(
            np.concatenate([*features, label], axis=1), holder.features + other.features, holder.label_entries
        )
        worst.extend(brute.measures(products - one).max(0) for one in products)
    result: NDArray[np.int64] = np.max(worst, axis=0)
    return result


PLAIN = [RowShape(1, 4), RowShape(2, 2), RowShape(1, 9)]


@pytest.mark.parametrize("mine", PLAIN, ids=str)
@pytest.mark.parametrize("row", SHAPES[1:5], ids=str)
def test_no_part_of_a_record_moves_moments_by_class_further_when_it_is_replaced(
    mine: RowShape, row: RowShape
) -> None:
    for part, rest in ((mine, row), (row, mine)):
        assert covers(claimed(conditional_change_part_replaced(part, rest)), worst_part(part, rest))


def test_the_plain_bound_would_be_too_small_where_the_label_can_change_and_needs_classes() -> None:
    from colonnade.privacy.sensitivity.matrix import matrix_change_part_replaced

    labels, own = labelled(1, 1, 2, 1), RowShape(2, 9)
    exact = worst_part(labels, own)
    plain = matrix_change_part_replaced(labels, own)
    assert not covers(claimed(plain), exact)
    assert covers(claimed(conditional_change_part_replaced(labels, own)), exact)
    with pytest.raises(ValueError, match="one-hot"):
        conditional_change_zero_out(RowShape(2, 4))
