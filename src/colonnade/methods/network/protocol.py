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
from dataclasses import dataclass, replace

import numpy as np

from colonnade.data.table import Table
from colonnade.ledger import Release
from colonnade.methods.network.interfaces import Floats, ModelFactory, PartyModels, check_models
from colonnade.methods.network.plan import EmbeddingsPlan
from colonnade.methods.network.steps import Training, label_targets, one_batch
from colonnade.protocols.agreement import agree_on_public
from colonnade.protocols.charging import charge_first
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.secure_sum import Masks, share_mask_keys
from colonnade.protocols.session import SessionResult, confirm, prepare
from colonnade.protocols.specs import TrainingSpec
from colonnade.runtime.party import AskingAccountant, Party
from colonnade.runtime.wire import Message


@dataclass(frozen=True, eq=False)
class TrainedEmbeddings(SessionResult[EmbeddingsPlan]):
    """What a member comes away with. `sums` are the last noisy sums of every row, at the label holder."""

    epochs: int
    brought: PartyModels
    sums: Floats | None = None


async def embeddings_session(
    party: Party, table: Table | None, spec: TrainingSpec, bring: ModelFactory
) -> TrainedEmbeddings:
    """Meet, compare, align, plan, charge the whole schedule once, train, end together."""
    aligned, plan = await prepare(party, table, spec, EmbeddingsPlan)
    brought = bring(aligned, plan)
    check_models(party, plan, brought)
    release = plan.release(party.name, run=party.run, reproducible=party.seeded)
    await charge_first(party, release)
    epochs, sums = await _train(party, plan, release, brought)
    await confirm(party, "")
    return TrainedEmbeddings(plan, party.run, party.seeded, aligned, epochs, brought=brought, sums=sums)


async def _train(
    party: Party, plan: EmbeddingsPlan, release: Release, brought: PartyModels
) -> tuple[int, Floats | None]:
    masks: Masks | None = None
    if plan.options.mechanism == "poisson-binomial":
        masks = await share_mask_keys(party, plan.contributors)
    targets = None if brought.fusion is None else label_targets(plan, brought.fusion, party.randomness)
    # The ledger has said yes to the whole schedule; every step asks it again, and it knows the answer.
    paid = replace(party, ledger=_Paid(party.ledger, release))
    run = Training(plan, release, masks, brought, targets)
    sums = None if brought.fusion is None else np.zeros((plan.rows, plan.options.embedding))
    epoch = 0
    for epoch in range(plan.passes):
        for batch in plan.batches(epoch):
            opened = await one_batch(paid, run, batch)
            if sums is not None and opened is not None:
                sums[batch.rows] = opened
        party.progress("epochs", epoch + 1, plan.passes)
        if not await _another(party, run, epoch):
            break
    return epoch + 1, sums


async def _another(party: Party, run: Training, epoch: int) -> bool:
    step, fusion = f"epoch {epoch}", run.brought.fusion
    if fusion is None:
        said = (await hear(party, run.plan.receiver, step)).integer("goes on") == 1
        await agree_on_public(party, step, run.plan.taught, np.array([said], dtype=np.uint8))
        return said
    more = fusion.goes_on(epoch) and epoch + 1 < run.plan.passes
    for member in party.group.others(party.name):
        await tell(party, member, step, Message({"goes on": int(more)}))
    return more


@dataclass(frozen=True, eq=False)
class _Paid(AskingAccountant):
    """A ledger that has said yes to one release and is asked about nothing else."""

    release: Release

    def charge(self, release: Release, dataset: str, *, fresh: bool = False) -> None:
        if release is not self.release or fresh:
            self.ledger.charge(release, dataset, fresh=fresh)


def formula_bytes(plan: EmbeddingsPlan) -> float:
    """T·B·M·P(log₂(bM) + F)/8: PBM-VFL's count of what a run sends, for the rows that its batches really have.

    F is the size of a returned number in bits, 0 where nothing is returned.
    """
    contributors = len(plan.contributors)
    up = (
        math.log2(plan.options.trials * contributors)
        if plan.options.mechanism == "poisson-binomial"
        else 32.0
    )
    back = plan.options.gradient_bits if plan.learns_locally else 0
    return contributors * plan.options.embedding * plan.passes * (plan.rows * up + plan.train_rows * back) / 8
