"""One harness for audits: sessions of a method's own protocol, experiments on them, and what they show of ε."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.data.schema import PublicSchema
from colonnade.errors import PlanError
from colonnade.lab.bounds import CONFIDENCE, Bound, best_of, canary_bound, threshold_bound
from colonnade.lab.people import People, table_of
from colonnade.ledger import Ledger
from colonnade.privacy.guarantee import Guarantee
from colonnade.privacy.observers import Observer
from colonnade.privacy.paper.figure import LABEL
from colonnade.protocols.plans import Request
from colonnade.randomness import Randomness, SeededRandomness, SystemRandomness
from colonnade.runtime.group import Group
from colonnade.runtime.memory import memory_network
from colonnade.runtime.party import Party, silent
from colonnade.runtime.run import Outcome, PartyInputs, Program, run_here
from colonnade.runtime.wire import Message, decode


class RecordedRandomness:
    """A party's own source of randomness, which also keeps what came out of it since the last mark."""

    def __init__(self, inner: Randomness) -> None:
        self._inner = inner
        self._bytes: list[bytes] = []
        self._words: list[NDArray[np.uint64]] = []

    @property
    def reproducible(self) -> bool:
        return self._inner.reproducible

    def mark(self) -> None:
        self._bytes.clear()
        self._words.clear()

    def bytes(self, count: int) -> bytes:
        """Fresh bytes, kept."""
        drawn = self._inner.bytes(count)
        self._bytes.append(drawn)
        return drawn

    def words(self, count: int) -> NDArray[np.uint64]:
        drawn = self._inner.words(count)
        self._words.append(drawn.copy())
        return drawn

    def again(self) -> Randomness:
        """The draws since the mark, in the same order."""
        return _Again(list(self._bytes), list(self._words))


class _Again:
    reproducible = True

    def __init__(self, pieces: list[bytes], words: list[NDArray[np.uint64]]) -> None:
        self._pieces, self._words = iter(pieces), iter(words)

    def bytes(self, count: int) -> bytes:
        drawn = next(self._pieces)
        if len(drawn) != count:
            raise ValueError(f"{len(drawn)} bytes were drawn here, not {count}")
        return drawn

    def words(self, count: int) -> NDArray[np.uint64]:
        drawn = next(self._words)
        if len(drawn) != count:
            raise ValueError(f"{len(drawn)} words were drawn here, not {count}")
        return drawn.copy()


# Audits are of synthetic or public people, with ledgers that end with them; nothing of it is anybody's budget.
_UNLIMITED = 1e9


@dataclass(frozen=True, eq=False)
class Session:
    """What came of one session: results, frames by member, and the coins of everybody who deals noise,
    of owners those since they read their last row."""

    plan: Any
    outcome: Outcome
    people: People
    randomness: Mapping[str, RecordedRandomness]

    def result(self, member: str) -> Any:
        return self.outcome.results[member]

    def heard(self, member: str, step: str, *, sender: str | None = None) -> list[Message]:
        """What a member received at steps of this kind, in order, from everybody or from one sender."""
        return [
            decode(seen.frame)[1]
            for seen in self.outcome.seen[member] or ()
            if seen.step.split(" ")[0] == step and sender in (None, seen.sender)
        ]

    def alone(self, owner: str) -> Party:
        """A party that can draw again, for itself, what it drew in the session since it read its last row."""
        return alone(self.plan.group, owner, self.randomness[owner].again())


def alone(group: Group, owner: str, randomness: Randomness) -> Party:
    """A party with these coins and nobody to talk to."""
    return Party(owner, group, memory_network((owner,))[owner], Ledger.in_memory(owner), randomness)


@dataclass(eq=False)
class Sessions:
    """As many sessions as are asked for, of one request among these parties; `seed` makes them repeat."""

    program: Program
    group: Group
    schemas: tuple[PublicSchema, ...]
    timeout: float = 600.0
    seed: int | None = None
    count: int = field(default=0, init=False)

    def randomness(self, member: str) -> Randomness:
        """Where a member draws from in the next session."""
        if self.seed is None:
            return SystemRandomness()
        return SeededRandomness(f"audit {self.seed}/{self.count}/{member}")

    def run(self, request: Request[Any], people: People) -> Session:
        randomness = {member: RecordedRandomness(self.randomness(member)) for member in self.group.dealers}
        inputs = {}
        for member in self.group.members:
            ledger = Ledger.in_memory(member)
            if member in self.group.owners:
                ledger.set_budget(member, "*", "*", epsilon=_UNLIMITED, delta=0.5)
                schema = next(schema for schema in self.schemas if schema.party == member)
                table = table_of(schema.with_ids(), member, people[member], randomness[member].mark)
                inputs[member] = PartyInputs(ledger, table, dataset=member, randomness=randomness[member])
            else:
                own = randomness.get(member) or self.randomness(member)
                inputs[member] = PartyInputs(ledger, dataset=member, randomness=own)
        outcome = run_here(self.program, self.group, inputs, request, timeout=self.timeout, record=True)
        self.count += 1
        return Session(outcome.results[self.group.owners[0]].plan, outcome, people, randomness)


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


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Shown:
    """What one experiment showed about one claim."""

    kind: str
    what: str
    sessions: int
    bound: Bound

    def to_data(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "what": self.what,
            "sessions": self.sessions,
            "trials": self.bound.trials,
            "hits": self.bound.hits,
            "misses": self.bound.misses,
            "epsilon": self.bound.epsilon,
            "most": self.bound.most,
            "confidence": self.bound.confidence,
        }


@dataclass(frozen=True)
class Finding:
    """One observer and unit: what is claimed, and the largest ε that was shown, with 95 % confidence."""

    claim: Claim
    shown: tuple[Shown, ...]

    @property
    def lower(self) -> float:
        """ε is at least this."""
        return best_of(each.bound for each in self.shown).epsilon

    @property
    def most(self) -> float:
        """The largest bound that these trials could have given."""
        return max(each.bound.most for each in self.shown)

    @property
    def exceeded(self) -> bool:
        return self.lower > self.claim.epsilon

    def to_data(self) -> dict[str, Any]:
        return {
            "observer": self.claim.observer,
            "unit": self.claim.unit,
            "about": self.claim.about,
            "lower": self.lower,
            "upper": self.claim.epsilon,
            "delta": self.claim.delta,
            "proved": self.claim.proved,
            "source": self.claim.source,
            "most": self.most,
            "exceeded": self.exceeded,
            "experiments": [each.to_data() for each in self.shown],
        }


@dataclass(frozen=True)
class Target:
    """A method's protocol with what an audit tries of it; `runs` sessions an experiment take about a minute in all."""

    method: str
    group: Group
    schemas: tuple[PublicSchema, ...]
    program: Program
    experiments: tuple[Experiment, ...]
    runs: int
    notes: tuple[str, ...] = ()
    drawn: tuple[Drawn, ...] = ()


def audit(
    target: Target, *, runs: int, draws: int = 0, seed: int | None = None, progress: Progress = silent
) -> tuple[Finding, ...]:
    """Every experiment of a target in so many sessions each, and so many draws of its noise where it has such."""
    sessions = Sessions(target.program, target.group, target.schemas, seed=seed)
    drawn = target.drawn if draws else ()
    return carry_out(target.experiments, sessions, runs=runs, drawn=drawn, draws=draws, progress=progress)


def carry_out(
    experiments: Sequence[Experiment],
    sessions: Sessions,
    *,
    runs: int,
    drawn: Sequence[Drawn] = (),
    draws: int = 0,
    progress: Progress = silent,
) -> tuple[Finding, ...]:
    """Every experiment in so many sessions; one finding a claim, in the order of the claims.

    Where a claim is tried in more than one way, the alarms of the ways are shared out, so that 95 % is for their best.
    """
    if runs < 4:
        raise PlanError(
            f"{runs} sessions are too few to choose an event on one half and judge it on the other."
        )
    ways: dict[tuple[str, str], int] = {}
    for experiment in experiments:
        for claim in experiment.claims:
            ways[claim.key] = ways.get(claim.key, 0) + 1
    for each in drawn:
        ways[each.claim.key] = ways.get(each.claim.key, 0) + 1
    claims: dict[tuple[str, str], Claim] = {}
    shown: dict[tuple[str, str], list[Shown]] = {}
    done, total = 0, runs * len(experiments)
    for experiment in experiments:
        values: dict[tuple[str, str], list[Array]] = {claim.key: [] for claim in experiment.claims}
        flipped = []
        for coins in coin_flips(experiment, runs, sessions.randomness("auditor")):
            session = sessions.run(experiment.request(coins), experiment.people(coins))
            for claim in experiment.claims:
                values[claim.key].append(experiment.statistic(session, claim))
            flipped.append(coins)
            done += 1
            progress("sessions", done, total)
        for claim in experiment.claims:
            confidence = 1 - (1 - CONFIDENCE) / ways[claim.key]
            bound = judged(
                experiment, np.array(values[claim.key]), np.array(flipped), claim.delta, confidence=confidence
            )
            claims.setdefault(claim.key, claim)
            shown.setdefault(claim.key, []).append(Shown(experiment.kind, experiment.what, runs, bound))
    for number, each in enumerate(drawn):
        key = each.claim.key
        confidence = 1 - (1 - CONFIDENCE) / ways[key]
        bound = each.bound(draws, sessions.randomness(f"draws {number}"), confidence=confidence)
        claims.setdefault(key, each.claim)
        shown.setdefault(key, []).append(Shown("draws", each.what, 0, bound))
        progress("draws", number + 1, len(drawn))
    return tuple(Finding(claim, tuple(shown[key])) for key, claim in claims.items())


def coin_flips(experiment: Experiment, runs: int, randomness: Randomness) -> Iterable[Bits]:
    """The coins of every session: for two data sets as many of either in either half, for canaries fair ones."""
    if experiment.kind == "neighbours" and experiment.canaries == 1:
        for number in range(runs):
            yield np.array([number % 2 == 1])
        return
    for _ in range(runs):
        yield (randomness.words(experiment.canaries) & np.uint64(1)).astype(np.bool_)


def judged(experiment: Experiment, values: Array, coins: Bits, delta: float, *, confidence: float) -> Bound:
    """The bound that a table of statistics gives, a row a session and a column a coin."""
    if experiment.kind == "neighbours" or experiment.independent:
        flat, truth = values.ravel(), coins.ravel()
        return threshold_bound(flat[~truth], flat[truth], delta=delta, confidence=confidence)
    return canary_bound(values, coins, delta=delta, confidence=confidence)
