"""A network in parts: owners embed, a secure sum shows the label holder the totals, gradients go back.

Box of the protocol, after PBM-VFL:

1. every owner charges its ledger for the whole schedule and tells its peers the ledger's head;
2. for each public batch every contributor embeds its rows into [−C, C]^P, quantises them to counts, adds its pairwise
   masks modulo 2^k and sends k bits a count;
3. the label holder reads the sums, estimates Σ h without bias and lets the fusion model learn;
4. unless local networks are frozen, it sends every contributor the gradient of the sum, and they learn locally.

Networks stay on their side of two interfaces, `Contributor` and `Fusion`, which speak arrays of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from colonnade.data.aligned import AlignedTable
from colonnade.data.table import Table
from colonnade.errors import DataError, PlanError, RemoteProtocolError
from colonnade.ledger import Release
from colonnade.methods.network.interfaces import Bring, Brought, Floats, check_brought
from colonnade.methods.network.plan import EmbeddingsPlan
from colonnade.methods.network.request import EmbeddingsRequest
from colonnade.methods.network.steps import Training, label_targets, one_batch
from colonnade.methods.network.terms import Indices
from colonnade.protocols.agreement import agree_on_public
from colonnade.protocols.charging import charge_first
from colonnade.protocols.messages import exchange, hear, tell
from colonnade.protocols.run_log import Begun, RunCoins, RunLog
from colonnade.protocols.secure_sum import Masks, share_mask_keys
from colonnade.protocols.session import confirm, prepare
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message


@dataclass(frozen=True, eq=False)
class TrainedEmbeddings:
    """What a member comes away with. `sums` are the last noisy sums of every row, at the label holder."""

    plan: EmbeddingsPlan
    run: str
    reproducible: bool
    aligned: AlignedTable | None
    epochs: int
    resumed: bool
    brought: Brought
    sums: Floats | None = None


async def embeddings_session(
    party: Party, table: Table | None, request: EmbeddingsRequest, bring: Bring, log: RunLog | None = None
) -> TrainedEmbeddings:
    """Meet, compare, align, plan, charge the whole schedule once, train, end together.

    With a `log` a run that stopped goes on where all parties' records allow: nothing is charged twice, and what had
    left is sent again as it was.
    """
    aligned, plan = await prepare(party, table, request)
    begun, resumed = await _begin_or_resume(party, aligned, plan, log)
    party.run = begun.run
    order = _order(party, aligned, log) if resumed and aligned is not None else None
    brought = bring(aligned, plan, order)
    check_brought(party, plan, brought)
    if log is not None and not resumed:
        # Before the charge, so that a run that was paid for can always go on.
        for each in (brought.contributor, brought.fusion):
            if each is not None:
                each.save(0)
    release = plan.release(party.name, run=begun.run, reproducible=begun.reproducible)
    if resumed:
        party.ledger.charge(release, party.dataset)
    else:
        await charge_first(party, release)
    epochs, sums = await _train(party, plan, release, begun, log=log, brought=brought, resumed=resumed)
    await confirm(party, "")
    if log is not None and party.owns_columns:
        log.finish()
    return TrainedEmbeddings(
        plan, begun.run, begun.reproducible, aligned, epochs, resumed, brought=brought, sums=sums
    )


async def _begin_or_resume(
    party: Party, aligned: AlignedTable | None, plan: EmbeddingsPlan, log: RunLog | None
) -> tuple[Begun, bool]:
    """What this run is called and whether it was begun before, which all owners must say alike."""
    mine = log.begun if log is not None and party.owns_columns else None
    if mine is not None and mine.plan != plan.hash:
        raise PlanError(
            f"{party.name}: the record of this run was made for another plan. A run without a party, or with other "
            "numbers, is a new run with its own cost: give it an empty folder."
        )
    said = await exchange(party, "begun", Message({"run": mine.run if mine else ""}), party.group.members)
    names = {
        owner: (mine.run if mine else "") if owner == party.name else said[owner].text("run")
        for owner in party.group.owners
    }
    if len(set(names.values())) > 1:
        without = ", ".join(owner for owner, run in names.items() if not run) or ", ".join(names)
        raise RemoteProtocolError(
            f"{party.name} at step 'begun': the owners have records of different runs ({without}). To go on, every "
            "owner needs its folder of the same run; to begin anew, empty all of them."
        )
    run = next(iter(names.values()))
    if run and mine is not None:
        return mine, True
    if run:
        return Begun(run, plan.hash, bytes(32), party.tainted), True
    begun = Begun(party.run, plan.hash, party.randomness.bytes(32), party.tainted)
    if log is not None and aligned is not None:
        log.begin(begun, [str(person) for person in aligned.table.ids()])
    return begun, False


def _order(party: Party, aligned: AlignedTable, log: RunLog | None) -> Indices | None:
    """Where the rows of the recorded order lie in this alignment, which may have found another order."""
    if log is None:
        return None
    places = {str(person): place for place, person in enumerate(aligned.table.ids())}
    recorded = log.order()
    if set(recorded) != set(places):
        raise DataError(
            f"{party.name}: the people aligned are not those that the run began with. A run on other rows is a new run."
        )
    return np.array([places[person] for person in recorded], dtype=np.int64)


async def _train(
    party: Party,
    plan: EmbeddingsPlan,
    release: Release,
    begun: Begun,
    *,
    log: RunLog | None,
    brought: Brought,
    resumed: bool,
) -> tuple[int, Floats | None]:
    coins = RunCoins(begun.key)
    masks: Masks | None = None
    if plan.mechanism == "poisson-binomial":
        keyed = replace(party, randomness=coins.stream("agreement"))
        masks = await share_mask_keys(keyed, plan.contributors)
    targets = None if brought.fusion is None else label_targets(plan, brought.fusion, coins)
    # The ledger has said yes to the whole schedule; every step asks it again, and it knows the answer.
    paid = replace(party, ledger=_Paid(party.ledger, release))
    run = Training(plan, release, coins, log, masks, brought, targets)
    first = await _first_epoch(party, brought) if resumed else 0
    sums = None if brought.fusion is None else np.zeros((plan.rows, plan.embedding))
    epoch = first
    for epoch in range(first, plan.passes):
        _save(run, epoch, resumed=resumed and epoch == first)
        for batch in plan.batches(epoch):
            found = await one_batch(paid, run, epoch, batch)
            if sums is not None and found is not None:
                sums[batch.rows] = found
        party.progress("epochs", epoch + 1, plan.passes)
        if not await _another(party, run, epoch):
            break
    return epoch + 1, sums


async def _another(party: Party, run: Training, epoch: int) -> bool:
    """Whether another epoch follows: the label holder decides, and everybody hears it."""
    step, fusion = f"epoch {epoch}", run.brought.fusion
    if fusion is None:
        said = (await hear(party, run.plan.receiver, step)).integer("goes on") == 1
        await agree_on_public(party, step, run.plan.taught, np.array([said], dtype=np.uint8))
        return said
    more = fusion.goes_on(epoch) and epoch + 1 < run.plan.passes
    for member in party.group.others(party.name):
        await tell(party, member, step, Message({"goes on": int(more)}))
    return more


async def _first_epoch(party: Party, brought: Brought) -> int:
    """The last epoch that every owner can go back to."""
    kept: set[int] | None = None
    for each in (brought.contributor, brought.fusion):
        if each is not None:
            kept = set(each.saved()) if kept is None else kept & set(each.saved())
    mine = Message({"saved": sorted(kept) if kept is not None else None})
    said = await exchange(party, "saved", mine, party.group.members)
    for message in said.values():
        theirs = message.fields.get("saved")
        if isinstance(theirs, list):
            kept = set(theirs) if kept is None else kept & set(theirs)
    if not kept:
        raise RemoteProtocolError(
            f"{party.name} at step 'saved': no epoch is kept by all owners. Restore the folders, or begin a new run."
        )
    first = max(kept)
    await agree_on_public(party, "saved", party.group.owners, np.array([first]))
    for each in (brought.contributor, brought.fusion):
        if each is not None:
            each.load(first)
    return first


def _save(run: Training, epoch: int, *, resumed: bool) -> None:
    if run.log is None or resumed:
        return
    for each in (run.brought.contributor, run.brought.fusion):
        if each is not None:
            each.save(epoch)
    run.log.forget_before(epoch - 1)


@dataclass(frozen=True, eq=False)
class _Paid:
    """A ledger that has said yes to one release and is asked about nothing else."""

    ledger: Any
    release: Release

    def charge(self, release: Release, dataset: str, *, fresh: bool = False) -> None:
        if release is not self.release or fresh:
            self.ledger.charge(release, dataset, fresh=fresh)

    def keep_receipt(self, receipt: Any) -> None:
        self.ledger.keep_receipt(receipt)

    def opening(self) -> Any:
        return self.ledger.opening()

    def recognise(self, opening: Any) -> None:
        self.ledger.recognise(opening)

    def note_comparison(self, dataset: str, partners: Sequence[str], *, run: str) -> None:
        self.ledger.note_comparison(dataset, partners, run=run)


def formula_bytes(plan: EmbeddingsPlan, *, steps: int | None = None) -> float:
    """T·B·M·P(log₂(bM) + F)/8: PBM-VFL's count of what a run sends, for the rows that its batches really have.

    F is the size of a returned number in bits, 0 where nothing is returned.
    """
    contributors = len(plan.contributors)
    rows = plan.passes * plan.rows if steps is None else steps * plan.batch
    learnt = plan.passes * plan.train_rows if steps is None else steps * plan.batch
    up = math.log2(plan.trials * contributors) if plan.mechanism == "poisson-binomial" else 32.0
    back = plan.gradient_bits if plan.learns_locally else 0
    return contributors * plan.embedding * (rows * up + learnt * back) / 8
