"""How far one record moves the coefficients of the functional mechanism, real and rounded."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

_ROOT_BITS = 64


@dataclass(frozen=True)
class CoefficientChange:
    """Upper bounds on the L1 norm and the squared L2 norm of the change, as exact fractions."""

    l1: Fraction
    l2_squared: Fraction

    @property
    def l2(self) -> float:
        """The L2 norm, rounded up."""
        root = root_up(self.l2_squared)
        return float(root) if float(root) >= root else math.nextafter(float(root), math.inf)


def linear_zero_out(features: int) -> CoefficientChange:
    """Linear, box, one record becomes zero: L1 = L2² = (d + 1)(d + 2)/2, attained."""
    size = _size(features) + 1
    return CoefficientChange(Fraction(size * (size + 1), 2), Fraction(size * (size + 1), 2))


def logistic_zero_out(features: int) -> CoefficientChange:
    """Logistic, box, one record becomes zero: L1 = d/2 + d(d + 1)/16, L2² = d/4 + d(d + 1)/128, attained."""
    d = _size(features)
    return CoefficientChange(
        Fraction(d, 2) + Fraction(d * (d + 1), 16), Fraction(d, 4) + Fraction(d * (d + 1), 128)
    )


def peak(slope: Fraction, curve: Fraction, limit: int) -> Fraction:
    """max over 0 ≤ p ≤ limit of slope·p + curve·p(limit − p), curve ≥ 0."""
    best = (slope + curve * limit) / (2 * curve) if curve else Fraction(0)
    p = min(max(best, Fraction(0)), Fraction(limit))
    return slope * p + curve * p * (limit - p)


def root_up(value: Fraction) -> Fraction:
    """√value, exact for the square of a fraction, else rounded up on a grid of 2^-64."""
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    return Fraction(math.isqrt(math.floor(value * 4**_ROOT_BITS)) + 1, 2**_ROOT_BITS)


def _size(features: int) -> int:
    if features < 1:
        raise ValueError(f"features must be positive, not {features}")
    return features


_NONE = CoefficientChange(Fraction(0), Fraction(0))


@dataclass(frozen=True)
class FeatureBounds:
    """One party's integer features: ‖x̃‖² ≤ `square`, and in a box |x̃_a| ≤ `side` as well."""

    features: int
    square: int
    side: int | None = None

    @classmethod
    def box(cls, features: int, *, side: int) -> FeatureBounds:
        """|x̃_a| ≤ side for every feature."""
        return cls(features, features * side**2, side)

    @classmethod
    def ball(cls, features: int, *, square: int) -> FeatureBounds:
        """‖x̃‖² ≤ square."""
        return cls(features, square if features else 0)

    def __post_init__(self) -> None:
        if self.features < 0 or self.square < 0 or (self.side is not None and self.side < 1):
            raise ValueError("features, a square and the side of a box cannot be negative")

    @property
    def l1(self) -> Fraction:
        """The largest ‖x̃‖₁, rounded up."""
        return root_up(Fraction(self.features * self.square))

    @property
    def fourth(self) -> int:
        """The largest Σ x̃_a⁴."""
        return self.square**2 if self.side is None else self.features * self.side**4

    @property
    def largest(self) -> int:
        return math.isqrt(self.square) if self.side is None else self.side


@dataclass(frozen=True)
class CoefficientRow:
    """The bounds of a whole row: features by party, the constant, and the label with the party that holds it."""

    parts: tuple[FeatureBounds, ...]
    holder: int | None
    label: int
    constant: int = 0

    def __post_init__(self) -> None:
        if min(self.label, self.constant) < 0 or (self.holder is None) != (self.label == 0):
            raise ValueError(
                "a label that is held is above 0, one that is not is 0, a constant is not negative"
            )
        if self.holder is not None and not 0 <= self.holder < len(self.parts):
            raise ValueError(f"party {self.holder} of {len(self.parts)} cannot hold the label")
        if len({part.side for part in self.parts}) > 1:
            raise ValueError("all parties' features lie in boxes of one side, or all in balls")

    @property
    def features(self) -> int:
        return sum(part.features for part in self.parts)

    @property
    def largest(self) -> int:
        return max(self.label, self.constant, *(part.largest for part in self.parts))

    def only(self, party: int) -> CoefficientRow:
        """One party's part of the row: what its single-party coefficients are made of."""
        mine = self.holder == party
        return CoefficientRow(
            (self.parts[party],), 0 if mine else None, self.label if mine else 0, self.constant
        )

    def zeroed(self) -> CoefficientChange:
        """The record becomes zero.

        Guarantee, with N₁, N₂, N₄ the largest ‖x̃‖₁, ‖x̃‖², Σ x̃_a⁴: L1 ≤ (N₁² + N₂)/2 + (g + c)N₁ + cg and
        L2² ≤ (N₂² + N₄)/2 + (g² + c²)N₂ + c²g², both attained up to the grid.
        """
        g, c = self.label, self.constant
        first = sum((part.l1 for part in self.parts), Fraction(0))
        second = sum(part.square for part in self.parts)
        fourth = sum(part.fourth for part in self.parts)
        return _change(
            (first**2 + second) / 2 + (g + c) * first + c * g,
            Fraction(second**2 + fourth, 2) + (g**2 + c**2) * second + (c * g) ** 2,
        )

    def replaced(self, parties: Collection[int]) -> CoefficientChange:
        """What these parties hold of the record is replaced, label included where one of them holds it.

        The rest of the record and the constant stay. All parties: the record is replaced.
        """
        changed = [part for index, part in enumerate(self.parts) if index in parties]
        kept = [part for index, part in enumerate(self.parts) if index not in parties]
        if not changed:
            return _NONE
        flips = self.holder in parties
        rest_first = sum((part.l1 for part in kept), Fraction(self.constant))
        rest_second = Fraction(sum(part.square for part in kept) + self.constant**2)
        if changed[0].side is not None:
            return self._replaced_in_box(changed, rest_first, rest_second, flips=flips)
        return self._replaced_in_ball(changed, kept, rest_first, rest_second, flips=flips)

    def _replaced_in_box(
        self, changed: list[FeatureBounds], first: Fraction, second: Fraction, *, flips: bool
    ) -> CoefficientChange:
        """Peaks over p = ‖x̃ − x̃′‖₁ and s = ‖x̃ − x̃′‖², in units of the box, for the label kept and flipped."""
        side, mine = Fraction(changed[0].side or 0), sum(part.features for part in changed)
        g = self.label
        curve = Fraction(mine + 1, 2 * mine) if mine else Fraction(0)

        def inside(slope: Fraction, horizontal: Fraction) -> Fraction:
            """max over s of slope·s + across·‖x̃ + x̃′‖² + the change of x̃x̃ᵀ, where Σ|x̃_a² − x̃′_a²| is 0 or largest."""
            bend, quarter = slope - horizontal, Fraction(1, 4)
            apart = 4 * mine * horizontal + peak(bend, quarter, 4 * mine)
            near = (
                2 * mine * horizontal
                + peak(bend, quarter, 2 * mine)
                + Fraction(mine**2, 4)
                + Fraction(mine, 2)
            )
            return max(apart, near) if mine else Fraction(0)

        l1 = side**2 * peak((g + first) / side, curve, 2 * mine)
        l2 = side**4 * inside((g**2 + second) / side**2, Fraction(0))
        if flips:
            l1 = max(l1, 2 * g * (side * mine + first) + side**2 * peak((first - g) / side, curve, 2 * mine))
            l2 = max(l2, 4 * g**2 * second + side**4 * inside(second / side**2, Fraction(g**2) / side**2))
        return _change(l1, l2)

    def _replaced_in_ball(
        self,
        changed: list[FeatureBounds],
        kept: list[FeatureBounds],
        first: Fraction,
        second: Fraction,
        *,
        flips: bool,
    ) -> CoefficientChange:
        """Peaks over t = ⟨x̃, x̃′⟩, |t| ≤ A, for the label kept and flipped; L1 by Cauchy-Schwarz or as two zeroings."""
        a, g = Fraction(sum(part.square for part in changed)), self.label
        mine, others = (sum(part.features for part in side) for side in (changed, kept))

        def largest(constant: Fraction, slope: Fraction) -> Fraction:
            """max over |t| ≤ A of constant + slope·t − 2t²."""
            t = min(max(slope / 4, -a), a)
            return constant + slope * t - 2 * t * t

        known = second + g**2
        l2 = largest(2 * a * a + 2 * a * known, -2 * known)
        entries = Fraction(mine * (mine + 1), 2) + mine * (others + bool(self.constant) + bool(g))
        length = sum((part.l1 for part in changed), Fraction(0))
        once = (length**2 + a) / 2 + length * (first + g)
        if flips:
            l2 = max(l2, largest(2 * a * a + 2 * a * known + 4 * g**2 * second, 2 * (g**2 - second)))
            entries += others + bool(self.constant)
            once += g * first
        return _change(min(root_up(entries * l2), 2 * once), l2)


def cross_zeroed(row: CoefficientRow, first: int, second: int) -> CoefficientChange:
    """A record becomes zero in the coefficients that two parties make together: pqᵀ for their parts p and q.

    The label counts on its holder's side, and is not multiplied with itself. L1 = ‖p‖₁‖q‖₁, L2 = ‖p‖‖q‖, attained.
    """
    (l1, square), (other_l1, other_square) = (_with_label(row, party) for party in (first, second))
    return _change(l1 * other_l1, Fraction(square * other_square))


def cross_replaced(row: CoefficientRow, first: int, second: int) -> CoefficientChange:
    """One part, or both, is replaced in those coefficients: at most twice as far, attained by a change of sign."""
    once = cross_zeroed(row, first, second)
    return CoefficientChange(2 * once.l1, 4 * once.l2_squared)


def _with_label(row: CoefficientRow, party: int) -> tuple[Fraction, int]:
    part, label = row.parts[party], row.label if row.holder == party else 0
    return part.l1 + label, part.square + label**2


def _change(l1: Fraction, l2_squared: Fraction) -> CoefficientChange:
    """Both norms are integers on the grid, so the floor of a bound is a bound."""
    return CoefficientChange(Fraction(math.floor(l1)), Fraction(math.floor(l2_squared)))
