"""The folder of a run, written alike wherever the run was: in one process for all parties, at a site for its own.

Shared files lie at the top, and what is one party's own lies under `parties` and begins with its name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from colonnade.errors import ColonnadeError, ModelDamaged, ModelError
from colonnade.evaluation.evaluate import Evaluation
from colonnade.evaluation.held_out import HeldOut, decided
from colonnade.federation.federation import Federation, Run, Site
from colonnade.federation.job import Job
from colonnade.federation.own_files import LOG, OUTCOME, PAID, keep_people, outcome_note, own_file
from colonnade.federation.records import FORMAT, check_format, json_text, sealed_text
from colonnade.federation.train import (
    RELEASE,
    ModelWanted,
    Trained,
    keep_opened,
    keep_result,
    train_more,
    train_on,
)
from colonnade.federation.whole_files import write_whole
from colonnade.forecast.forecast import Forecast
from colonnade.methods.method import TrainingResult
from colonnade.methods.table import METHODS, checked_options
from colonnade.models.files.document import MODEL, MORE_MODELS
from colonnade.models.files.linear_file import Model, model_file
from colonnade.models.release import MomentRelease
from colonnade.models.uncertainty import Watch
from colonnade.report.evaluation import evaluation_facts
from colonnade.report.facts import Facts, run_facts
from colonnade.report.forecast import forecast_facts
from colonnade.report.html import run_page
from colonnade.report.learning import learning_facts
from colonnade.report.party import party_pages
from colonnade.report.plain import now
from colonnade.runtime.group import Group

FACTS, REPORT = "facts.json", "report.html"
RECOVERED = (
    "This run was stopped after its release was opened; the rest was made afterwards from what it had kept. Pages, "
    "logs and lists of people of the parties are missing."
)
PAGE = "html"


def write_run(
    folder: Path,
    job: Job,
    run: Run[Any],
    place: Federation | Site,
    result: TrainingResult | ColonnadeError | None,
    *,
    made: Forecast | None = None,
    seconds: float | None = None,
    watch: Watch | None = None,
    evaluation: HeldOut = None,
) -> tuple[Facts, ColonnadeError | None]:
    """Everything that a run leaves with those who are here, and why there is no model if noise left none.

    `made` is what was foretold of it and `seconds` how long it took; on private data nothing is foretold.
    `watch` may skip the estimate of what noise did to the model. `evaluation` is how good it is on the people held out,
    or why that is not known.
    """
    if result is not None and not isinstance(result, ColonnadeError):
        keep_paid(folder, job, run, place, result)
    trained = train_on(result, job, run, public=place.public)
    evaluation, told = decided(job, trained, evaluation)
    failure = trained.failure
    if result is not None and not isinstance(result, ColonnadeError):
        keep_result(folder, job, run, result, trained.model)
    facts = run_facts(
        run,
        place,
        name=job.name,
        model_facts=trained.model_facts,
        measured=trained.measured,
        notes=(
            *trained.notes,
            *([f"No model was learnt: {failure}"] if failure else []),
            *([evaluation] if isinstance(evaluation, str) else []),
            *([evaluation.note] if isinstance(evaluation, Evaluation) and evaluation.note else []),
            *([told] if told else []),
        ),
        watch=watch,
    )
    facts["time"] = now()
    if isinstance(result, MomentRelease):
        models = [trained, *train_more(result, run, public=place.public)]
        facts |= _labels(folder, job.method, run.name, result, models, watch)
    if isinstance(evaluation, Evaluation) and evaluation.receiver is None:
        facts["judged"] = evaluation_facts(evaluation)
    if made is not None and seconds is not None:
        facts["forecast"] = forecast_facts(made, run, seconds=seconds, measured=trained.measured)
    facts["asked"] = asked_facts(job, run.plan.group)
    keep_people(folder, run.aligned, run=run.name)
    # Each page is for its own party: from a folder with several it leaves with nobody else.
    for party, page in party_pages(run, place, name=job.name, evaluation=evaluation).items():
        write_whole(own_file(folder, party, PAGE), page, own=True)
    _keep_notes(folder, job, run, facts, failure)
    write_report(folder, facts)
    (folder / PAID).unlink(missing_ok=True)
    return facts, failure


def _labels(
    folder: Path,
    method: str,
    run: str,
    result: TrainingResult,
    trained: Sequence[Trained],
    watch: Watch | None = None,
) -> Facts:
    """Of a release with several labels a model of each in a file of its own, and what is known of them.

    What the model of the first learnt stands with the run's own.
    """
    if not isinstance(result, MomentRelease) or not result.more_labels:
        return {}
    listed = []
    for place, (name, one) in enumerate(zip(result.label_names, trained, strict=True)):
        file, view = MORE_MODELS.format(number=place + 1) if place else MODEL, result.for_label(name)
        if place and isinstance(one.model, Model):
            model_file(one.model, method=method, run=run).save(folder / file)
        listed.append(
            {
                "label": name,
                "kind": view.label.kind,
                "model": None if one.failure is not None else file,
                "measured": one.measured,
                "failure": None if one.failure is None else str(one.failure),
                **(
                    {"learnt": {**one.model_facts, **learning_facts(view, one.model_facts, watch)}}
                    if place
                    else {}
                ),
            }
        )
    return {"labels": listed}


def keep_paid(
    folder: Path, job: Job, run: Run[Any], place: Federation | Site, result: TrainingResult
) -> None:
    """What was paid for, on the disk before anything else is made of it, and what is known of it by then.

    From the two `colonnade recover` makes the rest, if whoever was to write it is killed. Done once.
    """
    if (folder / PAID).exists():
        return
    keep_opened(folder, job, run, result)
    facts = {**run_facts(run, place, name=job.name, model_facts={}), "time": now()}
    facts["asked"] = asked_facts(job, run.plan.group)
    noted = {"format": FORMAT, "facts": facts, "components": job.components}
    write_whole(folder / PAID, json_text(noted))


def recover_run(folder: Path) -> Facts:
    """Write what is missing of a run from what it had kept when it was stopped, and return its facts.

    What only the run itself knew is not made up: pages, logs and lists of people of the parties are missing.
    """
    try:
        noted = json.loads((folder / PAID).read_text(encoding="utf-8"))
        facts, components = dict(noted["facts"]), noted["components"]
        check_format(noted, folder / PAID)
        method, run = facts["asked"]["method"], facts["run"]
    except FileNotFoundError:
        raise ModelError(
            f"{folder} has what was paid for, but the run was stopped before it had noted anything about it. "
            f"`MomentRelease.load` reads {RELEASE}, and models are fitted from it at no further cost."
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelDamaged(
            f"{folder / PAID} cannot be read: it was changed since the run wrote it."
        ) from None
    try:
        facts["notes"] = [*facts["notes"], RECOVERED]
        run_page(facts)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, UndefinedError):
        raise ModelDamaged(
            f"{folder / PAID} lacks what a report is made of: it was changed since the run wrote it. {RELEASE} beside "
            "it, if it is there, was paid for: `MomentRelease.load` reads it."
        ) from None
    if (folder / RELEASE).exists():
        release = MomentRelease.load(folder / RELEASE)
        trained = train_on(release, ModelWanted(facts["task"], components, _options(facts)), None)
        if trained.failure is not None:
            facts["notes"].append(f"No model was learnt: {trained.failure}")
        elif isinstance(trained.model, Model):
            model_file(trained.model, method=method, run=run).save(folder / MODEL)
            facts["learnt"] = {**trained.model_facts, **learning_facts(release, trained.model_facts)}
        facts |= _labels(folder, method, run, release, [trained, *train_more(release, None)])
    write_report(folder, facts)
    (folder / PAID).unlink()
    return facts


def _options(facts: Facts) -> Any:
    asked = facts["asked"]
    return checked_options(METHODS[asked["method"]], asked["options"])


def _keep_notes(folder: Path, job: Job, run: Run[Any], facts: Facts, failure: ColonnadeError | None) -> None:
    for party in run.aligned:
        if party not in run.outcome.log:
            continue
        noted = {"member": party, "job": job.name, "id": "", "resumes": "", "state": "finished"}
        outcome = {**noted, **run.noted(party), **outcome_note(facts, failure)}
        write_whole(own_file(folder, party, OUTCOME), sealed_text(outcome) + "\n", own=True)
        log = "".join(f"{line}\n" for line in run.outcome.log[party])
        write_whole(own_file(folder, party, LOG), log, own=True)


def write_report(folder: Path, facts: Facts) -> None:
    """The page, and the facts behind it, which come last: a folder that has them is whole."""
    write_whole(folder / REPORT, run_page(facts))
    write_whole(folder / FACTS, sealed_text(facts))


def asked_facts(job: Job, group: Group) -> Facts:
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
        **({} if job.held_out is None else {"held_out": job.held_out}),
        "disclosed_noise": group.disclosed_noise,
    }
