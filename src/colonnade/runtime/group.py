"""Who takes part, and in which role.

An owner holds columns. A keeper keeps secret shares. The server coordinates, receives what is opened,
and holds no data. One node may have several roles; exactly 2t + 1 nodes are keepers, so each of them
is needed to open a product and each can refuse.
"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.errors import GroupMismatch

LONGEST_NAME = 64
"""Letters of a party's name, which begins the names of its files."""


@dataclass(frozen=True)
class Group:
    """The nodes of one run and what each of them does.

    `disclosed_noise` is of how many dealers the noise may become known without touching what was promised; None: of t.
    """

    owners: tuple[str, ...]
    server: str
    keepers: tuple[str, ...]
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
        keepers: tuple[str, ...] | None = None,
        disclosed_noise: int | None = None,
    ) -> Group:
        """The group with the default committee.

        Two owners need the server as third keeper. Three or more owners keep the shares among
        themselves and the server keeps none, so that it learns nothing from colluding with t of them.
        """
        if threshold is None:
            threshold = max(1, (len(owners) - 1) // 2) if keepers is None else (len(keepers) - 1) // 2
        if keepers is None:
            candidates = owners if len(owners) >= 2 * threshold + 1 else (server, *owners)
            keepers = candidates[: 2 * threshold + 1]
        return cls(owners, server, keepers, threshold, active, disclosed_noise)

    @classmethod
    def pair(cls, first: str, second: str, *, active: str | None = None) -> Group:
        """Two owners and nobody else: no server, no keepers. The active one opens what is opened."""
        return cls((first, second), server=active or first, keepers=(), threshold=1, active=active)

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
                    f"{name[:LONGEST_NAME]!r} is no name for a party: use letters, digits and _, a letter first."
                )
            if len(name) > LONGEST_NAME:
                raise GroupMismatch(
                    f"{name[:LONGEST_NAME]!r}… is no name for a party: it has {len(name)} letters, and {LONGEST_NAME} "
                    "are the most."
                )
        if self.is_pair:
            return
        if self.server in self.owners:
            raise GroupMismatch(f"the server {self.server!r} cannot also own columns: it must hold no data.")
        for role, listed in (("owner", self.owners), ("keeper", self.keepers)):
            if len(set(listed)) != len(listed):
                raise GroupMismatch(f"each {role} is named once; this group names {', '.join(listed)}.")
        if self.active is not None and self.active not in self.owners:
            raise GroupMismatch(
                f"{self.active!r} should hold the label but is not among the owners ({', '.join(self.owners)})."
            )
        if self.threshold < 1:
            raise GroupMismatch(f"the threshold t must be at least 1; this plan says {self.threshold}.")
        wanted = 2 * self.threshold + 1
        if len(self.keepers) != wanted:
            raise GroupMismatch(
                f"t = {self.threshold} colluding keepers need exactly 2t + 1 = {wanted} keepers; this group has "
                f"{len(self.keepers)} ({', '.join(self.keepers)}). Name more keepers, or lower the threshold."
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
        """Every node, once: owners, server, keepers that are neither."""
        return tuple(dict.fromkeys((*self.owners, self.server, *self.keepers)))

    @property
    def is_pair(self) -> bool:
        """Whether this is two owners without server and keepers: they meet under encryption, or by noisy messages."""
        alone = len(set(self.owners)) == 2 == len(self.owners) and not self.keepers and self.threshold == 1
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
        """Who deals a part of the noise: every owner, and the server where it keeps shares.

        Where nobody's noise may be known the server deals none: its part would be no noise to itself.
        """
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
        return self.server in self.keepers

    def others(self, name: str) -> tuple[str, ...]:
        """Every member but `name`."""
        return tuple(member for member in self.members if member != name)
