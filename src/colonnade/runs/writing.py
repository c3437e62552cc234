"""The folder of a run, written alike wherever the run was, with what each party may read of its own part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from colonnade.evaluation.estimates import Estimate, NumberEstimate
from colonnade.evaluation.evaluate import Evaluation
from colonnade.evaluation.held_out import TrainedRun
from colonnade.federation.federation import Federation, Run, Site
from colonnade.federation.files import FACTS, FORMAT, LOG, OUTCOME, PAID, json_text, sealed_text, write_whole
from colonnade.federation.holdout import keep_people, outcome_note, own_file
from colonnade.federation.job import Job
from colonnade.federation.train import Trained, keep_opened, keep_result
from colonnade.methods.method import TrainingResult
from colonnade.models.files.document import MODEL, MORE_MODELS
from colonnade.models.files.linear_file import Model, model_file
from colonnade.models.release import MomentRelease
from colonnade.planning.forecast import Forecast
from colonnade.report import record as records
from colonnade.report.evaluation import estimate_facts, evaluation_facts, evaluation_section
from colonnade.report.facts import ledger_facts, run_facts
from colonnade.report.html import render, run_page
from colonnade.report.plain import Section, merged, now
from colonnade.report.record import RunRecord
from colonnade.runtime.party import Group

NOTE = (
    "Estimated before the run from schemas and row counts, on synthetic people, without reading files. Time counts "
    "finding the common people, bytes and rounds do not."
)


def forecast_facts(
    forecast: Forecast, run: Run[Any], *, seconds: float, measured: Mapping[str, float] | None
) -> records.ForecastRecord:
    own = {step for traffic in run.outcome.traffic.values() for step in traffic.own}
    cost, outcome = forecast.cost.without(own), run.outcome.shared
    accuracy = next((value for name, value in (measured or {}).items() if name.startswith("accuracy")), None)
    foretold = None if forecast.expected is None or accuracy is None else forecast.expected.error
    error = None if accuracy is None else 1.0 - accuracy

    def side(work: Any, seconds: float, error: float | None) -> records.ForecastSide:
        return records.ForecastSide(bytes=work.bytes_sent, rounds=work.rounds, seconds=seconds, error=error)

    return records.ForecastRecord(
        predicted=side(cost, cost.seconds, foretold), measured=side(outcome, seconds, error), note=NOTE
    )


def party_pages(
    run: Run[Any],
    federation: Federation | Site,
    *,
    name: str,
    evaluation: Evaluation | None = None,
    alone: Estimate | None = None,
) -> dict[str, str]:
    """A page for every owner of columns who is here; only whoever simulates all parties can make them all.

    What the label holder's own columns alone would have is for it, and figures by scores with noise for who has them.
    """
    scored = evaluation if evaluation is not None and (evaluation.estimate or evaluation.reason) else None
    pages = {}
    for party, aligned in run.aligned.items():
        traffic, ledger = run.outcome.traffic[party], ledger_facts(federation.ledgers[party])
        sent: Counter[str] = Counter()
        for (_, step), size in traffic.sent.items():
            sent[step] += size
        own = alone if party == run.plan.group.active else None
        network = scored if scored is not None and scored.receiver == party else None
        pages[party] = render(
            "party.html",
            {"name": name, "party": party, "run": run.name, "ledger": ledger},
            run=run.name,
            clipping=aligned.table.clipping,
            steps=[
                (step, sent[step], traffic.seconds.get(step, 0.0))
                for step in dict.fromkeys([*traffic.seconds, *sent])
            ],
            totals=merged(ledger.totals),
            network=network,
            network_figures=_figures(None if network is None else network.estimate),
            alone=_figures(own),
            alone_model="linear regression" if isinstance(own, NumberEstimate) else "logistic regression",
        )
    return pages


def _figures(estimate: Estimate | None) -> Section | None:
    return None if estimate is None else evaluation_section(estimate_facts(estimate), drawn=False)


REPORT = "report.html"
PAGE = "html"


def write_run(
    folder: Path,
    trained: TrainedRun,
    place: Federation | Site,
    *,
    forecast: Forecast | None = None,
    seconds: float | None = None,
) -> RunRecord:
    """Everything that a run leaves with those who are here; `forecast` was made of it, on public data alone."""
    job, run, first = trained.job, trained.run, trained.models[0]
    learnt, measured = first.model_facts, first.measured
    record = run_facts(run, place, name=job.name, model_facts=learnt, measured=measured, notes=trained.notes)
    more: dict[str, Any] = {"time": now()}
    if trained.result is not None:
        keep_result(folder, job, run, trained.result, first.model)
        more |= write_labels(folder, job.method, run.name, trained.result, trained.models)
    if trained.evaluation is not None and trained.evaluation.receiver is None:
        more["evaluated"] = evaluation_facts(trained.evaluation)
    if forecast is not None and seconds is not None:
        more["forecast"] = forecast_facts(forecast, run, seconds=seconds, measured=first.measured)
    record = record.model_copy(update={**more, "requested": requested_facts(job, run.plan.group)})
    keep_people(folder, run.aligned, run=run.name)
    # Each page is for its own party: from a folder with several it leaves with nobody else.
    pages = party_pages(run, place, name=job.name, evaluation=trained.evaluation, alone=trained.alone)
    for party, page in pages.items():
        write_whole(own_file(folder, party, PAGE), page, own=True)
    for party in run.aligned:
        if party in run.outcome.log:
            recorded = {"member": party, "job": job.name, "id": "", "resumes": "", "state": "finished"}
            outcome = {**recorded, **run.summary_for(party), **outcome_note(learnt, trained.failure)}
            write_whole(own_file(folder, party, OUTCOME), sealed_text(outcome) + "\n", own=True)
            log = "".join(f"{line}\n" for line in run.outcome.log[party])
            write_whole(own_file(folder, party, LOG), log, own=True)
    write_report(folder, record)
    (folder / PAID).unlink(missing_ok=True)
    return record


def write_labels(
    folder: Path, method: str, run: str, result: TrainingResult, trained: Sequence[Trained]
) -> dict[str, list[records.LabelRecord]]:
    """Of a release with several labels a model of each in its own file; the first's facts stand with the run's."""
    if not isinstance(result, MomentRelease) or not result.more_labels:
        return {}
    listed: list[records.LabelRecord] = []
    for place, (name, one) in enumerate(zip(result.label_names, trained, strict=True)):
        file = MORE_MODELS.format(number=place + 1) if place else MODEL
        if place and isinstance(one.model, Model):
            model_file(one.model, method=method, run=run).save(folder / file)
        learnt: dict[str, Any] = (
            {"model_facts": records.ModelFactsRecord.model_validate(one.model_facts)} if place else {}
        )
        listed.append(
            records.LabelRecord(
                label=name,
                kind=result.for_label(name).label.kind,
                model=None if one.failure is not None else file,
                measured=one.measured,
                failure=None if one.failure is None else one.failure.text,
                **learnt,
            )
        )
    return {"labels": listed}


def keep_paid(
    folder: Path, job: Job, run: Run[Any], place: Federation | Site, result: TrainingResult
) -> None:
    """What was paid for, on the disk at once: of it `colonnade recover` makes the rest. Done once."""
    if (folder / PAID).exists():
        return
    keep_opened(folder, job, run, result)
    more = {"time": now(), "requested": requested_facts(job, run.plan.group)}
    record = run_facts(run, place, name=job.name, model_facts={}).model_copy(update=more)
    recorded = {"format": FORMAT, "facts": record.to_data(), "components": job.components}
    write_whole(folder / PAID, json_text(recorded))


def write_report(folder: Path, record: RunRecord) -> None:
    """The page, and the record behind it, which comes last: a folder that has it is whole."""
    write_whole(folder / REPORT, run_page(record))
    write_whole(folder / FACTS, sealed_text(record.to_data()))


def requested_facts(job: Job, group: Group) -> records.RequestRecord:
    """What the parties agreed to run, so that it can be audited from this record; all of it is in the job."""
    return records.RequestRecord(
        method=job.method,
        task=job.task,
        epsilon=job.epsilon,
        gamma=job.gamma,
        options=job.options.model_dump(mode="json", exclude_unset=True),
        parties=list(group.owners),
        active=group.active,
        server=group.server,
        computing_parties=list(group.computing_parties),
        threshold=group.threshold,
        disclosed_noise=group.disclosed_noise,
        **({} if job.held_out is None else {"held_out": job.held_out}),
    )
