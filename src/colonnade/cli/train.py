"""`colonnade train`: from a job file to a model and a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.failures import charged_text, failure_facts, keep_failure, now
from colonnade.cli.folders import Folder, new_folder, uninterrupted
from colonnade.cli.options import AS_JSON, PARTY_FILES
from colonnade.cli.screen import plain, progress, say, say_json, width
from colonnade.errors import CannotWrite, ColonnadeError

if TYPE_CHECKING:
    from colonnade.learn.federation import Federation
    from colonnade.learn.forecasting.forecast import Forecast
    from colonnade.learn.jobs import Job
    from colonnade.learn.method import Learnt
    from colonnade.learn.model_file import Model
    from colonnade.learn.release import MomentRelease
    from colonnade.learn.training import Neural
    from colonnade.runtime.group import Group

RUNS = Path("runs")
EXAMPLE = """
Each party's own file is NAME.toml beside the job, or given with --party. All parties run in this process, each with
its own table and ledger, and talk only through their channels.

Example (`colonnade demo` writes such files):

  colonnade train demo-run/job.toml --output runs/first
"""


def train(
    job: Path = typer.Argument(
        ..., metavar="JOB", help="The job file (TOML): parties, task, method, epsilon, delta."
    ),
    party: list[Path] = PARTY_FILES,
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="FOLDER",
        help="A new folder for release, report and facts; runs/NAME-OF-JOB if left out.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Train one private model on the columns of all parties of a job."""
    facts = train_job(job, party, output, quiet=as_json)
    if as_json:
        say_json(facts)
        return
    from colonnade.report.text import run_text

    say(f"{run_text(facts, width=width())}\n\nReport: {facts['report']}")


train.__doc__ = f"{train.__doc__}\n{EXAMPLE}"


def train_job(job_path: Path, given: list[Path], output: Path | None, *, quiet: bool) -> dict[str, Any]:
    """Train as a job file says, write the run's folder, and return its facts."""
    from colonnade.learn.forecasting.before import foretold
    from colonnade.learn.forecasting.clock import Clock
    from colonnade.learn.jobs import Job
    from colonnade.learn.party_files import federation_of, party_files
    from colonnade.learn.training import found_for

    job = Job.load(job_path)
    files = party_files(job, given)
    with new_folder(output or RUNS / job.path.stem, numbered=output is None) as folder:
        federation = federation_of(job, files)
        folder.reserve(_room(federation.features(job.task)))
        made = foretold(job, federation)
        try:
            with progress(not quiet) as advance, Clock() as clock:
                federation.progress = advance
                found = found_for(job, federation)
        except BaseException as error:
            run = federation.stopped.run if federation.stopped is not None else ""
            _fail(folder, job, federation, error, run=run)
            raise
        with uninterrupted():
            try:
                facts, failure = _write_run(folder, job, federation, found, made=made, seconds=clock.seconds)
            except OSError as error:
                _fail(folder, job, federation, error, run=federation.runs[-1].name)
                raise
            finished = folder.finish()
            facts["report"] = str(finished / "report.html")
    if failure is not None:
        raise type(failure)(f"{failure} The release was paid for and is good: {finished / 'release.npz'}.")
    return facts


def write_report(folder: Path, facts: dict[str, Any]) -> None:
    """The page, and the facts behind it."""
    from colonnade.report.html import run_page

    text = json.dumps(plain(facts), ensure_ascii=False, indent=1, allow_nan=False)
    (folder / "report.html").write_text(run_page(facts), encoding="utf-8")
    (folder / "facts.json").write_text(text, encoding="utf-8")


def _write_run(
    folder: Folder,
    job: Job,
    federation: Federation,
    found: MomentRelease | Learnt,
    *,
    made: Forecast | None,
    seconds: float,
) -> tuple[dict[str, Any], ColonnadeError | None]:
    """Release, facts and page into the draft; what could not be learnt is a note in them."""
    from colonnade.learn.model_document import PARTIES, PEOPLE
    from colonnade.learn.people import People
    from colonnade.learn.release import MomentRelease
    from colonnade.learn.training import train_on
    from colonnade.randomness import SystemRandomness
    from colonnade.report.facts import run_facts
    from colonnade.report.forecast import forecast_facts
    from colonnade.report.party import party_pages

    folder.free_reserve()
    if isinstance(found, MomentRelease):
        found.save(folder.draft / "release.npz")
    trained = train_on(found, job, federation)
    failure = trained.failure
    facts = run_facts(
        federation.runs[-1],
        federation,
        name=job.name,
        learnt=trained.learnt,
        measured=trained.measured,
        notes=(*trained.notes, *([f"No model was learnt: {failure}"] if failure else [])),
    )
    facts["time"] = now()
    if made is not None:
        facts["forecast"] = forecast_facts(
            made, federation.runs[-1], seconds=seconds, measured=trained.measured
        )
    facts["asked"] = _asked(job, federation.group)
    write_report(folder.draft, facts)
    _write_model(folder.draft, job, federation, trained.model, found)
    # In one process one user is every party; each page is for its own party and leaves this folder with nobody else.
    own = folder.draft / PARTIES
    own.mkdir(exist_ok=True)
    for party, aligned in federation.runs[-1].aligned.items():
        people = People.of_table(aligned.table, SystemRandomness(), run=federation.runs[-1].name)
        people.save(own / f"{party}.{PEOPLE}")
    for party, page in party_pages(federation.runs[-1], federation, name=job.name).items():
        (own / f"{party}.html").write_text(page, encoding="utf-8")
    return facts, failure


def _asked(job: Job, group: Group) -> dict[str, Any]:
    """What the parties agreed to run, so that it can be audited from this record; all of it is in the job."""
    return {
        "method": job.method,
        "task": job.task,
        "epsilon": job.epsilon,
        "gamma": job.gamma,
        "options": job.options.model_dump(mode="json", exclude_unset=True),
        "parties": list(group.owners),
        "active": group.active,
        "server": group.server,
        "keepers": list(group.keepers),
        "threshold": group.threshold,
    }


def _write_model(
    folder: Path,
    job: Job,
    federation: Federation,
    model: Model | Neural | None,
    found: MomentRelease | Learnt,
) -> None:
    """The model as JSON; weights that stay with their parties go into the file of whoever has them, and no other.

    A network's weights lie beside each party's JSON as safetensors.
    """
    from dataclasses import replace

    from colonnade.learn.method import Learnt
    from colonnade.learn.model_document import MODEL, PARTIES
    from colonnade.learn.model_file import model_file, parts_of
    from colonnade.learn.networks.estimators import NeuralClassifier, NeuralRegressor
    from colonnade.learn.networks.network_file import save_parts

    if model is None:
        return
    if isinstance(model, NeuralClassifier | NeuralRegressor):
        save_parts(model, folder)
        return
    whole = model_file(model, method=job.method, run=federation.runs[-1].name)
    if not (isinstance(found, Learnt) and found.split):
        whole.save(folder / MODEL)
        return
    (folder / PARTIES).mkdir(exist_ok=True)
    parts = parts_of(whole, active=federation.group.active)
    if found.holder is not None:
        parts = {found.holder: replace(whole, party=found.holder)}
    for party, part in parts.items():
        part.save(folder / PARTIES / f"{party}.{MODEL}")


def _fail(folder: Folder, job: Job, federation: Federation, error: BaseException, *, run: str) -> None:
    """Leave a record of a run that was charged for, and say so; of one that was not, nothing is left."""
    facts = failure_facts(job, federation, error, run=run)
    if not facts["charged"]:
        return
    with uninterrupted():
        kept = keep_failure(folder, facts)
    if isinstance(error, KeyboardInterrupt):
        return
    record = f" `colonnade show {kept}` has the record." if kept is not None else ""
    told = f"{charged_text(facts)} That stays charged, because it may have been seen.{record}"
    if isinstance(error, ColonnadeError):
        raise type(error)(f"{error} {told}") from None
    if isinstance(error, OSError):
        name = Path(error.filename or folder.name).name
        raise CannotWrite(
            f"{folder.name / name} cannot be written ({error.strerror or error}), and nothing half-written was left. "
            f"{told} Make room, or name a folder on another disk, and run again."
        ) from None


def _room(features: int) -> int:
    """Bytes that a run's files may need, generously: the matrix, and a page and facts that name every column."""
    return (1 << 20) + 4096 * features + 16 * features * features
