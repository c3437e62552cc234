"""A party: me, the others, how we talk, my randomness and my accountant. Passed first, never global."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from colonnade.errors import GroupMismatch
from colonnade.randomness import Randomness, SystemRandomness
from colonnade.runtime.channel import Channel, Seen, Traffic

MAX_NAME = 64
"""Letters of a party's name, which begins the names of its files."""


@dataclass(frozen=True)
class Group:
    """The nodes of one run; ε holds while the noise of `disclosed_noise` dealers becomes known (None: of t)."""

    owners: tuple[str, ...]
    server: str
    computing_parties: tuple[str, ...]
    threshold: int
    active: str | None = None
    disclosed_noise: int | None = None

    @classmethod
    def of(
        cls,
        owners: tuple[str, ...],
        *,
        active: str | None = None,
        server: str = "server",
        threshold: int | None = None,
        computing_parties: tuple[str, ...] | None = None,
        disclosed_noise: int | None = None,
    ) -> Group:
        """The default committee: two owners and the server, or three and more owners without it."""
        if threshold is None:
            threshold = (
                max(1, (len(owners) - 1) // 2)
                if computing_parties is None
                else (len(computing_parties) - 1) // 2
            )
        if computing_parties is None:
            candidates = owners if len(owners) >= 2 * threshold + 1 else (server, *owners)
            computing_parties = candidates[: 2 * threshold + 1]
        return cls(owners, server, computing_parties, threshold, active, disclosed_noise)

    @classmethod
    def pair(cls, first: str, second: str, *, active: str | None = None) -> Group:
        """Two owners and nobody else: no server, no computing parties. The active one opens what is opened."""
        return cls((first, second), server=active or first, computing_parties=(), threshold=1, active=active)

    def __post_init__(self) -> None:
        names = self.members
        if len(self.owners) < 2:
            raise GroupMismatch(
                f"a group needs at least two owners of columns; this one has {len(self.owners)} "
                f"({', '.join(self.owners) or 'none'}). Name every organisation under [parties]."
            )
        for name in names:
            if not name.isidentifier():
                raise GroupMismatch(
                    f"{name[:MAX_NAME]!r} is not a valid name for a party: use letters, digits and _, a letter first."
                )
            if len(name) > MAX_NAME:
                raise GroupMismatch(
                    f"{name[:MAX_NAME]!r}… is not a valid name for a party: it has {len(name)} letters, and {MAX_NAME} "
                    "are the most."
                )
        if self.is_pair:
            return
        if self.server in self.owners:
            raise GroupMismatch(f"the server {self.server!r} cannot also own columns: it must hold no data.")
        for role, listed in (("owner", self.owners), ("computing party", self.computing_parties)):
            if len(set(listed)) != len(listed):
                raise GroupMismatch(f"each {role} is named once; this group names {', '.join(listed)}.")
        if self.active is not None and self.active not in self.owners:
            raise GroupMismatch(
                f"{self.active!r} should hold the label but is not among the owners ({', '.join(self.owners)})."
            )
        if self.threshold < 1:
            raise GroupMismatch(f"the threshold t must be at least 1; this plan says {self.threshold}.")
        count = 2 * self.threshold + 1
        if len(self.computing_parties) != count:
            raise GroupMismatch(
                f"t = {self.threshold} colluding computing parties need exactly 2t + 1 = {count} computing "
                f"parties; this group has {len(self.computing_parties)} ({', '.join(self.computing_parties)}). Name "
                "more computing parties, or lower the threshold."
            )
        if self.honest_owners < 1:
            raise GroupMismatch(
                f"with t = {self.threshold} of {len(self.owners)} owners colluding nobody's noise would be left. "
                "Lower the threshold."
            )
        if not 0 <= self.tolerated <= self.threshold:
            raise GroupMismatch(
                f"disclosed_noise = {self.tolerated}: the noise of 0 to t = {self.threshold} dealers may become known."
            )

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.owners, self.server, *self.computing_parties)))

    @property
    def is_pair(self) -> bool:
        """Whether two owners meet under encryption or by noisy messages, without server and computing parties."""
        alone = (
            len(set(self.owners)) == 2 == len(self.owners)
            and not self.computing_parties
            and self.threshold == 1
        )
        opener = self.active or self.owners[0]
        return alone and self.server == opener and opener in self.owners

    @property
    def honest_owners(self) -> int:
        return len(self.owners) - self.threshold

    @property
    def tolerated(self) -> int:
        return self.threshold if self.disclosed_noise is None else self.disclosed_noise

    @property
    def dealers(self) -> tuple[str, ...]:
        """Every owner, and the server if it keeps shares, unless no noise may be known: its own is none to itself."""
        return (*self.owners, self.server) if self.server_keeps and self.tolerated else self.owners

    @property
    def server_deals(self) -> bool:
        return self.server in self.dealers and self.server not in self.owners

    @property
    def whole(self) -> int:
        """How many parts of the noise make the whole that ε is computed for."""
        return len(self.dealers) - self.tolerated

    @property
    def server_keeps(self) -> bool:
        return self.server in self.computing_parties

    def others(self, name: str) -> tuple[str, ...]:
        return tuple(member for member in self.members if member != name)


class Accountant(Protocol):
    """What a protocol needs of a ledger: to be charged, and to keep what was compared and what peers' ledgers say."""

    def charge(self, release: Any, dataset: str, *, fresh: bool = False) -> Any:
        """Record the release, or refuse it, before anything leaves; `fresh` refuses an id charged before."""

    def keep_receipt(self, receipt: Any, *, after: int | None = None) -> None:
        """Remember the head of a peer's ledger, which goes on after the entry that the peer proved."""

    def opening(self) -> Any:
        """Which ledger this is, for peers to recognise."""

    def recognise(self, opening: Any) -> Any:
        """The highest receipt of a peer's ledger; refuse one that is not the one whose receipts are kept here."""

    def prove(self, claim: Any) -> bytes:
        """The proof that this ledger has the entry that a peer knows, or refuse."""

    def note_comparison(self, dataset: str, partners: Sequence[str], *, run: str, through: str = "") -> None:
        """Write down with whom ids are compared, through whom, or refuse it, before anything made of them leaves."""


@dataclass(frozen=True, eq=False)
class AskingAccountant:
    """An accountant that asks another one; a kind of it says what it does otherwise."""

    ledger: Accountant

    def charge(self, release: Any, dataset: str, *, fresh: bool = False) -> Any:
        return self.ledger.charge(release, dataset, fresh=fresh)

    def keep_receipt(self, receipt: Any, *, after: int | None = None) -> None:
        self.ledger.keep_receipt(receipt, after=after)

    def opening(self) -> Any:
        return self.ledger.opening()

    def recognise(self, opening: Any) -> Any:
        return self.ledger.recognise(opening)

    def prove(self, claim: Any) -> bytes:
        return self.ledger.prove(claim)

    def note_comparison(self, dataset: str, partners: Sequence[str], *, run: str, through: str = "") -> None:
        self.ledger.note_comparison(dataset, partners, run=run, through=through)


def silent(step: str, done: int, total: int) -> None:
    """Report progress to nobody."""


@dataclass(eq=False)
class Party:
    """One node of a run, with everything it may touch.

    `shown_ids` is the number of ids that peers are shown when people are matched, if it is not to be the true one, and
    `most_ids` the most that a peer may show. `trusts_server` says that this owner lets the server match pseudonyms of
    its ids; `public` that its data is declared public.
    `asks` raises where this party's policy or budgets do not accept a plan; it is told whether the plan is for as many
    people as there can be, or for few, which only its ε and δ are asked about. None: nobody asks during the run.
    `approves` returns when a person here has approved what all agreed on, at the cost of these plans, and raises if
    that is not to be; None: nobody is asked.
    `remembers` is given the aligned people and the name of a run that trains, before anything is charged; None where it
    trains nothing. `part` says which part of the people a run is about (`colonnade.protocols.agreement`); None for all.
    `aligned` is called when the common people are found and before anything is charged.
    `run` names the run once the parties have agreed on it, `wire` is the newest wire version that they all speak, and
    `seeded` says that somebody in it draws from a seed, so that its noise protects nobody. `proved` is the entry of
    each peer's ledger that was known here and that the peer proved when they met. `numbers` counts the frames to and
    from each peer, so that a frame that is lost, repeated or moved is noticed; those of `aligning` are counted in
    `alignment_numbers`.
    """

    name: str
    group: Group
    channel: Channel
    ledger: Accountant
    randomness: Randomness = field(default_factory=SystemRandomness)
    dataset: str = ""
    shown_ids: int | None = None
    most_ids: int | None = None
    trusts_server: bool = False
    public: bool = False
    asks: Callable[[Any, bool], None] | None = None
    approves: Callable[[Mapping[str, Any], Sequence[Any]], Awaitable[None]] | None = None
    remembers: Callable[[Any, str], None] | None = None
    part: Any = None
    aligned: Callable[[], None] | None = None
    timeout: float = 60.0
    progress: Callable[[str, int, int], None] = silent
    seen: list[Seen] | None = None
    run: str = ""
    seeded: bool = False
    wire: int = 0
    proved: dict[str, int] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    alignment_numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)

    @property
    def owns_columns(self) -> bool:
        return self.name in self.group.owners

    @property
    def keeps_shares(self) -> bool:
        return self.name in self.group.computing_parties

    @property
    def is_server(self) -> bool:
        return self.name == self.group.server

    def next_number(self, direction: str, peer: str) -> int:
        number = self.numbers.get((direction, peer), 0)
        self.numbers[direction, peer] = number + 1
        return number

    @contextmanager
    def aligning(self) -> Iterator[None]:
        """What is sent in this block finds the common people: it is counted and numbered apart."""
        # A frame holds its number, and a larger one is longer: with one count for all, how many people each party has
        # would show in the length of later frames.
        later = self.numbers
        self.numbers, self.traffic.aligning = self.alignment_numbers, True
        try:
            yield
        finally:
            self.numbers, self.traffic.aligning = later, False
