"""The folder of a run, written alike wherever the run was, with what each party may read of its own part."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from colonnade.errors import ColonnadeError, ModelDamaged, ModelError
from colonnade.evaluation.estimates import NumberEstimate
from colonnade.evaluation.evaluate import Evaluation
from colonnade.evaluation.held_out import HeldOut, decided, estimate_alone
from colonnade.federation.federation import Federation, Run, Site
from colonnade.federation.files import FORMAT, check_format, json_text, sealed_text, write_whole
from colonnade.federation.holdout import LOG, OUTCOME, PAID, keep_people, outcome_note, own_file
from colonnade.federation.job import Job
from colonnade.federation.train import (
    RELEASE,
    ModelWanted,
    Trained,
    keep_opened,
    keep_result,
    train_more,
    train_on,
)
from colonnade.methods.method import TrainingResult
from colonnade.methods.table import METHODS, checked_options
from colonnade.models.files.document import MODEL, MORE_MODELS
from colonnade.models.files.linear_file import Model, model_file
from colonnade.models.release import MomentRelease
from colonnade.models.uncertainty import Watch
from colonnade.planning.forecast import Forecast
from colonnade.report.evaluation import baseline_text, estimate_facts, evaluation_facts, figure_rows
from colonnade.report.facts import Facts, learning_facts, ledger_facts, run_facts
from colonnade.report.html import render, run_page
from colonnade.report.plain import merged, now
from colonnade.runtime.party import Group

NOTE = (
    "Foretold before the run from declarations and numbers of rows, by a rehearsal on invented people; reading files "
    "is not part of it. Time counts finding the common people, bytes and rounds do not."
)


def forecast_facts(
    made: Forecast,
    run: Run[Any],
    *,
    seconds: float,
    measured: Mapping[str, float] | None,
) -> Facts:
    """Both sides as plain values, for data that everybody declared public."""
    own = {step for traffic in run.outcome.traffic.values() for step in traffic.own}
    cost, outcome = made.cost.without(own), run.outcome.shared
    accuracy = next((value for name, value in (measured or {}).items() if name.startswith("accuracy")), None)
    expected = made.expected
    return {
        "predicted": {
            "bytes": cost.bytes_sent,
            "rounds": cost.rounds,
            "seconds": cost.seconds,
            "error": None if expected is None or accuracy is None else expected.error,
        },
        "measured": {
            "bytes": outcome.bytes_sent,
            "rounds": outcome.rounds,
            "seconds": seconds,
            "error": None if accuracy is None else 1.0 - accuracy,
        },
        "note": NOTE,
    }


def party_facts(run: Run[Any], federation: Federation | Site, party: str, *, name: str) -> Facts:
    """Everything about a run that belongs to one owner of columns."""
    table, traffic = run.aligned[party].table, run.outcome.traffic[party]
    sent: dict[str, int] = {}
    for (_, step), size in traffic.sent.items():
        sent[step] = sent.get(step, 0) + size
    steps = dict.fromkeys([*traffic.seconds, *sent])
    return {
        "name": name,
        "party": party,
        "run": run.name,
        "plan": run.plan.hash,
        "dataset": federation.datasets[party],
        "rows": run.plan.rows,
        "clipped": dict(table.clipping.counts),
        "clipped_rows": table.clipping.rows,
        "warning": table.clipping.warning,
        "steps": [
            {"step": step, "seconds": traffic.seconds.get(step, 0.0), "bytes": sent.get(step, 0)}
            for step in steps
        ],
        "seconds": sum(traffic.seconds.values()),
        "ledger": ledger_facts(federation.ledgers[party]),
    }


def alone_facts(run: Run[Any], evaluation: HeldOut) -> dict[str, Facts]:
    """For the label holder, if it is here, what its own columns alone would have on the people evaluated on."""
    if not isinstance(evaluation, Evaluation):
        return {}
    alone = estimate_alone(run, evaluation)
    holder = run.plan.group.active
    if alone is None or holder is None:
        return {}
    facts = estimate_facts(alone)
    model = "linear regression" if isinstance(alone, NumberEstimate) else "logistic regression"
    return {holder: {"rows": figure_rows(facts), "beside": baseline_text(facts), "model": model}}


def network_facts(evaluation: HeldOut) -> dict[str, Facts]:
    """For the label holder, if it is here, how good a network is by the scores with noise that it alone has."""
    if not isinstance(evaluation, Evaluation) or evaluation.receiver is None:
        return {}
    if evaluation.estimate is None and not evaluation.reason:
        return {}
    plan = evaluation.run.plan
    said: Facts = {"people": plan.rows, "deviation": plan.deviation, "told": evaluation.reason}
    if evaluation.estimate is not None:
        facts = estimate_facts(evaluation.estimate)
        said |= {"rows": figure_rows(facts), "beside": baseline_text(facts)}
    return {evaluation.receiver: said}


def party_page(facts: Facts) -> str:
    """The page of one party, for it alone."""
    return render("party.html", facts, totals=merged(facts["ledger"]["totals"]))


def party_pages(
    run: Run[Any], federation: Federation | Site, *, name: str, evaluation: HeldOut = None
) -> dict[str, str]:
    """A page for every owner of columns who is here; only whoever simulates all parties can make them all."""
    alone, network = alone_facts(run, evaluation), network_facts(evaluation)
    return {
        owner: party_page(
            {
                **party_facts(run, federation, owner, name=name),
                "alone": alone.get(owner),
                "network": network.get(owner),
            }
        )
        for owner in run.aligned
    }


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
    evaluation, sentence = decided(job, trained, evaluation)
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
            *([sentence] if sentence else []),
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
    facts["asked"] = requested_facts(job, run.plan.group)
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
    facts["asked"] = requested_facts(job, run.plan.group)
    recorded = {"format": FORMAT, "facts": facts, "components": job.components}
    write_whole(folder / PAID, json_text(recorded))


def recover_run(folder: Path) -> Facts:
    """Write what is missing of a run from what it had kept when it was stopped, and return its facts.

    What only the run itself knew is not made up: pages, logs and lists of people of the parties are missing.
    """
    try:
        recorded = json.loads((folder / PAID).read_text(encoding="utf-8"))
        facts, components = dict(recorded["facts"]), recorded["components"]
        check_format(recorded, folder / PAID)
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
    requested = facts["asked"]
    return checked_options(METHODS[requested["method"]], requested["options"])


def _keep_notes(folder: Path, job: Job, run: Run[Any], facts: Facts, failure: ColonnadeError | None) -> None:
    for party in run.aligned:
        if party not in run.outcome.log:
            continue
        recorded = {"member": party, "job": job.name, "id": "", "resumes": "", "state": "finished"}
        outcome = {**recorded, **run.summary_for(party), **outcome_note(facts, failure)}
        write_whole(own_file(folder, party, OUTCOME), sealed_text(outcome) + "\n", own=True)
        log = "".join(f"{line}\n" for line in run.outcome.log[party])
        write_whole(own_file(folder, party, LOG), log, own=True)


def write_report(folder: Path, facts: Facts) -> None:
    """The page, and the facts behind it, which come last: a folder that has them is whole."""
    write_whole(folder / REPORT, run_page(facts))
    write_whole(folder / FACTS, sealed_text(facts))


def requested_facts(job: Job, group: Group) -> Facts:
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
        "computing_parties": list(group.computing_parties),
        "threshold": group.threshold,
        **({} if job.held_out is None else {"held_out": job.held_out}),
        "disclosed_noise": group.disclosed_noise,
    }
