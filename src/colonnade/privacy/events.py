"""Events: what was done, for accounting. A frozen tree that validates itself; its leaves, and how they compose."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

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
    """Refuses a count that is not an integer or is below the least."""
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
        for norm in dataclasses.fields(self):
            not_negative(getattr(self, norm.name), norm.name)


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
                "a change it knows of is not a secret, so leave known parties out of both counts"
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
        # Each object once: by identity, which is quicker than by value and loses nothing.
        distinct = {id(sensitivity): sensitivity for sensitivity in self.sensitivities}
        squares = {key: float(sensitivity) ** 2 for key, sensitivity in distinct.items()}
        return math.fsum(squares[id(sensitivity)] for sensitivity in self.sensitivities)


AdditiveNoise: TypeAlias = Gaussian | DiscreteGaussian | Laplace | DiscreteLaplace | Skellam | MatrixSkellam
"""Leaves whose noise is symmetric and added: x ↦ shift − x swaps the two neighbours' laws."""

Mechanism: TypeAlias = AdditiveNoise | PoissonBinomial | PerStep
"""Leaves: one release each."""


COARSE_BITS = 100
"""Of most samplers: each draw is within 2⁻¹⁰⁰ of its law in total variation (docs/proofs/total-variation.md)."""
FINE_BITS = 1000
"""Of samplers for plans whose ε is so large that e^ε times 2⁻¹⁰⁰ would be felt in δ."""
FINEST_BITS = 2000
"""Of those whose ε is so large that e^ε times 2⁻¹⁰⁰⁰ would be."""


@dataclass(frozen=True)
class Composed:
    """All of these releases, each free to depend on what the earlier ones showed."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, tuple):
            raise TypeError(f"events must be a tuple, not {type(self.events).__name__}")
        for event in self.events:
            _event(event)


@dataclass(frozen=True)
class Repeated:
    """The same release, so many times."""

    event: Event
    times: int

    def __post_init__(self) -> None:
        _event(self.event)
        count(self.times, "times", least=0)


@dataclass(frozen=True)
class PoissonSampled:
    """A release computed on a secret sample in which each record is, independently, with probability `rate`.

    Only for a leaf with symmetric additive noise, only for the unit "one record zeroed out", and only for
    observers who learn neither who is in the sample nor how many (docs/proofs/subsampling.md). The first is
    checked here, the others where a guarantee names its observer and its unit.
    """

    rate: Number
    event: AdditiveNoise | Approximated

    def __post_init__(self) -> None:
        not_negative(self.rate, "rate")
        if self.rate > 1:
            raise ValueError(f"rate must be at most 1, found {self.rate}")
        inner = self.event.event if isinstance(self.event, Approximated) else self.event
        if not isinstance(inner, AdditiveNoise):
            raise TypeError(
                f"sampling is proved to help only for one release with symmetric additive noise, not for "
                f"{type(inner).__name__}: account for it without sampling"
            )


@dataclass(frozen=True)
class Approximated:
    """The event, with each of `draws` noise values within 2^−bits of its law in total variation.

    The distance is added to δ, multiplied by 1 + e^ε (docs/proofs/total-variation.md).
    """

    event: Event
    draws: int
    bits: int = COARSE_BITS

    def __post_init__(self) -> None:
        _event(self.event)
        count(self.draws, "draws", least=0)
        count(self.bits, "bits", least=1)

    @property
    def total_variation(self) -> Fraction:
        return Fraction(self.draws, 2**self.bits)


Event: TypeAlias = Mechanism | Composed | Repeated | PoissonSampled | Approximated


def _event(value: object) -> None:
    if not isinstance(value, Event):
        raise TypeError(f"expected an event, found {type(value).__name__}")


_KINDS: dict[str, type[Any]] = {
    "gaussian": Gaussian,
    "discrete-gaussian": DiscreteGaussian,
    "laplace": Laplace,
    "discrete-laplace": DiscreteLaplace,
    "skellam": Skellam,
    "matrix-skellam": MatrixSkellam,
    "matrix-change": MatrixChange,
    "poisson-binomial": PoissonBinomial,
    "per-step": PerStep,
    "composed": Composed,
    "repeated": Repeated,
    "poisson-sampled": PoissonSampled,
    "approximated": Approximated,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_SAFE_INTEGER = 2**53


def event_to_data(event: Event) -> dict[str, Any]:
    """The event as dictionaries, lists, numbers and strings, exactly: what ledgers store and parties compare.

    A `Fraction` is written "p/q" and an integer too large for a JSON reader's double is written as its digits,
    so that the same event comes back whichever JSON or MessagePack library carried it.
    """
    data: dict[str, Any] = _to_data(event)
    return data


def event_from_data(data: Mapping[str, Any]) -> Event:
    """The event that `event_to_data` wrote; a `ValueError` or `TypeError` for anything else."""
    event = _from_data(data)
    if isinstance(event, MatrixChange):
        raise ValueError("a matrix change is a part of an event, not an event")
    return event  # type: ignore[no-any-return]


def _to_data(value: Any) -> Any:
    if type(value) in _NAMES:
        fields = {field.name: _to_data(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if isinstance(value, Approximated) and value.bits == COARSE_BITS:
            # As it is written since format 1: entries read and written again are the same text.
            del fields["bits"]
        return {"kind": _NAMES[type(value)], **fields}
    if isinstance(value, tuple):
        return [_to_data(item) for item in value]
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _SAFE_INTEGER:
        return str(value)
    return value


def _from_data(data: Any) -> Any:
    if isinstance(data, Mapping):
        if data.get("kind") not in _KINDS:
            raise ValueError(
                f"no event is called {data.get('kind')!r}: use one of {', '.join(sorted(_KINDS))}"
            )
        kind = _KINDS[data["kind"]]
        expected = {field.name for field in dataclasses.fields(kind)}
        fields = set(data) - {"kind"}
        if kind is Approximated:
            expected -= {"bits"} - fields
        if fields != expected:
            raise ValueError(
                f"event {data['kind']!r} has the fields {sorted(expected)}, found {sorted(fields)}"
            )
        return kind(**{name: _from_data(data[name]) for name in expected})
    if isinstance(data, (list, tuple)):
        return tuple(_from_data(item) for item in data)
    if isinstance(data, str):
        return _parse_number(data)
    return data


def _parse_number(text: str) -> Number:
    if "/" not in text:
        return int(text)
    numerator, denominator = (int(part) for part in text.split("/"))
    if denominator <= 0:
        raise ValueError(f"the denominator of {text!r} is not positive")
    return Fraction(numerator, denominator)


Leaf: TypeAlias = Mechanism | PoissonSampled


@dataclass(frozen=True)
class Items:
    """What an event amounts to: leaves with their counts, and draws from truncated samplers."""

    leaves: frozenset[tuple[Leaf, int]]
    draws: int
    total_variation: Fraction
    """The distance of all draws together from their laws."""


def itemise(event: Event) -> Items:
    """The leaves of an event with their counts."""
    counts: Counter[Leaf] = Counter()
    draws: Counter[int] = Counter()
    _count_into(counts, draws, event, 1)
    return Items(
        frozenset((leaf, times) for leaf, times in counts.items() if times),
        draws.total(),
        sum((Fraction(count, 2**bits) for bits, count in draws.items()), Fraction(0)),
    )


def _count_into(counts: Counter[Leaf], draws: Counter[int], event: Event, times: int) -> None:
    """Adds the leaves of `event`, `times` times, and the draws made, by the bits of their distance."""
    if isinstance(event, Composed):
        for part in event.events:
            _count_into(counts, draws, part, times)
    elif isinstance(event, Repeated):
        _count_into(counts, draws, event.event, times * event.times)
    elif isinstance(event, Approximated):
        draws[event.bits] += times * event.draws
        _count_into(counts, draws, event.event, times)
    elif isinstance(event, PoissonSampled) and isinstance(event.event, Approximated):
        # A mixture of two laws is no further from its ideal than the laws are from theirs.
        draws[event.event.bits] += times * event.event.draws
        inner = PoissonSampled(rate=event.rate, event=event.event.event)  # type: ignore[arg-type]
        _count_into(counts, draws, inner, times)
    elif isinstance(event, PoissonSampled) and event.rate in (0, 1):
        if event.rate == 1:
            _count_into(counts, draws, event.event, times)
    else:
        counts[event] += times


def contains_sampling(event: Event) -> bool:
    """Whether the cost of this event relies on a secret sample."""
    return any(isinstance(leaf, PoissonSampled) for leaf, _ in itemise(event).leaves)
