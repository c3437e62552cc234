"""How far one record moves a matrix of integer second moments ZᵀZ.

The matrix is released once per unordered pair, Skellam noise of parameter μ on the diagonal and μ/2 off
it. For a change D of the matrix four numbers decide what that costs (a `MatrixChange`):

    F² = Σ D_ii² + 2 Σ_{i<j} D_ij²        A = Σ |D_ii| + 2 Σ_{i<j} |D_ij|
    Q  = Σ D_ii² + 4 Σ_{i<j} D_ij²        R = Σ |D_ii| + 4 Σ_{i<j} |D_ij|

D is an integer matrix, so F², A, Q and R are integers and each bound below is the floor of a real bound,
computed without floats. Proofs: docs/proofs/matrix-sensitivity.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from colonnade.privacy.leaves import MatrixChange

_GRID_BITS = 32


@dataclass(frozen=True)
class RowShape:
    """One integer row, or one party's part of it: features, then possibly a label block.

    `features` entries have ‖x̃‖² ≤ `norm_squared`; `label_entries` further entries have
    ‖ỹ‖² ≤ `label_norm_squared`. A one-hot block has at most one entry that is not zero.
    """

    features: int
    norm_squared: int
    label_entries: int = 0
    label_norm_squared: int = 0
    one_hot: bool = False

    def __post_init__(self) -> None:
        if min(self.features, self.norm_squared, self.label_entries, self.label_norm_squared) < 0:
            raise ValueError("a row's counts and squared norms cannot be negative")
        if self.features == 0 and self.norm_squared:
            raise ValueError("a row without features has no feature norm")
        if self.label_entries == 0 and (self.label_norm_squared or self.one_hot):
            raise ValueError("a row without label entries has no label norm and is not one-hot")

    @property
    def bound(self) -> int:
        """B ≥ ‖z̃‖², features and label together."""
        return self.norm_squared + self.label_norm_squared

    @property
    def label_support(self) -> int:
        return 1 if self.one_hot else self.label_entries

    @property
    def support(self) -> int:
        return self.features + self.label_support

    @property
    def pair_support(self) -> int:
        return self.features + min(2 * self.label_support, self.label_entries)

    def beside(self, other: RowShape) -> RowShape:
        """The shape of both parts next to each other; at most one of them may hold a label block."""
        if self.label_entries and other.label_entries:
            raise ValueError("only one part of a row may hold the label block")
        return RowShape(
            features=self.features + other.features,
            norm_squared=self.norm_squared + other.norm_squared,
            label_entries=self.label_entries + other.label_entries,
            label_norm_squared=self.label_norm_squared + other.label_norm_squared,
            one_hot=self.one_hot or other.one_hot,
        )


def matrix_change_zero_out(row: RowShape) -> MatrixChange:
    """One record's row becomes the zero row: D = z̃z̃ᵀ.

    Guarantee, with d features, ‖x̃‖² ≤ R₂, at most s label entries in use, ‖ỹ‖² ≤ g² and B = R₂ + g²:
    F ≤ B, A ≤ (√(dR₂) + √s·g)², Q ≤ (2 − 1/(d + s))B², R ≤ 2A − B. All four are attained.
    """
    d, s, bound = row.features, row.label_support, row.bound
    squares = d * row.norm_squared + s * row.label_norm_squared
    product = d * row.norm_squared * s * row.label_norm_squared
    return _change(
        frobenius_squared=bound**2,
        weighted_l1=squares + math.isqrt(4 * product),
        fourth=_diagonal_share(2 * bound**2, bound, row.support),
        fourth_l1=2 * squares - bound + math.isqrt(16 * product),
    )


def matrix_change_replace(row: RowShape) -> MatrixChange:
    """One record's row becomes another row of the same shape: D = z̃z̃ᵀ − z̃′z̃′ᵀ.

    Guarantee, with n coordinates that two rows can use together (d + 2 when the label block is one-hot):
    F ≤ √2·B (attained), A ≤ √2·n·B, Q ≤ 4B², R ≤ √(2n(4n − 3))·B.
    """
    n, bound = row.pair_support, row.bound
    return _spread(2 * bound**2, entries=n * n, weights=n * (4 * n - 3))


def matrix_change_part_replaced(part: RowShape, rest: RowShape) -> MatrixChange:
    """One party's part of one record is replaced, the rest of the record stays.

    Against a party, `part` is what the others hold together and `rest` its own part, which it knows; for
    the unit "this party's part" it is the other way round.

    Guarantee, with a² ≥ ‖u‖², ‖u′‖² and b² ≥ ‖w‖²: F ≤ √2(a² + b²) if b ≤ a, else F ≤ 2√2·ab (both
    attained); A, Q and R follow from F by Cauchy-Schwarz over the entries that can change.
    """
    part.beside(rest)
    a, b = part.bound, rest.bound
    frobenius_squared = 2 * (a + b) ** 2 if b <= a else 8 * a * b
    n, m = part.pair_support, rest.support
    return _spread(frobenius_squared, entries=n * n + 2 * n * m, weights=n * (4 * n - 3) + 8 * n * m)


@dataclass(frozen=True)
class TriangleChange:
    """L1 and L2 norms of the upper triangle (diagonal included) of a change of the matrix.

    These are the sensitivities when every released entry carries noise of the same parameter.
    """

    l1: Fraction
    l2: Fraction


def triangle_change_zero_out(row: RowShape) -> TriangleChange:
    """The upper triangle of z̃z̃ᵀ: L2 ≤ B (a one-hot row), L1 = (‖z̃‖₁² + ‖z̃‖²)/2 ≤ (n + 1)/2·B.

    Integers satisfy |D_ij| ≤ D_ij², so L1 is also at most B².
    """
    change = matrix_change_zero_out(row)
    # ‖z̃‖₁² + ‖z̃‖² = A + B where both are at their largest.
    l1 = math.floor((change.weighted_l1 + row.bound) / 2)
    return TriangleChange(l1=Fraction(min(l1, row.bound**2)), l2=Fraction(row.bound))


def triangle_change_replace(row: RowShape) -> TriangleChange:
    """The upper triangle of z̃z̃ᵀ − z̃′z̃′ᵀ: L2 ≤ √2·B, L1 ≤ √(n(n + 1))·B."""
    n, bound = row.pair_support, row.bound
    return TriangleChange(
        l1=Fraction(min(math.isqrt(n * (n + 1) * bound**2), 2 * bound**2)), l2=root_up(2 * bound**2)
    )


def _spread(frobenius_squared: int, *, entries: int, weights: int) -> MatrixChange:
    """A ≤ √entries·F, Q ≤ 2F² and R ≤ √weights·F, with weights = Σ w² over the ordered entries."""
    return _change(
        frobenius_squared=frobenius_squared,
        weighted_l1=math.isqrt(entries * frobenius_squared),
        fourth=2 * frobenius_squared,
        fourth_l1=math.isqrt(weights * frobenius_squared),
    )


def _change(*, frobenius_squared: int, weighted_l1: int, fourth: int, fourth_l1: int) -> MatrixChange:
    return MatrixChange(
        frobenius=root_up(frobenius_squared),
        weighted_l1=Fraction(weighted_l1),
        fourth=Fraction(fourth),
        fourth_l1=Fraction(fourth_l1),
    )


def _diagonal_share(whole: int, norm_squared: int, support: int) -> int:
    """⌊whole − ‖u‖⁴/n⌋, since Σ u_i⁴ ≥ ‖u‖⁴/n over n entries."""
    return whole - (-(-(norm_squared**2) // support) if support else 0)


def root_up(value: int) -> Fraction:
    """√value, exact for a square, else rounded up on a grid of 2^-32."""
    root = math.isqrt(value)
    if root * root == value:
        return Fraction(root)
    return Fraction(math.isqrt(value << (2 * _GRID_BITS)) + 1, 1 << _GRID_BITS)
