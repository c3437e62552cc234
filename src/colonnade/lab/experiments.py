"""One harness for audits: sessions of a method's own protocol, experiments on them, and lower bounds on ε."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaincinv

from colonnade.data.schema import PublicSchema
from colonnade.data.table import Table
from colonnade.errors import PlanError
from colonnade.lab.people import People, chosen, corner, mixed, table_of, together
from colonnade.ledger import Ledger
from colonnade.privacy.guarantee import Guarantee
from colonnade.privacy.observers import PartyView, Reader, Server
from colonnade.privacy.paper import LABEL
from colonnade.protocols.plans import Plan, TrainingSpec
from colonnade.randomness import KeyedRandomness, Randomness, SeededRandomness, SystemRandomness
from colonnade.report.record import ExperimentRecord, FindingRecord
from colonnade.runtime.channel import memory_network
from colonnade.runtime.party import Group, Party, silent
from colonnade.runtime.run import Outcome, PartyInputs, Program, run_here
from colonnade.runtime.wire import Message, decode

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
Counts = NDArray[np.integer[Any]]

CONFIDENCE = 0.95
# Shares of the guesses for which somebody who may abstain speaks up.
_SHARES = (0.2, 0.1, 0.3, 0.5, 0.05, 0.7, 1.0, 0.02, 0.01)
_THRESHOLDS = 60


def counted_bound(
    hits: int, misses: int, *, trials: tuple[int, int], delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """ln((p − δ)/q), with p from below and q from above, both at once with this confidence; never below 0."""
    bounds = _counted(np.array([hits]), np.array([misses]), trials, delta=delta, confidence=confidence)
    return float(bounds[0])


def _counted(
    hits: Counts, misses: Counts, trials: tuple[int, int], *, delta: float, confidence: float
) -> Array:
    alarm = (1 - confidence) / 2
    first, second = trials
    # Clopper and Pearson's limits are quantiles of beta laws; where nothing was counted they are 0 and 1.
    p = np.where(hits > 0, betaincinv(np.maximum(hits, 1), first - hits + 1.0, alarm), 0.0)
    q = np.where(misses < second, betaincinv(misses + 1.0, np.maximum(second - misses, 1), 1 - alarm), 1.0)
    above = np.maximum(p - delta, 0.0)
    return np.asarray(np.log(np.maximum(above, q)) - np.log(q))


def threshold_bound(
    without: Array, within: Array, *, delta: float = 0.0, confidence: float = CONFIDENCE
) -> ExperimentRecord:
    """The bound of the best threshold event, chosen on the first half of each array and evaluated on the second.

    The arrays hold independent values of a statistic on two neighbouring data sets, larger where the second is
    likelier.
    """
    halves = [(values[: len(values) // 2], values[len(values) // 2 :]) for values in (without, within)]
    (zeros, fresh_zeros), (ones, fresh_ones) = halves
    tails = 1 - np.logspace(-5, -0.05, _THRESHOLDS)
    levels = np.unique(np.concatenate([np.quantile(part, tails) for part in (zeros, ones)]))
    levels = np.concatenate(
        [levels, -np.unique(np.concatenate([np.quantile(-p, tails) for p in (zeros, ones)]))]
    )
    sorted_zeros, sorted_ones = np.sort(zeros), np.sort(ones)
    # Among so many events the best looks better than it is: it is chosen as if all of them had to hold.
    strict = 1 - (1 - confidence) / (2 * len(levels))
    above = [len(part) - np.searchsorted(part, levels) for part in (sorted_zeros, sorted_ones)]
    below = [np.searchsorted(part, levels, side="right") for part in (sorted_zeros, sorted_ones)]
    high = _counted(above[1], above[0], (len(ones), len(zeros)), delta=delta, confidence=strict)
    low = _counted(below[0], below[1], (len(zeros), len(ones)), delta=delta, confidence=strict)
    sign = 1.0 if high.max() >= low.max() else -1.0
    guesses = high if sign > 0 else low
    # Where no event shows anything, the middle one is as good as any.
    level = float(levels[int(np.argmax(guesses))] if guesses.max() > 0 else np.median(levels))
    expected, other = (fresh_ones, fresh_zeros) if sign > 0 else (fresh_zeros, fresh_ones)
    hits, misses = (int(np.count_nonzero(sign * part >= sign * level)) for part in (expected, other))
    trials = (len(expected), len(other))

    def bound(right: int, wrong: int) -> float:
        return counted_bound(right, wrong, trials=trials, delta=delta, confidence=confidence)

    return ExperimentRecord(
        epsilon=bound(hits, misses),
        confidence=confidence,
        hits=hits,
        misses=misses,
        trials=sum(trials),
        most=bound(trials[0], 0),
    )


def one_run_bound(
    right: int, guesses: int, *, canaries: int, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """The largest ε at which so many right guesses would be less likely than 1 − confidence.

    P[right ≥ v] ≤ f(v) + 2mδ·max_i (f(v − i) − f(v))/i for m canaries with fair coins and r guesses, f the upper tail
    of a binomial of r trials with probability e^ε/(1 + e^ε).
    """
    if not 0 < right <= guesses:
        return 0.0
    alarm = 1 - confidence

    def likelihood(epsilon: float) -> float:
        chance = 1 / (1 + math.exp(-epsilon))
        tail = float(bdtrc(right - 1, guesses, chance))
        if not delta:
            return tail
        steps = np.arange(1, right + 1)
        nearer = np.where(steps < right, bdtrc(np.maximum(right - steps - 1, 0), guesses, chance), 1.0)
        return tail + 2 * canaries * delta * float(np.max((nearer - tail) / steps))

    if likelihood(0.0) > alarm:
        return 0.0
    low, high = 0.0, 50.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if likelihood(middle) <= alarm else (low, middle)
    return low


def canary_bound(
    statistics: Array, bits: Bits, *, delta: float = 0.0, confidence: float = CONFIDENCE
) -> ExperimentRecord:
    """The bound of all canaries of all runs together, a row of `statistics` a run and a column a canary.

    On the first half of the runs each canary's values are brought to one scale and it is chosen how many guesses to
    make; on the second half so many are made, of the largest values that the canary was in and of the smallest that it
    was not.
    """
    half = len(statistics) // 2
    centre, spread = statistics[:half].mean(axis=0), statistics[:half].std(axis=0)
    scaled = (statistics - centre) / np.where(spread > 0, spread, 1.0)
    parts = [(scaled[some].ravel(), bits[some].ravel()) for some in (slice(0, half), slice(half, None))]

    def evaluated(part: tuple[Array, Bits], share: float, sure: float) -> tuple[float, int, int]:
        values, truth = part
        # No canary is guessed both ways: one of two such guesses would be right for sure.
        each = max(1, min(round(share * len(values) / 2), len(values) // 2))
        order = np.argsort(values, kind="stable")
        right = int(np.count_nonzero(truth[order[-each:]])) + int(np.count_nonzero(~truth[order[:each]]))
        bound = one_run_bound(right, 2 * each, canaries=len(values), delta=delta, confidence=sure)
        return bound, right, 2 * each

    strict = 1 - (1 - confidence) / len(_SHARES)
    share = max(_SHARES, key=lambda share: evaluated(parts[0], share, strict)[0])
    epsilon, right, guesses = evaluated(parts[1], share, confidence)
    count = len(parts[1][0])
    most = one_run_bound(guesses, guesses, canaries=count, delta=delta, confidence=confidence)
    return ExperimentRecord(
        epsilon=epsilon, confidence=confidence, hits=right, misses=guesses - right, trials=count, most=most
    )


Progress = Callable[[str, int, int], None]
_UNLIMITED = 1e9
_AT_ONCE = 1 << 18


def run_recorded(
    program: Program,
    group: Group,
    tables: Mapping[str, Table],
    *agreed: Any,
    randomness: Mapping[str, Randomness] | None = None,
    progress: Progress = silent,
) -> Outcome:
    """A run of all members in this process, every frame kept, with ledgers that refuse nothing and end with it."""
    inputs = {}
    for member in group.members:
        ledger = Ledger.in_memory(member)
        if member in tables:
            ledger.set_budget(member, "*", "*", epsilon=_UNLIMITED, delta=0.5)
        source = (randomness or {}).get(member) or SystemRandomness()
        inputs[member] = PartyInputs(ledger, tables.get(member), dataset=member, randomness=source)
    return run_here(program, group, inputs, *agreed, timeout=600.0, record=True, progress=progress)


class RecordedRandomness:
    """What was drawn since the last mark can be drawn again: an observer's own noise is not noise to it.

    Noise is drawn in words, and in bytes where a word leaves it undecided. Both have streams of their own, so that keys
    and seeds, which are bytes too, shift no word.
    """

    def __init__(self, inner: Randomness, keys: tuple[bytes, bytes] | None = None) -> None:
        self._inner, self.reproducible = inner, inner.reproducible
        self.mark(keys)

    def mark(self, keys: tuple[bytes, bytes] | None = None) -> None:
        self._keys = keys or (self._inner.bytes(32), self._inner.bytes(32))
        self._bytes, self._words = map(KeyedRandomness, self._keys)

    def bytes(self, count: int) -> bytes:
        return self._bytes.bytes(count)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._words.words(count)

    def again(self) -> Randomness:
        return RecordedRandomness(self._inner, self._keys)


@dataclass(frozen=True, eq=False)
class AuditSession:
    """Results, frames by member, and the coins of everybody who deals noise, since owners read their last row."""

    plan: Any
    outcome: Outcome
    people: People
    randomness: Mapping[str, RecordedRandomness]

    def result(self, member: str) -> Any:
        return self.outcome.results[member]

    def messages(self, member: str, step: str, *, sender: str | None = None) -> list[Message]:
        return [
            decode(seen.frame)[1]
            for seen in self.outcome.seen[member] or ()
            if seen.step.split(" ")[0] == step and sender in (None, seen.sender)
        ]

    def alone(self, owner: str) -> Party:
        """It can draw again, for itself, what it drew in the session since it read its last row."""
        return alone(self.plan.group, owner, self.randomness[owner].again())


def alone(group: Group, owner: str, randomness: Randomness) -> Party:
    """A party with these coins and nobody to talk to."""
    return Party(owner, group, memory_network((owner,))[owner], Ledger.in_memory(owner), randomness)


@dataclass(eq=False)
class Sessions:
    """Of one spec among these parties; `seed` makes them repeat."""

    program: Program
    group: Group
    schemas: tuple[PublicSchema, ...]
    seed: int | None = None
    count: int = field(default=0, init=False)

    def randomness(self, member: str) -> Randomness:
        if self.seed is None:
            return SystemRandomness()
        return SeededRandomness(f"audit {self.seed}/{self.count}/{member}")

    def run(self, spec: TrainingSpec, people: People) -> AuditSession:
        sources = {member: self.randomness(member) for member in self.group.members}
        recorded = {member: RecordedRandomness(sources[member]) for member in self.group.dealers}
        tables = {}
        for schema in self.schemas:
            party = schema.party
            tables[party] = table_of(schema.with_ids(), party, people[party], recorded[party].mark)
        outcome = run_recorded(self.program, self.group, tables, spec, randomness={**sources, **recorded})
        self.count += 1
        return AuditSession(outcome.results[self.group.owners[0]].plan, outcome, people, recorded)


@dataclass(frozen=True)
class AuditClaim:
    """What is claimed of one observer and unit: a proved ε, or a paper's formula, which promises nothing."""

    observer: str
    unit: str
    about: str
    epsilon: float
    delta: float
    proved: bool = True

    @classmethod
    def of(cls, stated: Guarantee) -> AuditClaim:
        about = f"{stated.observer.sentence}, about {stated.unit.sentence}"
        return cls(stated.observer.name, stated.unit.name, about, stated.epsilon, stated.delta)

    @property
    def key(self) -> tuple[str, str]:
        return self.observer, self.unit

    def owner(self, group: Group) -> str | None:
        """The party whose eyes these are; None for the server, readers and whoever else."""
        return next((name for name in group.owners if PartyView(name).name == self.observer), None)

    def finding(self, experiments: Sequence[ExperimentRecord]) -> FindingRecord:
        lower, most = (max(getattr(each, name) for each in experiments) for name in ("epsilon", "most"))
        facts = {"upper": self.epsilon, "lower": lower, "most": most, "exceeded": lower > self.epsilon}
        facts |= {"source": "" if self.proved else LABEL, "experiments": experiments}
        return FindingRecord.model_validate(vars(self) | facts)


Statistic = Callable[[AuditSession, AuditClaim], Array]


@dataclass(frozen=True, eq=False)
class Experiment:
    """Sessions on data sets that `people` makes of coins, and what observers make of what they saw.

    With `neighbours` there is one coin: which of two data sets it is. With `canaries` each of many records has its own.
    `statistic` gives every claim's observer one number a coin, larger where the coin says yes. `independent` says that
    a session counts once for each record.
    """

    kind: Literal["neighbours", "canaries"]
    claims: tuple[AuditClaim, ...]
    canaries: int
    people: Callable[[Bits], People]
    statistic: Statistic
    spec: Callable[[Bits], TrainingSpec]
    what: str
    independent: bool = False

    def bits(self, runs: int, randomness: Randomness) -> Iterable[Bits]:
        """For two data sets as many of either in either half, for canaries fair ones."""
        for number in range(runs):
            if self.kind == "neighbours" and self.canaries == 1:
                yield np.array([number % 2 == 1])
            else:
                yield (randomness.words(self.canaries) & np.uint64(1)).astype(np.bool_)

    def bound(self, values: Array, bits: Bits, claim: AuditClaim, *, confidence: float) -> ExperimentRecord:
        if self.kind == "neighbours" or self.independent:
            flat, truth = values.ravel(), bits.ravel()
            return threshold_bound(flat[~truth], flat[truth], delta=claim.delta, confidence=confidence)
        return canary_bound(values, bits, delta=claim.delta, confidence=confidence)


def two_worlds(
    claims: Iterable[AuditClaim],
    worlds: Sequence[People],
    statistic: Statistic,
    spec: TrainingSpec,
    what: str,
) -> Experiment:
    def people(bits: Bits) -> People:
        return worlds[int(bits[0])]

    return Experiment("neighbours", tuple(claims), 1, people, statistic, lambda _bits: spec, what)


def many_records(
    claims: Iterable[AuditClaim],
    records: tuple[People, People],
    count: int,
    statistic: Statistic,
    spec: TrainingSpec,
    what: str,
    *,
    independent: bool = True,
) -> Experiment:
    return Experiment(
        "canaries",
        tuple(claims),
        count,
        lambda bits: chosen(*records, bits),
        statistic,
        lambda _bits: spec,
        what,
        independent,
    )


def others_of(group: Group, owner: str) -> list[str]:
    return [other for other in group.owners if other != owner]


def two_parts(schemas: Sequence[PublicSchema], changed: Sequence[str]) -> tuple[People, People]:
    """A record at one end of everything declared, and the same with these owners' parts at the other end."""
    low = corner(schemas, 0.0)
    return low, mixed(low, corner(schemas, 1.0), changed)


def by_observer(
    plan: Plan,
    spec: TrainingSpec,
    rest: People,
    statistic: Callable[[People, People], Statistic],
    *what: str,
) -> list[Experiment]:
    """The server and readers with a record there or left out, every party with two values of the others' part."""
    claims = [AuditClaim.of(stated) for stated in plan.guarantees]
    public = [claim for claim in claims if claim.observer in (Server().name, Reader().name)]
    worlds = [rest, together([rest, corner(plan.schemas, 1.0)])]
    experiments = [two_worlds(public, worlds, statistic(*worlds), spec, what[0])]
    for claim in claims:
        if (owner := claim.owner(plan.group)) is not None:
            records = two_parts(plan.schemas, others_of(plan.group, owner))
            worlds = [together([rest, record]) for record in records]
            experiments.append(two_worlds([claim], worlds, statistic(*worlds), spec, what[1]))
    return experiments


@dataclass(frozen=True, eq=False)
class Drawn:
    """`draw(neighbour, count, coins)` gives values of a statistic from a plan's own noise, without a session."""

    claim: AuditClaim
    draw: Callable[[bool, int, Randomness], Array]
    what: str

    def bound(
        self, count: int, randomness: Randomness, *, confidence: float = CONFIDENCE
    ) -> ExperimentRecord:
        counts = [min(_AT_ONCE, count - start) for start in range(0, count, _AT_ONCE)]
        values = [
            np.concatenate([self.draw(side, some, randomness) for some in counts]) for side in (False, True)
        ]
        return threshold_bound(*values, delta=self.claim.delta, confidence=confidence)


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
) -> tuple[FindingRecord, ...]:
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
) -> tuple[FindingRecord, ...]:
    """One finding a claim, in their order; alarms of several ways are shared out, so that 95 % is for their best."""
    if runs < 4:
        raise PlanError(
            f"{runs} sessions are too few to choose an event on one half and test it on the other."
        )
    claims = [claim for experiment in experiments for claim in experiment.claims]
    claims += [each.claim for each in drawn]
    ways = Counter(claim.key for claim in claims)
    sure = {key: 1 - (1 - CONFIDENCE) / count for key, count in ways.items()}
    shown: dict[tuple[str, str], list[ExperimentRecord]] = {key: [] for key in ways}
    for number, experiment in enumerate(experiments):
        bits, values = [], []
        for done, flipped in enumerate(experiment.bits(runs, sessions.randomness("auditor")), start=1):
            session = sessions.run(experiment.spec(flipped), experiment.people(flipped))
            bits.append(flipped)
            values.append([experiment.statistic(session, claim) for claim in experiment.claims])
            progress("sessions", number * runs + done, runs * len(experiments))
        for place, claim in enumerate(experiment.claims):
            table = np.array([row[place] for row in values])
            bound = experiment.bound(table, np.array(bits), claim, confidence=sure[claim.key])
            tried = {"kind": experiment.kind, "what": experiment.what, "sessions": runs}
            shown[claim.key].append(bound.model_copy(update=tried))
    for number, each in enumerate(drawn):
        key = each.claim.key
        bound = each.bound(draws, sessions.randomness(f"draws {number}"), confidence=sure[key])
        shown[key].append(bound.model_copy(update={"kind": "draws", "what": each.what, "sessions": 0}))
        progress("draws", number + 1, len(drawn))
    first = {claim.key: claim for claim in reversed(claims)}
    return tuple(first[key].finding(each) for key, each in shown.items())
