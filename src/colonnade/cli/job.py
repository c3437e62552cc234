"""`colonnade job`: submit a job to a federation, follow it, stop it, go on with it."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import typer

from colonnade.cli.screen import JOB, Answer, argument, as_json, check_free, flag, group, option, say
from colonnade.errors import ColonnadeError, InputError, RemoteProtocolError
from colonnade.federation.files import LOG, OUTCOME, waits_for, write_whole

SUBMITTED = "submitted"
MOST_SILENCES = 5
GLANCE_SECONDS = 0.5
OUTCOME_KEYS = ("state", "reason", "kind", "step", "run")
KIT = option("--kit -k KIT", "The kit to ask with.", ...)
JOB_ID = argument("ID", "The id that `job submit` printed.")
WAIT = flag(
    "--wait", "Wait until the job has ended. The exit code is then that of its end: 0 if it finished."
)


def submit(job: Path = JOB, kit: Path = KIT, wait: bool = WAIT) -> Answer:
    """Submit a job, for a model or for scores: every party's own policy and budget decide whether it takes part.

    Example:
      colonnade job submit job.toml --kit ours/admin --wait
    """
    return _submit(kit, _checked(job), wait=wait)


def propose(
    job: Path = JOB,
    kit: Path = KIT,
    hours: float = option("--hours", "How long another administrator may confirm it.", 24.0),
    output: Path | None = option("--output -o FILE", "The proposal; JOB.proposal.json if left out."),
) -> Answer:
    """Propose a job that another administrator is to confirm: where policies say submission = "two".

    Example:
      colonnade job propose job.toml --kit ours/admin
    """
    from colonnade.sites import approval as proposal
    from colonnade.sites.kit import Kit

    path = output or job.with_suffix(".proposal.json")
    check_free(path, "", "Name another file with --output.")
    document = proposal.propose(Kit.load(kit), _checked(job), hours=hours)
    write_whole(path, document.text)
    return Answer(
        {"proposal": str(path), "proposer": document.proposer, "until": document.until},
        f"{document.proposer} proposes {path}, until {document.until[:16].replace('T', ' ')} UTC.\n"
        f"Send it to another administrator: colonnade job confirm {path.name} --kit KIT",
    )


def confirm(
    proposed: Path = argument("PROPOSAL", "What `job propose` wrote."), kit: Path = KIT, wait: bool = WAIT
) -> Answer:
    """Confirm what another administrator proposed, and submit it: every party checks both signatures.

    A confirmation is for one run. Look at the job in the proposal first.

    Example:
      colonnade job confirm job.proposal.json --kit eve
    """
    from colonnade.sites import approval as proposal
    from colonnade.sites.kit import Kit

    confirmed = proposal.confirm(Kit.load(kit), proposal.Proposal.load(proposed))
    return _submit(kit, confirmed.job, wait=wait, proposal=confirmed.text)


def resume(job_id: str = JOB_ID, kit: Path = KIT, wait: bool = WAIT) -> Answer:
    """Go on with a job of many steps that stopped: nothing is charged, drawn or released twice.

    Every member needs its own record of the run, which it keeps until the run has ended.

    Example:
      colonnade job resume 596ca27d-8325-4ccd-bb80-460765e4591c --kit ours/admin
    """
    kept = kit / SUBMITTED / f"{job_id}.json"
    if not kept.exists():
        raise InputError(f"{kept} does not exist: a job is resumed with the kit that submitted it.")
    facts = json.loads(kept.read_text(encoding="utf-8"))
    first = facts["resumes"] or job_id
    return _submit(kit, facts["job"], wait=wait, resumes=first, proposal=facts.get("proposal", ""))


def status(job_id: str = argument("ID", "A job; all of them if left out.", ""), kit: Path = KIT) -> Answer:
    """Say how jobs stand.

    Example:
      colonnade job status --kit ours/admin
    """
    from colonnade.sites.kit import Kit

    place = Kit.load(kit)
    if place.kind == "admin":
        from colonnade.sites.processes import Administration

        with Administration(place) as session:
            jobs = [session.status(job_id)] if job_id else session.jobs()
        facts = [
            {"id": str(job.get("job_id", "")), "name": str(job.get("name", job.get("job_name", "")))}
            | {"state": str(job["status"])}
            for job in jobs
        ]
    else:
        facts = [_outcome(place, path.name) for path in sorted((place.path / "runs").glob(job_id or "*"))]
    lines = [
        "  ".join(filter(None, (one["id"], one["state"], one["name"], one.get("reason")))) for one in facts
    ]
    return Answer(facts, "\n".join(lines) or "There are no jobs.")


def log(job_id: str = JOB_ID, kit: Path = KIT) -> None:
    """Show a job step by step: bytes sent and received, and, at a member, seconds. There is no data in it.

    Example:
      colonnade job log 596ca27d-8325-4ccd-bb80-460765e4591c --kit bank/kit
    """
    from colonnade.sites.kit import Kit

    place = Kit.load(kit)
    if place.kind == "admin":
        from colonnade.sites.processes import Administration

        with Administration(place) as session, tempfile.TemporaryDirectory() as folder:
            logs = list(session.download(job_id, Path(folder)).rglob(LOG))
            text = logs[0].read_text(encoding="utf-8") if logs else ""
    else:
        path = place.run_folder(job_id) / LOG
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    if not text:
        raise InputError(
            f"{kit} has no log of a job {job_id}. `colonnade job status --kit {kit}` lists those it has."
        )
    for line in text.splitlines():
        if as_json():
            say(line)
            continue
        step = json.loads(line)
        # An administrator's copy of a server's log has no times: they would tell how many ids were compared.
        begun = f"{step['time'][11:23]}  " if "time" in step else ""
        took = f"  {step['seconds']:9.3f} s" if "seconds" in step else ""
        say(f"{begun}{step['step']:<24} sent {step['sent']:>10}  received {step['received']:>10}{took}")


def stop(job_id: str = JOB_ID, kit: Path = KIT) -> Answer:
    """Stop a job at every member. What a ledger had charged by then stays charged.

    Example:
      colonnade job stop 596ca27d-8325-4ccd-bb80-460765e4591c --kit ours/admin
    """
    from colonnade.sites.kit import Kit
    from colonnade.sites.processes import Administration

    with Administration(Kit.load(kit)) as session:
        session.stop(job_id)
    return Answer({"id": job_id, "state": "stopped"}, f"{job_id} is being stopped.")


def _checked(job: Path) -> str:
    """The text of a job file that is in order."""
    from colonnade.evaluation.held_out import check_readers
    from colonnade.federation.job import Job, load_job
    from colonnade.federation.train import spec_of

    requested = load_job(job)
    if isinstance(requested, Job):
        spec_of(requested)
        check_readers(requested)
    return job.read_text(encoding="utf-8")


def _submit(kit: Path, text: str, *, wait: bool, resumes: str = "", proposal: str = "") -> Answer:
    from colonnade.federation.job import parse_job
    from colonnade.sites.kit import Kit
    from colonnade.sites.processes import Administration

    place, requested = Kit.load(kit), parse_job(text)
    with Administration(place) as session:
        absent = sorted(set(requested.parties) - set(session.parties()))
        if absent:
            raise RemoteProtocolError(
                f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not connected to the server. Nothing was "
                "submitted. Ask them to run `colonnade party start`."
            )
        job_id = session.submit(
            text, name=requested.name, parties=requested.parties, resumes=resumes, proposal=proposal
        )
        kept = place.path / SUBMITTED / f"{job_id}.json"
        kept.parent.mkdir(exist_ok=True)
        facts = {"job": text, "resumes": resumes, **({"proposal": proposal} if proposal else {})}
        kept.write_text(json.dumps(facts), encoding="utf-8")
        said: dict[str, Any] = {"id": job_id, "state": "submitted"}
        if wait:
            said |= wait_for(session, job_id)
    failed = wait and (said["state"] != "finished" or said.get("reason"))
    code = exit_code_of(str(said.get("kind", RemoteProtocolError.__name__)))
    text = "  ".join(filter(None, (job_id, said["state"], said.get("reason"))))
    return Answer(said, text, typer.Exit(code) if failed else None)


def exit_code_of(kind: str) -> int:
    """The exit code of an error by the name of its class, as an outcome has it."""
    from colonnade import errors

    known = getattr(errors, kind, None)
    return known.exit_code if isinstance(known, type) and issubclass(known, ColonnadeError) else 1


def wait_for(session: Any, job_id: str) -> dict[str, Any]:
    """How a job ended, once it has, with the server's words where it failed."""
    state, silences = "", 0
    while not state.startswith("FINISHED"):
        time.sleep(GLANCE_SECONDS)
        try:
            state, silences = str(session.status(job_id)["status"]), 0
        except RemoteProtocolError:
            # A server that is busy may not answer in time; one that is gone never does.
            silences += 1
            if silences == MOST_SILENCES:
                raise
    facts: dict[str, Any] = {"state": state}
    with tempfile.TemporaryDirectory() as folder:
        for path in session.download(job_id, Path(folder)).rglob(OUTCOME):
            outcome = json.loads(path.read_text(encoding="utf-8"))
            facts |= {key: outcome[key] for key in OUTCOME_KEYS if key in outcome}
            if "failure" in outcome:
                facts["reason"] = f"no model was learnt: {outcome['failure']}"
    if facts["state"].startswith("FINISHED"):
        facts["reason"] = (
            "the server's part of the job left no word. Ask every party for `colonnade job status`, and look at "
            "console.txt in the server's kit."
        )
    return facts


def _outcome(kit: Any, job_id: str) -> dict[str, Any]:
    from colonnade.sites.health import jobs_without_outcome

    path = kit.run_folder(job_id) / OUTCOME
    if path.exists():
        outcome = json.loads(path.read_text(encoding="utf-8"))
        facts = {"id": job_id, "name": outcome["job"], "state": outcome["state"]}
        return facts | {"reason": outcome.get("reason", "")}
    state = "ended without a word" if job_id in jobs_without_outcome(kit) else "running"
    if waits := waits_for(path.parent):
        state = f"waits for approval by somebody at {' and '.join(waits)}"
    return {"id": job_id, "name": "", "state": state}


app = group(
    """Submit a job to a federation, follow it, stop it, go on with it.

With an administrator's kit what the server knows; with a party's or the server's kit what that member itself noted.
""",
    *(submit, propose, confirm, resume, status, log, stop),
)
