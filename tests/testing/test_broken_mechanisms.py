"""For every law of mechanisms one that breaks it, and the suite names the law."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from colonnade.errors import PlanError
from colonnade.noise import DiscreteGaussianNoise, SkellamNoise, VectorChange
from colonnade.privacy.events import Event, Skellam
from colonnade.randomness import Randomness, SeededRandomness, SystemRandomness
from colonnade.testing import ConformanceError, check_mechanism, mechanisms
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


class Floats(Sound):
    def draw(self, shape: Any, randomness: Randomness) -> Any:
        return super().draw(shape, randomness).astype(float)


class Flat(Sound):
    def draw(self, shape: Any, randomness: Randomness) -> Any:
        return super().draw(shape, randomness).ravel()


class Late(Sound):
    """Refuses a shape after it has drawn."""

    def draw(self, shape: Any, randomness: Randomness) -> Any:
        randomness.bytes(1)
        return super().draw(shape, randomness)


class Own(Sound):
    """Coins of its own besides the given ones."""

    def draw(self, shape: Any, randomness: Randomness) -> Any:
        return super().draw(shape, randomness) + super().draw(shape, SystemRandomness())


class Deaf(Sound):
    """Fixed coins, whatever is given."""

    def draw(self, shape: Any, randomness: Randomness) -> Any:
        return super().draw(shape, SeededRandomness(1))


class Kept(Sound):
    """Hands out the same array for the same seed and shape."""

    kept: dict[Any, Any] = {}  # noqa: RUF012

    def draw(self, shape: Any, randomness: Randomness) -> Any:
        drawn = super().draw(shape, randomness)
        return self.kept.setdefault((drawn.shape, drawn[:1].tobytes()), drawn) if drawn.size < 100 else drawn


class Halved(Sound):
    """Whoever deals one part deals half."""

    def part(self, parts: int) -> Any:
        return SkellamNoise(self.mu / 2) if parts == 1 else super().part(parts)


class Short(Sound):
    """Parts that are a twentieth too small in variance."""

    def part(self, parts: int) -> Any:
        whole = super().part(parts)
        return whole if parts == 1 else SkellamNoise(whole.mu * Fraction(19, 20))


class None_(Sound):
    """Deals nought parts as if they were one."""

    def part(self, parts: int) -> Any:
        return super().part(max(parts, 1))


class NoEvent(Sound):
    def event(self, change: Any, *, known: int = 0, parts: int = 1, of: int = 1) -> Any:
        return (change, self.mu)


class KnowsAll(Sound):
    def event(self, change: Any, *, known: int = 0, parts: int = 1, of: int = 1) -> Event:
        return super().event(change, known=min(known, parts - 1) if parts > 1 else 0, parts=parts, of=of)


class Uncounted(Sound):
    def event(self, change: Any, *, known: int = 0, parts: int = 1, of: int = 1) -> Event:
        return super().event(change, known=max(known, 0), parts=parts, of=of)


class Generous(Sound):
    """Counts every part as a whole."""

    def event(self, change: Any, *, known: int = 0, parts: int = 1, of: int = 1) -> Event:
        super().event(change, known=known, parts=parts, of=of)
        return super().event(change, known=known, parts=parts, of=1)


class Boastful(Sound):
    """Credits observers with noise that they know."""

    def event(self, change: Any, *, known: int = 0, parts: int = 1, of: int = 1) -> Event:
        super().event(change, known=known, parts=parts, of=of)
        return Skellam(change.l1, change.l2, self.mu * Fraction(parts + known, of))


class Rounded(Sound):
    """A fraction of the whole counts as all of it."""

    def event(self, change: Any, *, known: int = 0, parts: int = 1, of: int = 1) -> Event:
        super().event(change, known=known, parts=parts, of=of)
        left = Fraction(parts - known, of)
        return Skellam(change.l1, change.l2, self.mu * (left if parts >= of else 1 + left))


BROKEN: list[tuple[str, type[Sound]]] = [
    ("draws are 64-bit integers of the shape asked", Floats),
    ("draws are 64-bit integers of the shape asked", Flat),
    ("a shape that cannot be is refused before anything is drawn", Late),
    ("the same seed gives the same draws", Own),
    ("draws come from the source that was given", Deaf),
    ("every draw is an array of its own", Kept),
    ("the only part is the whole", Halved),
    ("parts sum to the whole", Short),
    ("no part at all is refused", None_),
    ("the event of a release can be accounted for", NoEvent),
    ("an observer who knows all of the noise is refused", KnowsAll),
    ("counts that make no sense are refused", Uncounted),
    ("parts hide no more than the whole", Generous),
    ("an observer who knows more never gets a smaller cost", Boastful),
    ("less than the whole never costs less", Rounded),
]


@pytest.mark.parametrize(("law", "kind"), BROKEN)
def test_a_mechanism_that_breaks_a_law_is_caught_by_it(law: str, kind: type[Sound]) -> None:
    statistical = law in ("the only part is the whole", "parts sum to the whole")
    with pytest.raises(ConformanceError) as caught:
        check_mechanism(kind(), CHANGE, sample=mechanisms.DRAWS if statistical else FEW, parts=(2,))
    assert caught.value.law == law


def test_every_law_has_a_mechanism_that_breaks_it() -> None:
    assert {law for law, _ in BROKEN} == {*mechanisms.NOISE_LAWS, *mechanisms.COST_LAWS}


def test_the_mechanism_that_was_broken_is_sound_before() -> None:
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
