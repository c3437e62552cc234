"""For every law of mechanisms and of events something that breaks it, and the suite names the law."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from broken import broken_law

from colonnade.errors import PlanError
from colonnade.noise import DiscreteGaussianNoise, SkellamNoise, VectorChange
from colonnade.privacy.events import (
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Skellam,
    event_from_data,
    event_to_data,
)
from colonnade.privacy.guarantee import AccountedCost, account
from colonnade.privacy.renyi import renyi
from colonnade.randomness import Randomness, SeededRandomness, SystemRandomness
from colonnade.testing import ConformanceError, check_event, check_mechanism, mechanisms
from colonnade.testing.mechanisms import two_sample

CHANGE = VectorChange(l1=3, l2=2)
FEW = 40_000


@dataclass(frozen=True)
class Sound:
    """Skellam noise, to be broken in one way."""

    mu: Fraction = Fraction(100)

    def part(self, parts: int) -> Any:
        return type(self)(SkellamNoise(self.mu).part(parts).mu)

    def draw(self, shape: int | Sequence[int], randomness: Randomness) -> Any:
        return SkellamNoise(self.mu).draw(shape, randomness)

    def event(self, change: Any, *, known: int = 0, parts: int = 1, of: int = 1) -> Event:
        return SkellamNoise(self.mu).event(change, known=known, parts=parts, of=of)


def broken(**methods: Callable[..., Any]) -> type[Sound]:
    """Skellam noise with some of its methods replaced."""
    return type("Broken", (Sound,), methods)


def late(noise: Sound, shape: Any, coins: Randomness) -> Any:
    """Refuses a shape after it has drawn."""
    coins.bytes(1)
    return Sound.draw(noise, shape, coins)


def with_own_coins(noise: Sound, shape: Any, coins: Randomness) -> Any:
    return Sound.draw(noise, shape, coins) + Sound.draw(noise, shape, SystemRandomness())


def halved(noise: Sound, parts: int) -> Any:
    """Whoever deals one part deals half."""
    return SkellamNoise(noise.mu / 2) if parts == 1 else Sound.part(noise, parts)


def short(noise: Sound, parts: int) -> Any:
    """Parts that are a twentieth too small in variance."""
    whole = Sound.part(noise, parts)
    return whole if parts == 1 else SkellamNoise(whole.mu * Fraction(19, 20))


def claiming(mu: Callable[..., Any]) -> type[Sound]:
    """Noise whose event has this μ, given the whole, what is known, and parts of how many."""

    def event(noise: Sound, change: Any, *, known: int = 0, parts: int = 1, of: int = 1) -> Event:
        Sound.event(noise, change, known=known, parts=parts, of=of)
        return Skellam(change.l1, change.l2, noise.mu * mu(known, parts, of))

    return broken(event=event)


def taken_for_known(taken: Callable[[int, int], int]) -> type[Sound]:
    """Noise whose event takes another number of parts for known."""

    def event(noise: Sound, change: Any, *, known: int = 0, parts: int = 1, of: int = 1) -> Event:
        return Sound.event(noise, change, known=taken(known, parts), parts=parts, of=of)

    return broken(event=event)


class Kept(Sound):
    """Hands out the same array for the same seed and shape."""

    kept: dict[Any, Any] = {}  # noqa: RUF012

    def draw(self, shape: Any, randomness: Randomness) -> Any:
        drawn = super().draw(shape, randomness)
        return self.kept.setdefault((drawn.shape, drawn[:1].tobytes()), drawn) if drawn.size < 100 else drawn


BROKEN: list[tuple[str, type[Sound]]] = [
    (
        "draws are 64-bit integers of the shape asked",
        broken(draw=lambda noise, shape, coins: Sound.draw(noise, shape, coins).astype(float)),
    ),
    (
        "draws are 64-bit integers of the shape asked",
        broken(draw=lambda noise, shape, coins: Sound.draw(noise, shape, coins).ravel()),
    ),
    ("a shape that cannot be is refused before anything is drawn", broken(draw=late)),
    ("the same seed gives the same draws", broken(draw=with_own_coins)),
    (
        "draws come from the source that was given",
        broken(draw=lambda noise, shape, coins: Sound.draw(noise, shape, SeededRandomness(1))),
    ),
    ("every draw is an array of its own", Kept),
    ("the only part is the whole", broken(part=halved)),
    ("parts sum to the whole", broken(part=short)),
    ("no part at all is refused", broken(part=lambda noise, parts: Sound.part(noise, max(parts, 1)))),
    (
        "the event of a release can be accounted for",
        broken(event=lambda noise, change, **counts: (change, noise.mu)),
    ),
    (
        "an observer who knows all of the noise is refused",
        taken_for_known(lambda known, parts: min(known, parts - 1) if parts > 1 else 0),
    ),
    ("counts that make no sense are refused", taken_for_known(lambda known, parts: max(known, 0))),
    ("parts hide no more than the whole", claiming(lambda known, parts, of: Fraction(parts - known))),
    (
        "an observer who knows more never gets a smaller cost",
        claiming(lambda known, parts, of: Fraction(parts + known, of)),
    ),
    (
        "less than the whole never costs less",
        claiming(lambda known, parts, of: Fraction(parts - known, of) + (parts < of)),
    ),
]


@pytest.mark.parametrize(("law", "kind"), BROKEN)
def test_a_mechanism_that_breaks_a_law_is_caught_by_it(law: str, kind: type[Sound]) -> None:
    sample = mechanisms.DRAWS if law in ("the only part is the whole", "parts sum to the whole") else FEW
    assert broken_law(check_mechanism, kind(), CHANGE, sample=sample, parts=(2,)) == law


def test_every_law_has_a_mechanism_that_breaks_it_and_the_one_that_was_broken_is_sound() -> None:
    assert {law for law, _ in BROKEN} == {*mechanisms.NOISE_LAWS, *mechanisms.COST_LAWS}
    check_mechanism(Sound(), CHANGE, parts=(2,))


def test_a_whole_that_claims_the_noise_of_parts_it_cannot_deal_is_caught() -> None:
    class Claims(Sound):
        def part(self, parts: int) -> Any:
            if parts > 1:
                raise PlanError("it comes whole")
            return super().part(parts)

    with pytest.raises(ConformanceError, match="no claim for 2 parts"):
        check_mechanism(Claims(), CHANGE, sample=FEW, parts=(2,))
    check_mechanism(DiscreteGaussianNoise(Fraction(9)), 2, sample=FEW)


def test_two_samples_of_one_law_are_told_from_two_laws() -> None:
    one, other, wider = (
        SkellamNoise(Fraction(mu)).draw(mechanisms.DRAWS, SeededRandomness(seed))
        for mu, seed in ((1000, "one"), (1000, "other"), (1050, "wider"))
    )
    assert two_sample(one, other) > 1e-3
    assert two_sample(one, wider) < mechanisms.FALSE_ALARM
    assert two_sample(np.zeros(9, dtype=np.int64), np.zeros(9, dtype=np.int64)) == 1.0
    assert two_sample(np.zeros(900, dtype=np.int64), np.ones(900, dtype=np.int64)) < mechanisms.FALSE_ALARM


# A leaf cannot be added from outside, so the rules of the leaves that are there are broken instead.
LEAF = Laplace(1, 2)
Patch = pytest.MonkeyPatch


@dataclasses.dataclass
class Changeable:
    sensitivity: int = 1


class Unequal(Laplace):
    """Hashes by identity."""

    def __hash__(self) -> int:
        return id(self)


class Lenient(Laplace):
    """Constructs from anything."""

    def __post_init__(self) -> None:
        pass


def rule(change: Callable[[float, float], float]) -> Callable[[Patch], Event]:
    """The leaf with another Rényi rule; what is composed of it is not changed."""

    def wrong(patch: Patch) -> Event:
        def changed(event: Event, order: float) -> float:
            true = renyi(event, order)
            return change(true, order) if event == LEAF else true

        patch.setattr(mechanisms, "renyi", changed)
        return LEAF

    return wrong


def reading(change: Callable[[dict[str, Any]], Event]) -> Callable[[Patch], Event]:
    def wrong(patch: Patch) -> Event:
        patch.setattr("colonnade.privacy.events.event_from_data", change)
        return LEAF

    return wrong


def accounting(change: Callable[[AccountedCost], AccountedCost]) -> Callable[[Patch], Event]:
    def wrong(patch: Patch) -> Event:
        patch.setattr(mechanisms, "account", lambda event, delta: change(account(event, delta)))
        return DiscreteLaplace(1, 2)

    return wrong


def double_sampled(patch: Patch) -> Event:
    patch.setattr(
        mechanisms, "renyi", lambda event, order: renyi(event, order) * (1 + hasattr(event, "rate"))
    )
    return LEAF


EVENTS: list[tuple[str, Callable[[Patch], Event]]] = [
    ("an event is frozen", lambda patch: Changeable()),  # type: ignore[list-item,return-value]
    ("an event is frozen", lambda patch: "laplace"),  # type: ignore[list-item,return-value]
    ("equal events hash alike", lambda patch: Unequal(1, 2)),
    ("an event comes back from data as it was", reading(lambda data: Laplace(1, 3))),
    ("an event comes back from data as it was", reading(lambda data: Laplace(1.0, 2))),
    ("data that is not an event is refused", reading(lambda data: LEAF)),
    ("nonsense cannot be constructed", lambda patch: Lenient(1, 2)),
    ("a divergence is not negative", rule(lambda true, order: true - 1)),
    ("a divergence is not negative", rule(lambda true, order: math.nan)),
    ("a divergence does not fall as its order rises", rule(lambda true, order: true / order**2)),
    ("composition adds", rule(lambda true, order: true / 2)),
    ("sampling never costs more", double_sampled),
    (mechanisms.SAFE, accounting(lambda cost: dataclasses.replace(cost, epsilon=cost.epsilon / 2))),
    (mechanisms.SAFE, accounting(lambda cost: dataclasses.replace(cost, epsilon=-cost.epsilon))),
    (
        mechanisms.SAFE,
        accounting(lambda cost: dataclasses.replace(cost, epsilon=1 if cost.delta < 1e-5 else 2)),
    ),
]


@pytest.mark.parametrize(("law", "broken"), EVENTS)
def test_an_event_that_breaks_a_law_is_caught_by_it(law: str, broken: Any, monkeypatch: Patch) -> None:
    event = broken(monkeypatch)
    if isinstance(event, Unequal | Lenient):
        # Classes without a name in data are written and read as what they pretend to be.
        monkeypatch.setattr("colonnade.privacy.events.event_to_data", lambda event: event_to_data(LEAF))
        monkeypatch.setattr(
            "colonnade.privacy.events.event_from_data", lambda data: event_from_data(data) and event
        )
    assert broken_law(check_event, event) == law


def test_every_law_of_events_has_something_that_breaks_it() -> None:
    assert {law for law, _ in EVENTS} == {*mechanisms.EVENT_LAWS, mechanisms.SAFE}


def test_noise_that_costs_more_and_a_rule_below_the_divergence_are_caught() -> None:
    costly = [Laplace(1, 3), Laplace(1, Fraction(5, 2))]
    assert broken_law(check_event, LEAF, noisier=costly) == mechanisms.NOISIER
    check_event(Gaussian(1, 2), oracle=lambda order: order / 8)
    below = broken_law(check_event, Gaussian(1, 2), oracle=lambda order: order / 8 * (1 + 1e-6))
    assert below == mechanisms.ORACLE
