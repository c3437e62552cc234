"""Leaves of the event tree: one release each, with the noise the observer does not know.

A leaf says how far one unit of privacy can move the released value and what law the noise on it has. It knows
nothing of counts. Parameters are exact: an `int`, a `Fraction` or a `float` taken at its face value, and a leaf
that cannot be accounted for cannot be constructed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

Number: TypeAlias = int | Fraction | float


def _number(value: Number, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, Fraction, float)):
        raise TypeError(f"{what} must be an int, a Fraction or a float, not {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{what} must be finite, found {value}")


def not_negative(value: Number, what: str) -> None:
    """Refuses a number that is negative or none."""
    _number(value, what)
    if value < 0:
        raise ValueError(f"{what} must not be negative, found {value}")


def _positive(value: Number, what: str) -> None:
    _number(value, what)
    if value <= 0:
        raise ValueError(f"{what} must be positive, found {value}")


def count(value: int, what: str, *, least: int) -> None:
    """Refuses a count that is no integer or is below the least."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{what} must be at least {least}, found {value}")


def _coordinates(value: int | None) -> None:
    if value is not None:
        count(value, "coordinates", least=1)


@dataclass(frozen=True)
class Gaussian:
    """Normal noise of standard deviation `sigma` on every coordinate of a value with this L2 sensitivity."""

    sensitivity: Number
    sigma: Number

    def __post_init__(self) -> None:
        not_negative(self.sensitivity, "sensitivity")
        _positive(self.sigma, "sigma")


@dataclass(frozen=True)
class DiscreteGaussian:
    """Discrete Gaussian noise, P(x) ∝ exp(−x²/2σ²) on the integers, on every coordinate of an integer vector
    with this L2 sensitivity. How many `coordinates` there are, where it is said, allows the route of normal noise
    (docs/proofs/rounded-normal.md), and for one also the exact law of a single integer.
    """

    sensitivity: Number
    sigma_squared: Number
    coordinates: int | None = None

    def __post_init__(self) -> None:
        not_negative(self.sensitivity, "sensitivity")
        _positive(self.sigma_squared, "sigma_squared")
        _coordinates(self.coordinates)


@dataclass(frozen=True)
class Laplace:
    """Laplace noise of this scale on every coordinate of a value with this L1 sensitivity."""

    sensitivity: Number
    scale: Number

    def __post_init__(self) -> None:
        not_negative(self.sensitivity, "sensitivity")
        _positive(self.scale, "scale")


@dataclass(frozen=True)
class DiscreteLaplace:
    """Two-sided geometric noise, P(x) ∝ exp(−|x|/scale) on the integers, on every coordinate of an integer
    vector with this L1 sensitivity. Pólya parts whose honest shares add up to shape 1 are this law.
    """

    sensitivity: Number
    scale: Number

    def __post_init__(self) -> None:
        not_negative(self.sensitivity, "sensitivity")
        _positive(self.scale, "scale")


@dataclass(frozen=True)
class Skellam:
    """Sk(μ), the difference of two Poisson(μ) variables (variance 2μ), on every coordinate of an integer vector
    with these L1 and L2 sensitivities. `coordinates=1` allows the exact law of a single integer to be used.
    """

    l1: Number
    l2: Number
    mu: Number
    coordinates: int | None = None

    def __post_init__(self) -> None:
        not_negative(self.l1, "l1")
        not_negative(self.l2, "l2")
        _positive(self.mu, "mu")
        _coordinates(self.coordinates)


@dataclass(frozen=True)
class MatrixChange:
    """How far one unit moves a symmetric integer matrix D, in the four norms of the two-variance release.

    Upper bounds, each over all neighbours, of
    F = √(Σ Dᵢᵢ² + 2 Σ Dᵢⱼ²), A = Σ |Dᵢᵢ| + 2 Σ |Dᵢⱼ|, Q = Σ Dᵢᵢ² + 4 Σ Dᵢⱼ², R = Σ |Dᵢᵢ| + 4 Σ |Dᵢⱼ|,
    where the second sums run over i < j.
    """

    frobenius: Number
    weighted_l1: Number
    fourth: Number
    fourth_l1: Number

    def __post_init__(self) -> None:
        not_negative(self.frobenius, "frobenius")
        not_negative(self.weighted_l1, "weighted_l1")
        not_negative(self.fourth, "fourth")
        not_negative(self.fourth_l1, "fourth_l1")


@dataclass(frozen=True)
class MatrixSkellam:
    """A symmetric integer matrix, each unordered entry released once: Sk(μ) on the diagonal, Sk(μ/2) off it."""

    change: MatrixChange
    mu: Number

    def __post_init__(self) -> None:
        if not isinstance(self.change, MatrixChange):
            raise TypeError(f"change must be a MatrixChange, not {type(self.change).__name__}")
        _positive(self.mu, "mu")


@dataclass(frozen=True)
class PoissonBinomial:
    """One coordinate of a sum of binomials: each contributor adds Bin(b, p) with its own p in [½ − β, ½ + β].

    `contributors` are the parties whose draws the observer does not know: all M for the server, M − 1 for a
    fellow party, M − t for t colluding parties. `changed` of them differ between neighbours: one for a party's
    part of a record, all of them for the whole record.
    """

    contributors: int
    trials: int
    beta: Number
    changed: int = 1

    def __post_init__(self) -> None:
        count(self.contributors, "contributors", least=1)
        count(self.trials, "trials", least=1)
        _positive(self.beta, "beta")
        if self.beta >= Fraction(1, 2):
            raise ValueError(f"beta must be less than 1/2, found {self.beta}: at 1/2 a draw shows its value")
        count(self.changed, "changed", least=1)
        if self.changed > self.contributors:
            raise ValueError(
                f"{self.changed} contributors change, but the observer is blind to {self.contributors} only: "
                "a change it knows of is no secret, so leave known parties out of both counts"
            )


@dataclass(frozen=True)
class PerStep:
    """The steps of an iterative protocol: the L2 sensitivity of each step *given the transcript so far*, and
    noise of variance parameter `sigma_squared` on every coordinate of every step (discrete Gaussian on an
    integer grid, or normal if `discrete` is false).

    Sensitivities hold everything the observer has seen, its own data and its own coins fixed: the only notion
    under which the steps of an interactive protocol compose.
    """

    sensitivities: tuple[Number, ...]
    sigma_squared: Number
    discrete: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.sensitivities, tuple) or not self.sensitivities:
            raise TypeError("sensitivities must be a tuple with one number for each step")
        # A long schedule names few numbers many times; each is looked at once.
        looked_at: set[int] = set()
        for step, sensitivity in enumerate(self.sensitivities):
            if id(sensitivity) not in looked_at:
                not_negative(sensitivity, f"sensitivity of step {step}")
                looked_at.add(id(sensitivity))
        _positive(self.sigma_squared, "sigma_squared")
        if not isinstance(self.discrete, bool):
            raise TypeError(f"discrete must be True or False, not {type(self.discrete).__name__}")

    def __hash__(self) -> int:
        # Equal schedules agree in all of these, and hashing 10⁵ fractions takes longer than accounting for them.
        ends = (self.sensitivities[0], self.sensitivities[-1])
        return hash((len(self.sensitivities), ends, self.sigma_squared, self.discrete))

    @cached_property
    def sum_of_squares(self) -> float:
        """Σ Δ_t² over the steps."""
        squares = {id(sensitivity): float(sensitivity) ** 2 for sensitivity in _distinct(self.sensitivities)}
        return math.fsum(squares[id(sensitivity)] for sensitivity in self.sensitivities)


def _distinct(numbers: tuple[Number, ...]) -> Iterable[Number]:
    """Each object of a tuple once: by identity, which is quicker than by value and loses nothing."""
    return {id(number): number for number in numbers}.values()


AdditiveNoise: TypeAlias = Gaussian | DiscreteGaussian | Laplace | DiscreteLaplace | Skellam | MatrixSkellam
"""Leaves whose noise is symmetric and added: x ↦ shift − x swaps the two neighbours' laws."""

Mechanism: TypeAlias = AdditiveNoise | PoissonBinomial | PerStep
"""Leaves: one release each."""
