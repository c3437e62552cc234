"""Which line of a release bounds which account, what many events cost together, and how much a party may lose."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from colonnade.errors import InputError, PrivacyError
from colonnade.ledger.release import LedgerLine, Release
from colonnade.privacy import observers
from colonnade.privacy.events import Composed, Event, Repeated
from colonnade.privacy.guarantee import account as account_for
from colonnade.privacy.guarantee import replaced_from_zeroed
from colonnade.privacy.observers import SERVER_NAME, members_of, named_observer, parse_unit

ANY = "*"

MOST_EPSILON = 1e300
"""Beyond it a number is no ε, and not every whole number is a float."""


@dataclass(frozen=True, order=True)
class Account:
    """What is kept apart from everything else in a ledger: one data set, one unit, one observer."""

    dataset: str
    unit: str
    observer: str

    def __str__(self) -> str:
        return f"data set '{self.dataset}', unit '{self.unit}', observer '{self.observer}'"


@dataclass(frozen=True)
class Budget:
    """At most ε at this δ, for one account, or with "*" for each account that no closer budget names.

    "*" is a pattern, not a pot: every unit and observer that it matches has its own total.
    """

    account: Account
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        requested = f"the budget for {self.account}"
        if not _is_number(self.epsilon) or not self.epsilon > 0:
            raise InputError(f"{requested} has ε = {self.epsilon}. Give a finite ε greater than 0.")
        if self.epsilon > MOST_EPSILON and self.epsilon != math.inf:
            raise InputError(
                f"{requested} has an ε above {MOST_EPSILON:g}, which bounds nothing. Give one that does."
            )
        if math.isinf(self.epsilon) and not self.account.observer.startswith("coalition:"):
            # A coalition that holds every share learns everything; an owner can accept that, by name.
            raise InputError(
                f"{requested} has ε = {self.epsilon}. Give a finite ε; only a coalition can be accepted with ε = inf."
            )
        if not _is_number(self.delta) or not 0 < self.delta < 1:
            raise InputError(
                f"{requested} has δ = {self.delta}. Give a δ between 0 and 1, well below one over the rows."
            )

    def matches(self, account: Account) -> bool:
        return (
            self.account.dataset == account.dataset
            and self.account.unit in (ANY, account.unit)
            and self.account.observer in (ANY, account.observer)
        )

    @property
    def closeness(self) -> int:
        return (self.account.unit != ANY) + (self.account.observer != ANY)


def named_account(dataset: str, unit: str, observer: str) -> Account:
    """The account that a person names, in the one spelling the ledger uses."""
    if not isinstance(dataset, str) or not dataset or dataset == ANY:
        raise InputError(f"an account is for one data set; found {dataset!r}. Give the data set's name.")
    try:
        return Account(dataset, unit=parse_unit(unit).name, observer=named_observer(observer).name)
    except ValueError as error:
        raise InputError(f"data set {dataset!r}: {error}") from error


def named_pattern(dataset: str, unit: str, observer: str) -> Account:
    """Like `named_account`, for a budget: unit and observer may also be "*"."""
    any_unit, any_observer = unit == ANY, observer == ANY
    account = named_account(dataset, "record" if any_unit else unit, "server" if any_observer else observer)
    return replace(
        account, unit=ANY if any_unit else account.unit, observer=ANY if any_observer else account.observer
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def epsilon_of(events: Iterable[Event] | Iterable[tuple[Event, int]], delta: float) -> float:
    """ε at δ of these events together, each once or, in pairs, so many times; ∞ where none is proved."""
    counts: dict[Event, int] = {}
    for item in events:
        event, times = item if isinstance(item, tuple) else (item, 1)
        counts[event] = counts.get(event, 0) + times
    # In one order whichever way they came: what admission computes is then, to the last bit, the next total.
    return _epsilon(tuple(sorted(counts.items(), key=lambda item: repr(item[0]))), delta)


@lru_cache(maxsize=4096)
def _epsilon(events: tuple[tuple[Event, int], ...], delta: float) -> float:
    # Equal events are grouped, so that a thousand equal releases cost the accountant what one does; a
    # single one is passed bare, so that a plan calibrated to exactly ε is charged exactly that ε.
    grouped = tuple(event if times == 1 else Repeated(event, times) for event, times in events)
    if not grouped:
        return 0.0
    try:
        return account_for(grouped[0] if len(grouped) == 1 else Composed(grouped), delta).epsilon
    except PrivacyError:
        # No ε is proved at this δ, as when it is smaller than the samplers' distance from their law.
        return math.inf


@dataclass(frozen=True)
class Bound:
    """What a release is to an account, or why nothing can be stated; `reads`: it took no part and reads the rest."""

    events: tuple[Event, ...]
    reason: str = ""
    reads: bool = False

    @property
    def unbounded(self) -> bool:
        return bool(self.reason)


def bound(release: Release, account: Account, delta: float) -> Bound:
    """What the release is to the account; where several lines would do, the one with the least ε at δ."""
    named = tuple(
        line.event for line in release.lines if (line.unit, line.observer) == (account.unit, account.observer)
    )
    if named or not release.lines:
        return Bound(named)
    unit, observer = parse_unit(account.unit), named_observer(account.observer)
    view = _View.of(release, observer)
    party = unit.party if isinstance(unit, observers.PartOf | observers.ColumnsOf) else None
    if view.nothing or (party and release.owners is not None and party not in release.owners):
        return Bound(())
    requested = _Parts.of(unit, observer)
    by_account: dict[tuple[str, str], list[LedgerLine]] = {}
    for line in release.lines:
        by_account.setdefault((line.observer, line.unit), []).append(line)
    groups = [lines for lines in by_account.values() if view.within(named_observer(lines[0].observer))]
    candidates = [_events(lines) for lines in groups if _contains(lines[0], unit, requested, release)]
    if requested is not None and view.colludes_within(requested):
        candidates += [
            (colluding.event,) for colluding in release.coalitions if view.parts <= colluding.owners
        ]
    if requested is not None and not candidates:
        # Two steps by way of the zero row: never tighter than a line about a record that is replaced.
        zeroed = [_doubled(_events(lines)) for lines in groups if lines[0].unit == observers.ZERO_OUT.name]
        candidates = [events for events in zeroed if events is not None]
    if candidates:
        return Bound(
            min(candidates, key=lambda events: epsilon_of(events, delta)), reads=view.members == frozenset()
        )
    return Bound((), view.reason(account))


@dataclass(frozen=True)
class _View:
    """What an observer saw: what is published, and what these members saw; None where that is not known."""

    release: Release
    looking: frozenset[str]
    members: frozenset[str] | None

    @classmethod
    def of(cls, release: Release, observer: observers.Observer) -> _View:
        looking = members_of(observer)
        if release.owners is not None:
            # An organisation that is the server of one run and a party of another is one observer.
            looking = frozenset(SERVER_NAME if name == release.server else name for name in looking)
            holding, shown = looking & set(release.share_holders), looking & set(release.shown_to)
            # Shares that are too few show nothing.
            broken = len(holding) > release.threshold
            if not (release.published or shown or broken):
                return cls(release, looking, frozenset())
            # What everybody may read tells more to whoever knows a part of the noise; strangers add nothing.
            knowing = looking & {*release.owners, *release.noise_from} | shown
            return cls(release, looking, knowing | holding if broken else knowing)
        if SERVER_NAME in looking and release.id.endswith("/embeddings"):
            # In networks of format 1 "server" was the label holder in that role; the server itself saw nothing.
            looking -= {SERVER_NAME}
            return cls(release, looking, frozenset() if not looking else None)
        if any(line.observer == observer.name for line in release.lines):
            return cls(release, looking, looking)
        # Format 1 wrote a line for every single observer that saw more than is published, but not for coalitions.
        return cls(release, looking, frozenset() if len(looking) < 2 else None)

    @property
    def nothing(self) -> bool:
        return self.members == frozenset() and not self.release.is_read

    @property
    def owners(self) -> frozenset[str]:
        """Its members but for the server: those who may know columns of their own."""
        return (self.members or frozenset()) - {SERVER_NAME}

    @property
    def parts(self) -> int:
        """How many parts of the noise, at most, are known to it: one of each member that is an owner or deals."""
        return len(self.owners | ((self.members or frozenset()) & set(self.release.noise_from)))

    @property
    def shares(self) -> int:
        return len(self.looking & set(self.release.share_holders))

    def within(self, other: observers.Observer) -> bool:
        """Whether the other observer saw at least as much."""
        # Of a coalition of which nobody knows who took part, somebody who is all of it saw as much.
        return (self.looking if self.members is None else self.members) <= members_of(other)

    def colludes_within(self, requested: _Parts) -> bool:
        """Whether what the release says of any coalition speaks of this one, and of these parts."""
        outside = _Parts(frozenset(), self.owners)
        return (
            self.members is not None
            and self.shares <= self.release.threshold
            and requested.within(outside, self.release)
        )

    def reason(self, account: Account) -> str:
        """Why nothing is known, in words that follow "because"."""
        if self.members is None:
            return f"it does not say whether members of {account.observer} took part in it"
        if self.shares > self.release.threshold > 0:
            return (
                f"{account.observer} holds {self.shares} of its shares, and {self.release.threshold + 1} show every "
                "column"
            )
        if len(self.members) > 1:
            return f"members of {account.observer} took part in it, and no line says what they learn together"
        return f"no line of it bounds the unit {account.unit!r} for {account.observer}"


@dataclass(frozen=True)
class _Parts:
    """Whose parts of one record are replaced: `only` these parties', or, if that is empty, all but those of `but`."""

    only: frozenset[str]
    but: frozenset[str] = frozenset()

    @classmethod
    def of(cls, unit: observers.Unit, observer: observers.Observer) -> _Parts | None:
        """The parts that a unit replaces in one record; None for a unit that does something else."""
        match unit:
            case observers.PartOf(party=party):
                return cls(frozenset({party}))
            case observers.OthersPart():
                return cls(frozenset(), members_of(observer) - {SERVER_NAME})
            case observers.Replace():
                return cls(frozenset())
            case observers.ZeroOut() | observers.ColumnsOf():
                return None
        # A unit that is not named here is bounded by no line until somebody has proved which ones do.
        raise ValueError(f"no rule says which lines bound the unit {unit.name!r} (docs/proofs/ledger.md)")

    def within(self, other: _Parts, release: Release) -> bool:
        """Whether every pair of tables that differ in these parts differs in the other's."""
        if release.owners is not None:
            there = frozenset(release.owners)
            return self._among(there) <= other._among(there)
        if other.only:
            return bool(self.only) and self.only <= other.only
        return not self.only & other.but if self.only else other.but <= self.but

    def _among(self, parties: frozenset[str]) -> frozenset[str]:
        return parties & self.only if self.only else parties - self.but


def _contains(line: LedgerLine, unit: observers.Unit, requested: _Parts | None, release: Release) -> bool:
    theirs = parse_unit(line.unit)
    if requested is None:
        # No line about one record bounds whole columns, and a zeroed row need not be a row that a record can have.
        return theirs == unit
    # Columns that are replaced in every record are replaced in one.
    theirs = observers.PartOf(theirs.party) if isinstance(theirs, observers.ColumnsOf) else theirs
    stated = _Parts.of(theirs, named_observer(line.observer))
    return stated is not None and requested.within(stated, release)


def _events(lines: Iterable[LedgerLine]) -> tuple[Event, ...]:
    return tuple(line.event for line in lines)


def _doubled(events: tuple[Event, ...]) -> tuple[Event, ...] | None:
    doubled = [replaced_from_zeroed(event) for event in events]
    known = tuple(event for event in doubled if event is not None)
    return known if len(known) == len(doubled) else None
