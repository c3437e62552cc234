"""What an audit tries: two data sets that differ in one record's part, or many records that each may differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.audits.bounds import CONFIDENCE, Bound, threshold_bound
from colonnade.audits.people import People
from colonnade.audits.sessions import Session
from colonnade.privacy.guarantee import Guarantee
from colonnade.privacy.observers import Observer
from colonnade.privacy.paper.figure import LABEL
from colonnade.protocols.plans import Request
from colonnade.randomness import Randomness

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
Kind = Literal["neighbours", "canaries"]
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Claim:
    """What is claimed of one observer and unit: a proved ε, or a paper's formula, which promises nothing."""

    observer: str
    unit: str
    about: str
    epsilon: float
    delta: float
    proved: bool = True
    source: str = ""

    @classmethod
    def of(cls, stated: Guarantee) -> Claim:
        return cls(
            stated.observer.name,
            stated.unit.name,
            f"{stated.observer.sentence}, about {stated.unit.sentence}",
            stated.epsilon,
            stated.delta,
        )

    @classmethod
    def of_paper(cls, observer: Observer, unit: str, about: str, *, epsilon: float, delta: float) -> Claim:
        """The claim of a formula as a paper prints it."""
        return cls(observer.name, unit, about, epsilon, delta, proved=False, source=LABEL)

    @property
    def key(self) -> tuple[str, str]:
        return self.observer, self.unit


@dataclass(frozen=True, eq=False)
class Experiment:
    """Sessions on data sets that `people` makes of coins, and what observers make of what they saw.

    With `neighbours` there is one coin: which of two data sets it is. With `canaries` each of many records has its own.
    `statistic` gives every claim's observer one number a coin, larger where the coin says yes. `independent` says that
    what is seen of one record has nothing to do with the others, so that a session counts once for each of them.
    `request` is what is run, for these coins.
    """

    kind: Kind
    claims: tuple[Claim, ...]
    canaries: int
    people: Callable[[Bits], People]
    statistic: Callable[[Session, Claim], Array]
    request: Callable[[Bits], Request[Any]]
    what: str
    independent: bool = False


@dataclass(frozen=True, eq=False)
class Drawn:
    """A claim, and independent values of a statistic on either of two neighbouring data sets.

    `draw(neighbour, count, coins)` gives that many, larger where `neighbour` is true.
    """

    claim: Claim
    draw: Callable[[bool, int, Randomness], Array]
    what: str

    def bound(self, count: int, randomness: Randomness, *, confidence: float = CONFIDENCE) -> Bound:
        """What so many draws on either side show."""
        counts = [min(_AT_ONCE, count - start) for start in range(0, count, _AT_ONCE)]
        values = [
            np.concatenate([self.draw(side, some, randomness) for some in counts]) for side in (False, True)
        ]
        return threshold_bound(*values, delta=self.claim.delta, confidence=confidence)
