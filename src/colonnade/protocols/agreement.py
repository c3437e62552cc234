"""Who meets, whether all planned the same, whose ledgers go on, who has to say yes, and the charge."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import LedgerAltered, PeerTimeout, PlanError, PlansDiffer, RemoteProtocolError
from colonnade.ledger import HoldoutSplit, Opening, Part, Receipt, Release
from colonnade.ledger.admission import NOTHING, TAG_BYTES, Claim
from colonnade.ledger.release import KEY_BYTES, PartName
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.runtime.journal import KNOWN, PROVED
from colonnade.runtime.party import AskingAccountant, Party
from colonnade.runtime.wire import SPOKEN, Message


async def prove_ledgers(party: Party, openings: Iterable[Opening]) -> None:
    """Each member names the highest entry that it has a receipt for of each owner's ledger; the owner proves it.

    `LedgerReplaced`: a ledger is not the one known here. `LedgerAltered`: an owner does not prove the entry, raised
    there too. Frames have one length, whatever is known, and are said anew when a run goes on.
    """
    known: dict[str, Receipt | None] = {
        opening.party: party.ledger.recognise(opening) for opening in openings if opening.party != party.name
    }
    claims = {owner: Claim.of(kept, holder=party.name, run=party.run) for owner, kept in known.items()}
    for owner, claim in claims.items():
        entry = np.array([claim.entry], dtype=np.int64)
        await tell(party, owner, KNOWN, Message(arrays={"entry": entry, "tag": _array(claim.tag)}))
    if party.owns_columns:
        await _prove(party)
    for owner, receipt in known.items():
        answer = _bytes(await hear(party, owner, PROVED))
        if receipt is None:
            continue
        if not claims[owner].is_proved_by(answer, receipt):
            raise LedgerAltered(
                f"{owner} does not prove that its ledger still has entry {receipt.entry}, of which {party.name} holds "
                f"a receipt: an old copy was put back, or entries were cut off or written anew, and what {owner} has "
                f"spent would not be counted. Nothing was charged. Give {owner} an export of {party.name}'s ledger "
                "for `colonnade ledger PARTY --witness`, and ask it to restore the newest copy; where none has the "
                "entry, nothing counts it by itself: it lowers its budgets, as `colonnade explain E601` says."
            )
        party.proved[owner] = receipt.entry


async def _prove(party: Party) -> None:
    """Answer every other member, then stop if one of them knows an entry that is not in this ledger."""
    altered: list[LedgerAltered] = []
    for holder in party.group.others(party.name):
        said = await hear(party, holder, KNOWN)
        (entry,) = said.array("entry", dtype="i8", shape=(1,)).tolist()
        if entry < 0:
            raise said.wrong(f"entries are counted from 1; found {entry}")
        claim, answer = Claim(holder, party.run, entry, _bytes(said)), NOTHING
        if claim.entry != 0:
            try:
                answer = party.ledger.prove(claim)
            except LedgerAltered as error:
                altered.append(error)
        await tell(party, holder, PROVED, Message(arrays={"tag": _array(answer)}))
    if altered:
        raise altered[0]


def _array(tag: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(tag, dtype=np.uint8)


def _bytes(message: Message) -> bytes:
    return message.array("tag", dtype="u1", shape=(TAG_BYTES,)).tobytes()


def canonical(data: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(data: Any) -> str:
    return hashlib.sha256(canonical(data)).hexdigest()


def flatten(data: Any, path: str = "") -> dict[str, Any]:
    """The leaves of nested mappings and lists, by dotted path."""
    if isinstance(data, Mapping) and data:
        pairs = [(str(key), value) for key, value in data.items()]
    elif isinstance(data, list | tuple) and data:
        pairs = [(str(index), value) for index, value in enumerate(data)]
    else:
        return {path: data}
    leaves: dict[str, Any] = {}
    for key, value in pairs:
        leaves |= flatten(value, f"{path}.{key}" if path else key)
    return leaves


async def meet(party: Party, spoken: tuple[int, int] = SPOKEN) -> None:
    """A run's name to which everybody contributed, so that no message of another run fits it; ledgers are proved.

    Everybody also says whether it draws from a seed: one such party is enough to taint the run.
    """
    fields = {
        "contribution": party.randomness.bytes(16).hex(),
        "reproducible": party.randomness.reproducible,
        "wire": list(spoken),
    }
    mine = Message(fields)
    if party.owns_columns:
        opening = party.ledger.opening()
        # As an array the answer has one length, and bytes are in every report.
        mine = Message(
            {**fields, "ledger": opening.origin}, {"anew": np.array([opening.anew], dtype=np.int64)}
        )
    said = {party.name: mine, **await exchange(party, "hello", mine, party.group.members)}
    party.wire = common_wire(said)
    openings = []
    for owner in party.group.owners:
        (anew,) = said[owner].array("anew", dtype="i8", shape=(1,)).tolist()
        openings.append(Opening(owner, said[owner].text("ledger"), anew=bool(anew)))
    party.run = digest({name: message.text("contribution") for name, message in said.items()})[:32]
    party.seeded = any(message.fields.get("reproducible") is not False for message in said.values())
    await prove_ledgers(party, openings)


def common_wire(said: Mapping[str, Message]) -> int:
    spoken = {}
    for name, message in said.items():
        match message.fields.get("wire"):
            case [int(oldest), int(newest)] if oldest <= newest:
                spoken[name] = oldest, newest
            case _:
                raise message.wrong(
                    f"{name} named no wire versions, as releases before 0.2 do. Install the same release of Colonnade "
                    "at every member."
                )
    behind = min(spoken, key=lambda name: spoken[name][1])
    ahead = max(spoken, key=lambda name: spoken[name][0])
    if spoken[behind][1] < spoken[ahead][0]:
        raise PlansDiffer(
            f"step 'hello': {behind} speaks wire versions up to {spoken[behind][1]}, and {ahead} from "
            f"{spoken[ahead][0]} on. Nothing was released or charged. Install a newer release of Colonnade at {behind}."
        )
    return spoken[behind][1]


async def agree(party: Party, what: str, data: Mapping[str, Any]) -> None:
    """Stop unless every member holds the same `data`; the error names the first field that differs, at every member."""
    whole = digest(data)
    members = party.group.members
    said = await exchange(party, what, Message({"digest": whole}), members)
    if all(message.text("digest") == whole for message in said.values()):
        return
    mine = {path: digest(value)[:32] for path, value in flatten(data).items()}
    details = await exchange(party, f"{what} fields", Message({"digests": mine}), members)
    for peer, message in details.items():
        theirs = message.fields.get("digests")
        known = theirs if isinstance(theirs, dict) else {}
        differing = [path for path in (*mine, *known) if mine.get(path) != known.get(path)]
        if not differing and said[peer].text("digest") == whole:
            continue
        first = differing[0] if differing else what
        how = "do not agree on" if first in mine and first in known else "do not both have"
        raise PlansDiffer(
            f"step {what!r}: {party.name} and {peer} {how} {first!r}. Nothing was released or charged. "
            f"Compare that field in both parties' files, then run again."
        )


async def agree_on_public(party: Party, step: str, announced: Iterable[str], *public: NDArray[Any]) -> None:
    """Stop unless all in `announced` were told the same at `step`; returns before anything that rests on it leaves.

    Guarantee: two members that follow the protocol and both return here hold the same bytes, whatever the others do
    (docs/proofs/public-state.md). They compare with each other, since whoever told them is whom they do not believe.
    """
    announced = tuple(announced)
    if party.name not in announced or len(announced) < 2:
        return
    whole = hashlib.sha256(f"colonnade public: {party.run} {step}".encode())
    for array in public:
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        whole.update(little.nbytes.to_bytes(8, "little") + little.tobytes())
    said = await exchange(party, f"comparison {step}", Message({"digest": whole.digest()}), announced)
    for peer, message in said.items():
        if message.fields.get("digest") != whole.digest():
            raise RemoteProtocolError(
                f"{party.name} at step {step!r}: {peer} was told something else than {party.name}, or does not say "
                f"what it was told. {party.name} has sent nothing that rests on it. Ask both, and whoever told "
                "them, what they run."
            )


STEP = "approval"


async def wait_for_approval(
    party: Party, asking: Sequence[str], agreed: Mapping[str, Any], plans: Sequence[Any]
) -> None:
    """Return when every owner in `asking` has the yes that it asks for to `agreed`, whose cost `plans` show."""
    if not asking:
        return
    for owner in asking:
        party.progress(f"{STEP} of {owner}", 0, 1)
    replies = [
        asyncio.create_task(_hear_approval(party, owner, owner in asking))
        for owner in party.group.owners
        if owner != party.name
    ]

    async def ready() -> None:
        if party.approves is not None:
            await party.approves(agreed, plans)
        if party.owns_columns:
            for member in party.group.others(party.name):
                await tell(party, member, STEP, Message())

    tasks = [asyncio.create_task(ready()), *replies]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    # This member's own reason comes before what peers made of it.
    for error in ended:
        if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
            raise error
    for owner in asking:
        party.progress(f"{STEP} of {owner}", 1, 1)


async def _hear_approval(party: Party, owner: str, asks: bool) -> None:
    try:
        await hear(party, owner, STEP)
        party.progress(f"{STEP} of {owner}", 1, 1)
    except PeerTimeout:
        if not asks:
            raise
        raise PeerTimeout(
            f"{party.name} waited {party.timeout:g} s at step {STEP!r}: the job waits for approval by somebody at "
            f"{owner}. Ask {owner} to look at `colonnade party requests`; a longer timeout goes into the job. Nothing "
            "was charged, and no ids were compared."
        ) from None


async def charge_first(party: Party, release: Release) -> None:
    """Charge this party's ledger for the whole release, before anything derived from data is on the wire.

    The charge must be a new one: the noise that follows is drawn for it alone. Peers keep the ledger's head, so that
    cutting its end off is noticed when they meet again.
    """
    receipt: Receipt = party.ledger.charge(release, party.dataset, fresh=True)
    # As an array a number has one length: bytes are in every report, and the length of a ledger is its party's own.
    entry = np.array([receipt.entry], dtype=np.int64)
    mine = Message({"head": receipt.head, "origin": receipt.origin}, {"entry": entry})
    said = await exchange(party, "receipts", mine, party.group.members)
    for peer, message in said.items():
        try:
            (place,) = message.array("entry", dtype="i8", shape=(1,)).tolist()
            theirs = Receipt(peer, place, message.text("head"), message.text("origin"))
        except ValueError as error:
            raise RemoteProtocolError(f"{party.name} at step 'receipts', from {peer}: {error}") from None
        try:
            # Of whom nothing was known when they met, other runs may have brought receipts since.
            party.ledger.keep_receipt(theirs, after=party.proved.get(peer, 0))
        except LedgerAltered:
            # A ledger without columns counts no ε. Both receipts are kept, and the charge here is not to be in vain.
            if peer in party.group.owners:
                raise


@dataclass(frozen=True)
class PartSpec:
    """The part that a run is about; at an owner how its data set was cut before, and `keep` to write a cut down."""

    share: float
    name: PartName
    rules: str = ""
    known: HoldoutSplit | None = field(default=None, repr=False)
    keep: Callable[[HoldoutSplit], None] = field(default=lambda _split: None, repr=False)

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
        known = self.known or HoldoutSplit(bytes(KEY_BYTES), self.share, self.rules)
        return replace(known, rules=self.rules).part(self.name)


@dataclass(frozen=True, eq=False)
class PartAccountant(AskingAccountant):
    part: Part

    def charge(self, release: Release, dataset: str, *, fresh: bool = False) -> Any:
        return self.ledger.charge(replace(release, part=self.part), dataset, fresh=fresh)


async def agree_on_split(party: Party) -> HoldoutSplit | None:
    """One key for all owners, of the first whose data set was cut before, or fresh; None at mere members.

    From here on every charge is about the run's part; an owner whose data set was cut by another key counts it in all.
    """
    requested: PartSpec = party.part
    if not party.owns_columns:
        return None
    requested.check(party.name)
    owners = party.group.owners
    said = await exchange(party, "cut before", Message({"cut": requested.known is not None}), owners)
    before = {owner: message.fields.get("cut") is True for owner, message in said.items()}
    before[party.name] = requested.known is not None
    chooser = next((owner for owner in owners if before[owner]), owners[0])
    if chooser == party.name:
        key = requested.known.key if requested.known is not None else party.randomness.bytes(KEY_BYTES)
        for owner in owners:
            if owner != party.name:
                await tell(party, owner, "cut", Message({"key": key}))
    else:
        message = await hear(party, chooser, "cut")
        announced = message.fields.get("key")
        if type(announced) is not bytes or len(announced) != KEY_BYTES:
            raise message.wrong("it sent no key to cut the people by")
        key = announced
    split = HoldoutSplit(key, requested.share, requested.rules)
    if requested.known is None:
        requested.keep(split)
    party.ledger = PartAccountant(party.ledger, split.part(requested.name))
    return split
