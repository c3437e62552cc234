"""A run about one part of the people: owners agree on the key of the cut, and every charge names the part.

Which part somebody is in depends on the id and the key alone (docs/proofs/parts.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from colonnade.errors import PlanError
from colonnade.ledger import Cut, Part, Release
from colonnade.ledger.parts import KEY_BYTES, PartName
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.runtime.party import AskingAccountant, Party
from colonnade.runtime.wire import Message


@dataclass(frozen=True)
class PartSpec:
    """The part that a run is about, and at an owner how its data set was cut before, if it was.

    `rules` are those by which this owner reads ids. `keep` writes down a cut that is the data set's first.
    """

    share: float
    name: PartName
    rules: str = ""
    known: Cut | None = field(default=None, repr=False)
    keep: Callable[[Cut], None] = field(default=lambda _cut: None, repr=False)

    def people(self, rows: int) -> int:
        """How many of so many people are in the part, but for the luck of the cut."""
        return max(1, round(rows * (self.share if self.name == "held-out" else 1.0 - self.share)))

    def to_data(self) -> dict[str, Any]:
        return {"share": self.share, "part": self.name}

    def check(self, party: str) -> None:
        """Refuse another share than the data set was cut at before: nobody would be in one part only."""
        if self.known is not None and self.known.share != self.share:
            raise PlanError(
                f"held_out = {self.share:g}, but {party}'s data set was cut at {self.known.share:g} before, and people "
                "would change sides: some who were trained on would be judged. Nothing was charged. Write "
                f"held_out = {self.known.share:g}."
            )

    def before(self) -> Part:
        """The part, as far as it is known before the parties have met: by the own cut, or by one still to be made."""
        known = self.known or Cut(bytes(KEY_BYTES), self.share, self.rules)
        return replace(known, rules=self.rules).part(self.name)


@dataclass(frozen=True, eq=False)
class PartAccountant(AskingAccountant):
    """An accountant with which every charge is about one part of the data set."""

    part: Part

    def charge(self, release: Release, dataset: str, *, fresh: bool = False) -> Any:
        return self.ledger.charge(replace(release, part=self.part), dataset, fresh=fresh)


async def agree_on_cut(party: Party) -> Cut | None:
    """One key for all owners, and from here on every charge of this run is about its part; None at mere members.

    The key is that of the first owner whose data set was cut before; a fresh one of the first owner if none was. An
    owner whose data set was cut by another key counts this run in every part.
    """
    asked: PartSpec = party.part
    if not party.owns_columns:
        return None
    asked.check(party.name)
    owners = party.group.owners
    said = await exchange(party, "cut before", Message({"cut": asked.known is not None}), owners)
    before = {owner: message.fields.get("cut") is True for owner, message in said.items()}
    before[party.name] = asked.known is not None
    chooser = next((owner for owner in owners if before[owner]), owners[0])
    if chooser == party.name:
        key = asked.known.key if asked.known is not None else party.randomness.bytes(KEY_BYTES)
        for owner in owners:
            if owner != party.name:
                await tell(party, owner, "cut", Message({"key": key}))
    else:
        heard = await hear(party, chooser, "cut")
        told = heard.fields.get("key")
        if type(told) is not bytes or len(told) != KEY_BYTES:
            raise heard.wrong("it sent no key to cut the people by")
        key = told
    cut = Cut(key, asked.share, asked.rules)
    if asked.known is None:
        asked.keep(cut)
    party.ledger = PartAccountant(party.ledger, cut.part(asked.name))
    return cut
