"""A network as a program between machines: every party runs its own module, the label holder the last layer too."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from colonnade.data.table import Table
from colonnade.learn.frame import Frame
from colonnade.learn.jobs import Job
from colonnade.learn.method_network import estimator_of
from colonnade.learn.networks.network import Network
from colonnade.learn.networks.network_file import NetworkFile
from colonnade.learn.networks.training import bring, design_of, finish, modules_for
from colonnade.learn.privacy import Privacy
from colonnade.protocols.embeddings import TrainedEmbeddings, embeddings_session
from colonnade.protocols.embeddings_request import EmbeddingsRequest
from colonnade.runtime.party import Party

MODEL = "model.json"


async def run_network(
    job: Job, party: Party, table: Table | None, asked: EmbeddingsRequest
) -> TrainedEmbeddings:
    """What a member of this job runs: its module begins as it would with all parties in one process."""
    settings = estimator_of(job.asked).settings()
    own = {} if table is None else {party.name: table}
    place = job.parties.index(party.name) if own else 0
    modules = modules_for(own, replace(settings, seed=settings.seed + place), asked.embedding)
    return await embeddings_session(party, table, asked, bring(party.name, settings, modules.get(party.name)))


def keep_network(job: Job, trained: TrainedEmbeddings, member: str, folder: Path) -> dict[str, Any]:
    """This member's own part of the network, in its own folder; the shape of the network and the learning curve."""
    plan, brought = trained.plan, trained.brought
    contributor: Any = brought.contributor
    fusion: Any = brought.fusion
    if contributor is None and fusion is None:
        return {}
    if fusion is not None and trained.sums is not None:
        finish(fusion, trained.sums, plan, linear=True)
    estimator = estimator_of(job.asked)
    locals_ = {} if contributor is None else {member: contributor}
    frame = Frame(tuple(plan.encoders.items()), plan.label)
    part = Network(design_of(plan, estimator.settings()), frame, locals_, fusion).part(member)
    NetworkFile(
        kind=type(estimator).__name__,
        design=part.design,
        frame=part.frame,
        tensors=part.tensors(),
        privacy=Privacy(plan.guarantees, reproducible=trained.reproducible),
        regime=plan.statement,
        run=trained.run,
        party=member,
    ).save(folder / MODEL)
    return {
        "split": True,
        "network": part.design.to_data(),
        "epochs": trained.epochs,
        "curve": [] if fusion is None else [asdict(epoch) for epoch in fusion.history],
    }
