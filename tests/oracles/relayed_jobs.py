"""All members of a job over FLARE's own relay in one process, each with a kit of its own."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cells import addresses, cells
from certificates import Root
from kits import make_kit
from two_houses import MEMBERS, PARTIES, SEED, job_text, write_party
from typed import untyped

from colonnade.federation.job import Job, parse_job
from colonnade.federation.train import protocol_of
from colonnade.models.files.linear_file import ModelFile
from colonnade.sites.flare import FlareChannel
from colonnade.sites.kit import Kit
from colonnade.sites.site import take_part


def houses(folder: Path, root: Root, *, seeded: bool = True) -> dict[str, Kit]:
    made = {name: make_kit(folder / "kits", root, name) for name in MEMBERS}
    seed = {"noise_seed": SEED} if seeded else {}
    for party in PARTIES:
        made[party].tell_site({**write_party(folder, party), **seed})
    made["server"].tell_site(seed)
    return made


def unseeded(kits: dict[str, Kit]) -> None:
    """Let nobody draw from a seed, under which runs would have one name and be charged once."""
    for kit in kits.values():
        kit.tell_site({key: value for key, value in kit.site().items() if key != "noise_seed"})


def run_job(
    kits: dict[str, Kit],
    *,
    texts: dict[str, str] | None = None,
    relay: Callable[[Any], Any] | None = None,
    job_id: str = "j1",
    resumes: str = "",
    proposal: str = "",
    meddle: Callable[[dict[str, Any]], None] = lambda made: None,
) -> dict[str, dict[str, Any]]:
    """Run every member at once and return every member's outcome; `meddle` gets the cells when all begin."""
    texts = texts or dict.fromkeys(MEMBERS, job_text())
    with cells(PARTIES, relay=relay) as made:
        channels = {name: FlareChannel(name, made[name], addresses(made)) for name in MEMBERS}

        async def main() -> list[dict[str, Any]]:
            meddle(made)
            how: dict[str, Any] = {"job_id": job_id, "resumes": resumes, "proposal": proposal}
            jobs = {name: parse_job(texts[name]) for name in MEMBERS}
            return await asyncio.gather(
                *(
                    take_part(channels[name], kits[name], member=name, job=jobs[name], **how)
                    for name in MEMBERS
                )
            )

        outcomes = asyncio.run(main())
    return dict(zip(MEMBERS, outcomes, strict=True))


def breaking(step: str) -> Callable[[Any], Any]:
    from nvflare.fuel.f3.cellnet.defs import ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply

    def relay(message: Any) -> Any:
        return make_reply(ReturnCode.COMM_ERROR) if message.get_header("step") == step else None

    return relay


def own_weights(kit: Kit, party: str, job_id: str) -> list[list[float]]:
    (model,) = (kit.run_folder(job_id) / "parties").glob("*.model.json")
    assert model.name == f"{party}.model.json"
    return list(ModelFile.load(model).weights.tolist())


def part_of(kind: str, run: Any, party: str) -> list[list[float]]:
    job = Job.parse(job_text(kind))
    model = untyped(protocol_of(job).model(job.spec, {party: run.result(party)}))
    return list(model.coefficients.tolist())
