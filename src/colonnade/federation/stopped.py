"""How far each party of a run came, for the record of a run that did not reach its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from colonnade.errors import RemoteProtocolError
from colonnade.ledger import Ledger
from colonnade.ledger.chain import Entry
from colonnade.runtime.party import Party
from colonnade.runtime.run import Program


@dataclass(frozen=True)
class Stopped:
    """Where a run stopped: its name, if the parties had agreed on one, the party that stopped it and why, if one
    did, and the last step at which each party said anything.
    """

    run: str
    party: str | None
    error: BaseException | None
    reached: Mapping[str, str | None]


@dataclass(eq=False)
class Journey:
    """The parties of one run, watched from beside: nothing of it goes over the wire."""

    parties: dict[str, Party] = field(default_factory=dict)
    errors: list[tuple[str, BaseException]] = field(default_factory=list)

    def follow(self, program: Program) -> Program:
        """The same program, whose parties are watched."""

        async def followed(party: Party, *arguments: Any) -> Any:
            self.parties[party.name] = party
            try:
                return await program(party, *arguments)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self.errors.append((party.name, error))
                raise

        return followed

    def stopped(self) -> Stopped:
        """Where the run stood when it ended: the first trouble of a party's own counts before what peers made of it."""
        runs = {party.run for party in self.parties.values() if party.run}
        own = [pair for pair in self.errors if not isinstance(pair[1], RemoteProtocolError)]
        party, error = next(iter((*own, *self.errors)), (None, None))
        return Stopped(
            run=min(runs, default=""),
            party=party,
            error=error,
            reached={name: _last_step(party) for name, party in self.parties.items()},
        )


def charges_of(run: str, ledgers: Mapping[str, Ledger]) -> dict[str, Entry]:
    """The entries by which these ledgers were charged for a run; a ledger that was not is not named."""
    return {
        party: entry
        for party, ledger in ledgers.items()
        for entry in ledger.entries()
        if run and entry.kind == "charge" and entry.body["release"]["run"] == run
    }


def _last_step(party: Party) -> str | None:
    # Kinds of steps come in a fixed order, so the last kind that was begun is where the party stood.
    return next((step for _, step in reversed(party.traffic.sent)), None)
