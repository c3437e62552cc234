"""Events: what was done, for accounting. A frozen tree that validates itself.

::

    Event
    ├── leaves                    one release each; they know nothing of counts
    │   ├── Gaussian, DiscreteGaussian, PerStep
    │   ├── Laplace, DiscreteLaplace
    │   ├── Skellam, MatrixSkellam
    │   └── PoissonBinomial
    └── combinations
        ├── Composed              all of these
        ├── Repeated              this, so many times
        ├── PoissonSampled        an additive-noise leaf on a secret Poisson sample
        └── Approximated          the leaf's law up to a total-variation distance per draw

A leaf says how far one unit of privacy can move the released value and what noise the *observer does not
know* is on it. Parameters are exact: an `int`, a `Fraction` or a `float` taken at its face value. An event
that cannot be accounted for cannot be constructed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from colonnade.privacy.leaves import (
    AdditiveNoise,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MatrixChange,
    MatrixSkellam,
    Mechanism,
    Number,
    PerStep,
    PoissonBinomial,
    Skellam,
    count,
    not_negative,
)


COARSE_BITS = 100
"""Of most samplers: each draw is within 2⁻¹⁰⁰ of its law in total variation (docs/proofs/total-variation.md)."""
FINE_BITS = 1000
"""Of samplers for plans whose ε is so large that e^ε times 2⁻¹⁰⁰ would be felt in δ."""
FINEST_BITS = 2000
"""Of those whose ε is so large that e^ε times 2⁻¹⁰⁰⁰ would be."""
TOTAL_VARIATION_PER_DRAW = Fraction(1, 2**COARSE_BITS)
"""How far one draw of a truncated sampler may be from its law, unless its event says how many bits it has."""


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
        found = set(data) - {"kind"}
        if kind is Approximated:
            expected -= {"bits"} - found
        if found != expected:
            raise ValueError(
                f"event {data['kind']!r} has the fields {sorted(expected)}, found {sorted(found)}"
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
