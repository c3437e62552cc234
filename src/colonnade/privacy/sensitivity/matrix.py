"""How far one record moves a matrix of integer second moments, together or by class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from colonnade.privacy.events import MatrixChange, Number

Rounding = Literal["nearest", "retry", "toward_zero", "stochastic"]


def rounded_norm_squared(
    gamma: int, cap_squared: Fraction | float, *, columns: int, rounding: Rounding
) -> int:
    """The largest integer that ‖x̃‖² can reach, for x̃ = round(γx) with ‖x‖² ≤ cap_squared.

    Guarantee, for n columns and c² = cap_squared:

    - ``"nearest"``:      ‖x̃‖² ≤ (γc + √n/2)², each entry moves by at most 1/2;
    - ``"stochastic"``:   ‖x̃‖² ≤ (γc + √n)², each entry moves by less than 1;
    - ``"retry"``:        ‖x̃‖² ≤ γ²c² + n, drawn again until it holds (SPCA/SLR's bound, made true);
    - ``"toward_zero"``:  ‖x̃‖² ≤ γ²c², no entry grows.

    ‖x̃‖² is an integer, so the floor of each bound is a bound too; it is computed without floats.
    """
    rational, radicand = _bound(gamma, cap_squared, columns, rounding)
    # ⌊(a + √b)/D⌋ = ⌊(a + ⌊√b⌋)/D⌋ for integers a, b, D.
    denominator = math.lcm(rational.denominator, radicand.denominator)
    return (int(rational * denominator) + math.isqrt(int(radicand * denominator**2))) // denominator


def norm_squared_bound(
    gamma: int, cap_squared: Fraction | float, *, columns: int, rounding: Rounding
) -> float:
    """The bound of `rounded_norm_squared` before its floor is taken, as a float.

    This is the formula itself, for tables and comparisons; a release uses the integer.
    """
    rational, radicand = _bound(gamma, cap_squared, columns, rounding)
    return float(rational) + math.sqrt(radicand)


def _bound(
    gamma: int, cap_squared: Fraction | float, columns: int, rounding: Rounding
) -> tuple[Fraction, Fraction]:
    """The bound as (r, s), meaning r + √s."""
    if gamma < 1:
        raise ValueError(f"gamma must be a positive integer, not {gamma}")
    if columns < 0:
        raise ValueError(f"columns must not be negative, not {columns}")
    scaled = gamma**2 * _cap(cap_squared)
    none = Fraction(0)
    if rounding == "toward_zero":
        return scaled, none
    if rounding == "retry":
        return scaled + columns, none
    if rounding == "nearest":
        return scaled + Fraction(columns, 4), scaled * columns
    if rounding == "stochastic":
        return scaled + columns, 4 * scaled * columns
    raise ValueError(f"no rounding is called {rounding!r}: nearest, retry, toward_zero or stochastic")


def _cap(cap_squared: Fraction | float) -> Fraction:
    if not cap_squared >= 0 or cap_squared == math.inf:
        raise ValueError(f"cap_squared must be finite and not negative, not {cap_squared}")
    return Fraction(cap_squared)


_GRID_BITS = 32


@dataclass(frozen=True)
class VectorChange:
    """How far one unit of privacy moves an integer vector, in L1 and in L2, rounded up."""

    l1: Number
    l2: Number

    @classmethod
    def of_square(cls, l2_squared: int, *, entries: int) -> VectorChange:
        """From a bound on the squared L2 norm: an integer vector has L1 ≤ √n·L2 and L1 ≤ L2²."""
        return cls(l1=min(math.isqrt(entries * l2_squared), l2_squared), l2=root_up(l2_squared))


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

    def alongside(self, other: RowShape) -> RowShape:
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
    part.alongside(rest)
    a, b = part.bound, rest.bound
    frobenius_squared = 2 * (a + b) ** 2 if b <= a else 8 * a * b
    n, m = part.pair_support, rest.support
    return _spread(frobenius_squared, entries=n * n + 2 * n * m, weights=n * (4 * n - 3) + 8 * n * m)


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
    whole = part.alongside(rest)
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


def triangle_change_zero_out(row: RowShape) -> VectorChange:
    """The upper triangle of z̃z̃ᵀ: L2 ≤ B (a one-hot row), L1 = (‖z̃‖₁² + ‖z̃‖²)/2 ≤ (n + 1)/2·B.

    Integers satisfy |D_ij| ≤ D_ij², so L1 is also at most B².
    """
    change = matrix_change_zero_out(row)
    # ‖z̃‖₁² + ‖z̃‖² = A + B where both are at their largest.
    l1 = math.floor((change.weighted_l1 + row.bound) / 2)
    return VectorChange(l1=Fraction(min(l1, row.bound**2)), l2=Fraction(row.bound))


def triangle_change_replace(row: RowShape) -> VectorChange:
    """The upper triangle of z̃z̃ᵀ − z̃′z̃′ᵀ: L2 ≤ √2·B, L1 ≤ √(n(n + 1))·B."""
    n, bound = row.pair_support, row.bound
    return VectorChange(
        l1=Fraction(min(math.isqrt(n * (n + 1) * bound**2), 2 * bound**2)), l2=root_up(2 * bound**2)
    )
