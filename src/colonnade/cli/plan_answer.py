"""What `colonnade plan` answers: what a job would promise, cost and bring by every method, as facts and as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from colonnade.crypto.modular import usable_cores
from colonnade.data.declaring import nearest_name
from colonnade.data.schema import PublicSchema, Schema
from colonnade.errors import InputError, JobError
from colonnade.evaluation.held_out import holdout_text
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile, party_files
from colonnade.federation.train import prefix_job_errors
from colonnade.methods.functional.method import notes_on
from colonnade.methods.functional.plan import FunctionalPlan
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.table import default_method, method_named, methods_for
from colonnade.planning import forecast, recommend
from colonnade.planning.machine import Matching, NetworkLink, measured_machine
from colonnade.planning.pilot import PilotRuns
from colonnade.privacy.observers import observer_text
from colonnade.protocols.plans import Plan, TrainingSpec
from colonnade.report.facts import guarantee_facts
from colonnade.report.plain import duration_text, lines_text, size_text, spent_text, table_lines, wrapped
from colonnade.report.record import GuaranteeRecord
from colonnade.report.text import guarantee_lines

HERE = NetworkLink(math.inf, 0.0)


def plan_facts(
    job: Job,
    schemas: Mapping[str, PublicSchema],
    *,
    files: Mapping[str, PartyFile],
    rows: int,
    sizes: Mapping[str, int],
    named: frozenset[str] | None,
    advance: forecast.Advance,
    simulated: bool = True,
    effort: float = 2.0,
    line: NetworkLink = HERE,
    measured: bool = False,
) -> dict[str, Any]:
    """The plan of a job for so many common people, and what it and the `named` methods would cost and bring.

    Those whom the job holds out are not trained on. Without `named` it is every method that may be recommended.
    With `measured` the facts say how quick this machine is. No row is read, and no ledger is written.
    """
    trained, chosen = forecast.trained_on(rows, job.held_out), forecast.left_open(job)
    # Trials that choose the method are a part, each method is one, and the last is to compare them.
    work = forecast.Work(advance, chosen + len(recommend.able_methods(job, named)) + 1)
    with prefix_job_errors(job):
        job = forecast.settle(job, recommend.group_of(job, schemas), schemas, rows=trained)
    if chosen:
        work.done()
    plan = recommend.plan_job(job, schemas, rows=trained)
    pilot_runs = PilotRuns(schemas, effort=effort)
    matching = Matching(plan.group, schemas, job.alignment, rows, sizes)
    look = recommend.Candidates(job, plan, schemas, files, pilot_runs, matching)
    entries = look.all(named, simulated=simulated, work=work)
    spec = TrainingSpec(job.task, job.epsilon)
    exact = pilot_runs.error_without_privacy(spec, plan, job.components) if simulated else None
    usual, _ = default_method(job.task, plan.group, epsilon=job.epsilon, delta=job.delta, gamma=job.gamma)
    recommended, why = recommend.choose(entries, usual=usual, lead=forecast.least_lead(job.task))
    work.done()
    machine = measured_machine() if measured else {"cores": usable_cores()}
    bandwidth = line.bandwidth if math.isfinite(line.bandwidth) else None
    # In which way ids are matched, and what that is of the forecast; nothing where they are simply equal.
    way, cost = matching.by(plan), matching.cost(plan)
    matched = None
    if way is not None and cost is not None:
        matched = {"by": way, "bytes": cost.bytes_sent, "seconds": cost.seconds + line.seconds(cost)}
    return {
        **_promise_facts(job, schemas, plan, entries[0], files=files),
        "common": rows,
        "people": dict(sizes),
        "matching": matched,
        "methods": [_method_facts(item, line) for item in entries],
        "error": forecast.ERRORS[job.task],
        "without_privacy": exact,
        "recommended": recommended,
        "why": why,
        "line": {"bandwidth": bandwidth, "latency": line.latency},
        "machine": machine,
        "rehearsed_on": machine,
    }


def _promise_facts(
    job: Job,
    schemas: Mapping[str, PublicSchema],
    plan: Plan,
    own: recommend.Candidate,
    *,
    files: Mapping[str, PartyFile],
) -> dict[str, Any]:
    features = recommend.features_of(job.task, schemas)
    return {
        "name": job.name,
        "task": job.task,
        "method": job.method,
        "because": job.because,
        "rows": plan.rows,
        "held_out": job.held_out,
        "evaluation": holdout_text(job),
        "alignment": job.alignment,
        "features": features,
        "epsilon": job.epsilon,
        "delta": plan.delta,
        "plan": {"hash": plan.hash, **plan.to_data()},
        "guarantees": [guarantee_facts(item).to_data() for item in plan.guarantees],
        **_noise_facts(plan, own),
        **({"block_lines": list(notes_on(plan))} if isinstance(plan, FunctionalPlan) else {}),
        "expected": forecast.expected_loss(plan),
        "coding": recommend.coding_advice(plan),
        "held": 8 * plan.rows * sum(len(schema.columns) for schema in schemas.values()),
        "budgets": [asdict(answer) for answer in own.answers],
        "warnings": [
            *recommend.refusals_for(job, plan, files),
            *recommend.warnings_for(plan, job.epsilon, features),
        ],
    }


def _method_facts(item: recommend.Candidate, line: NetworkLink) -> dict[str, Any]:
    """One method's promise and forecast, its seconds with the stated line."""
    facts: dict[str, Any] = {"method": item.method.name, "title": item.method.title}
    facts |= {"admitted": item.admitted, "reason": item.reason, "passed": item.passed}
    promised = () if item.plan is None else item.plan.guarantees
    facts["guarantees"] = [guarantee_facts(one).to_data() for one in promised]
    prediction = item.forecast
    if prediction is None:
        return facts | {"forecast": None}
    work, sent = prediction.cost.seconds, line.seconds(prediction.cost)
    foretold = {**prediction.to_data(), "seconds": work + sent, "computing": work, "sending": sent}
    return facts | {"forecast": foretold}


def _noise_facts(plan: Plan, own: recommend.Candidate) -> dict[str, Any]:
    noise = None if own.forecast is None else own.forecast.noise
    if noise is None:
        return {}
    facts: dict[str, Any] = {"standard_deviation": noise.deviation, "on": noise.on}
    if isinstance(plan, MomentsPlan | FunctionalPlan):
        # One person moves a moment of two columns by at most 1/m; in the box of the functional mechanism by 1.
        boxed = isinstance(plan, FunctionalPlan) and plan.options.domain != "ball"
        facts["people"] = noise.deviation * (1 if boxed else plan.attributes)
    if isinstance(plan, MomentsPlan) and plan.several:
        facts["labels"] = [block.label.column for block in plan.labels.blocks if block.label is not None]
    return {"noise": facts}


HEAD = ("method", "error", "ε ≤", "sent", "rounds", "time", "memory", "budgets")
_WAYS = {"curve": "on a curve", "server": "through the server"}
_UNLESS = (
    ' By methods in which it keeps no share, and where a policy does not name "server" under alignment, they are '
    "matched on a curve, which takes far longer."
)
_CHECKED = {
    "all": (
        'Everything that is dealt, verify = "all": two computing parties check the norm of every row, and every '
        "product before it is used. Whatever is not proved stops the run before it is opened."
    ),
    "rows": (
        'Rows, verify = "rows": two computing parties check that no row an owner deals is longer than agreed. '
        "Whatever is not proved stops the run before it is opened."
    ),
    "none": 'Nothing that is dealt, verify = "none": the guarantees suppose that everybody runs this protocol.',
}
_COULD = (
    ' verify = "{}" in the job asks for checks; those that take more than two and a half times the time are not made '
    "by default."
)
_SAID = {True: "yes", False: "no", None: "not known"}


def _checked(plan: dict[str, Any]) -> str:
    verify = plan.get("verify", "none")
    if verify != "none" or "verify" not in plan or plan["threshold"] > 1:
        return _CHECKED[verify]
    products = plan["spec"]["method"] == "margin" or plan["spec"].get("conditional", False)
    return _CHECKED[verify] + _COULD.format("all" if products else "rows")


def plan_text(facts: dict[str, Any], columns: int | None, *, verbose: bool = False) -> str:
    """The whole plan; `verbose` has every statement as its sentence too, and noise and ε of every method."""
    lines = wrapped([plan_line(facts)], columns, indent="")
    lines.append(f"  {facts['features']} features, plan {facts['plan']['hash'][:12]}")
    if facts["because"]:
        said = f"The job names no method, so it takes {facts['method']}: {facts['because']}."
        lines += wrapped([said], columns)
    if facts["warnings"]:
        lines += ["", "Warnings", *wrapped(facts["warnings"], columns, bullet="- ")]
    lines += ["", "What each observer could learn at most"]
    owners = list(facts["plan"]["schemas"])
    guarantees = [GuaranteeRecord.model_validate(item) for item in facts["guarantees"]]
    lines += guarantee_lines(guarantees, owners, columns, verbose=verbose)
    lines += ["", "Checked", *wrapped([_checked(facts["plan"])], columns)]
    lines += _noise_lines(facts, columns)
    lines += _expected_lines(facts, columns)
    if "block_lines" in facts:
        lines += ["", "Blocks of the objective", *wrapped(facts["block_lines"], columns, bullet="- ")]
    if facts["coding"]:
        lines += ["", "Coding", *wrapped([facts["coding"]], columns)]
    lines += ["", "Methods for this job"]
    lines += table_lines(method_rows(facts["methods"], facts["recommended"]), columns)
    lines += ["", *wrapped(notes(facts, verbose=verbose), columns)]
    lines += ["", "Recommended" if facts["recommended"] else "No recommendation"]
    named = f"{facts['recommended']}. " if facts["recommended"] else ""
    lines += wrapped([f"{named}{facts['why']}"], columns)
    budgets = [(item["party"], _SAID[item["admits"]], item["reason"]) for item in facts["budgets"]]
    lines += ["", "Budgets", *table_lines(budgets, columns, heads=False)]
    return lines_text([*lines, "", "Nothing was run or charged."])


def plan_line(facts: dict[str, Any]) -> str:
    """The plan in one line: what, by which method, the largest ε, what budgets say, and the expected error."""
    said = [f"{facts['task']} by {facts['method']} on {facts['rows']} people"]
    if facts["guarantees"]:
        worst = max(facts["guarantees"], key=lambda item: float(item["epsilon"]))
        said.append(f"ε at most {spent_text(worst['epsilon'])}, for {observer_text(worst['observer'])}")
    refusing = [item["party"] for item in facts["budgets"] if item["admits"] is False]
    known = all(item["admits"] for item in facts["budgets"])
    admitted = "every budget admits it" if known else "not every budget is known here"
    said.append(f"refused by the budget of {' and '.join(refusing)}" if refusing else admitted)
    prediction = facts["methods"][0]["forecast"]
    if prediction is not None and prediction["expected"] is not None:
        exact = facts["without_privacy"]
        alongside = "" if exact is None else f" ({exact:.3f} without privacy)"
        said.append(f"error {prediction['expected']['error']:.3f} on synthetic people{alongside}")
    return f"{facts['name']}: {'; '.join(said)}."


def _noise_lines(facts: dict[str, Any], columns: int | None) -> list[str]:
    noise = facts.get("noise")
    if noise is None:
        return []
    sentence = f"Noise of standard deviation {noise['standard_deviation']:.3g} on {noise['on']}."
    if "people" in noise:
        people, rows = noise["people"], facts["rows"]
        share = f"{people / rows:.2g} of the {rows} who take part"
        sentence += f" {people:,.0f} people could move it as far at most, {share}."
    labels = noise.get("labels", ())
    said = [
        f"One release is for {len(labels)} labels ({', '.join(labels)}), at the ε of one: sums of a label carry "
        f"{len(labels) ** 0.5:.2g} times the noise that they would have if it were alone, and counts {len(labels)} "
        "times; what is said of columns carries the same."
    ]
    return ["", "Noise", *wrapped([sentence, *(said if labels else [])], columns)]


def _expected_lines(facts: dict[str, Any], columns: int | None) -> list[str]:
    expected = facts["expected"]
    if expected is None:
        return []
    lost, low, high = (f"{100 * expected[name]:.1f}" for name in ("lost", "low", "high"))
    if expected["lost"] > forecast.PAST_THE_LAW:
        points = f"{100 * forecast.PAST_THE_LAW:.0f} points"
        said = f"More than {points} of accuracy are lost to noise: such a model says little."
    elif expected["lost"] < forecast.HALF_A_POINT:
        said = f"Less than half a point of accuracy is lost to noise, {high} at most on four tables in five."
    else:
        said = f"About {lost} points of accuracy are lost to noise, {low} to {high} on four tables in five."
    people = f"{float(format(expected['people_for_a_point'], '.2g')):,.0f}"
    said += f" With {people} people most tables lose less than a point (docs/plan.md)."
    return ["", "What to expect", *wrapped([said], columns)]


def method_rows(methods: list[dict[str, Any]], recommended: str | None) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [HEAD]
    for item in methods:
        prediction, name = item["forecast"], item["method"]
        if prediction is None:
            continue
        expected = prediction["expected"]
        error = "not known" if expected is None else f"{expected['error']:.3f}"
        if expected is not None and expected["spread"] is not None:
            error += f" ± {expected['spread']:.3f}"
        spent = [math.inf if each["epsilon"] is None else each["epsilon"] for each in item["guarantees"]]
        named = f"{name} *" if name == recommended else name
        cost = size_text(prediction["bytes"]), str(prediction["rounds"]), duration_text(prediction["seconds"])
        most = spent_text(max(spent, default=math.inf))
        rows.append((named, error, most, *cost, size_text(prediction["memory"]), _SAID[item["admitted"]]))
    return rows


def notes(facts: dict[str, Any], *, verbose: bool = True) -> list[str]:
    """How to read the table, and what is missing from it; `verbose` has noise and ε of every method too."""
    methods, line = facts["methods"], facts["line"]
    predictions = {item["method"]: item["forecast"] for item in methods if item["forecast"] is not None}
    known = {name: each["expected"] for name, each in predictions.items() if each["expected"] is not None}
    notes = []
    if known:
        exact = facts["without_privacy"]
        against = "" if exact is None else f" A model without privacy has {exact:.3f}."
        notes.append(
            f"Error: {facts['error']}, simulated on synthetic people with the declared columns; the real one depends "
            f"on the real people, the order of methods less so.{against}"
        )
    areas = [f"{name} {each['auc']:.3f}" for name, each in known.items() if each["auc"] is not None]
    if areas:
        notes.append(
            f"AUC on the same people: {', '.join(areas)}. Synthetic classes are equally common; where one is rare, "
            "compare AUC: a model that never finds it also has a small error."
        )
    fewer = {each["rows"] for each in known.values() if each["rows"] < facts["rows"]}
    if fewer:
        notes.append(f"Simulated on {max(fewer):,} people, so that the error is an upper figure.")
    for name in (name for name in predictions if name not in known):
        notes.append(f"No prediction of the error of {name}: {predictions[name]['unknown']}.")
    notes += [f"{item['method']} cannot do this job: {item['reason']}" for item in methods if item["reason"]]
    passed = [f"{item['method']}: {item['passed']}" for item in methods if item["passed"]]
    if passed:
        notes.append(f"Not rehearsed, unless --methods names them or says all. {'; '.join(passed)}.")
    if verbose:
        notes += _noise_notes(methods)
    elif len(predictions) > 1:
        notes.append("The noise of each method, and its ε by observer, are shown with --verbose.")
    if any(each["unit"].startswith("columns:") for item in methods for each in item["guarantees"]):
        notes.append("ε about all of a party's columns (columns:NAME) is stated: no budget is kept for it.")
    if facts["held_out"]:
        notes.append(
            f"Of {facts['common']:,} people in common {facts['held_out']:g} are held out. {facts['evaluation']}"
        )
    if facts["alignment"] == "auto" and set(facts["people"].values()) == {facts["common"]}:
        notes.append(
            "Everybody is taken to hold the same people in the same order. If not, ids are matched, which sends more "
            "and takes longer: say with --held how many people each party holds."
        )
    if facts["matching"] is not None:
        matching = facts["matching"]
        listed = ", ".join(f"{party} {count:,}" for party, count in facts["people"].items())
        notes.append(
            f"Ids are matched {_WAYS[matching['by']]} (alignment {facts['alignment']}; {listed}): "
            f"{size_text(matching['bytes'])} and {duration_text(matching['seconds'])} of the figures of "
            f"{facts['method']}."
            + (_UNLESS if matching["by"] == "server" and facts["alignment"] == "auto" else "")
        )
    wide = "" if line["bandwidth"] is None else f"{line['bandwidth'] / 1e6:g} Mbit a second, "
    lines = "all parties in one process"
    if wide or line["latency"]:
        lines = f"{wide}{1e3 * line['latency']:g} ms from party to party"
    parts = [name for name, each in predictions.items() if each["rehearsed"] != "whole"]
    inferred = f" Rehearsed in part: {', '.join(parts)}." if parts else ""
    notes.append(
        f"Time on this machine, {facts['machine']['cores']} cores, {lines}. Memory is that of all parties' arrays, "
        f"with {size_text(facts['held'])} of matched rows on top.{inferred}"
    )
    return notes


def _noise_notes(methods: list[dict[str, Any]]) -> list[str]:
    noises = [
        f"{item['method']}: {item['forecast']['noise']['standard_deviation']:.3g} on {item['forecast']['noise']['on']}"
        for item in methods
        if item["forecast"] is not None and item["forecast"]["noise"] is not None
    ]
    said = [f"Noise, standard deviation. {'; '.join(noises)}."] if noises else []
    for item in methods:
        seen = [
            f"{each['observer']} {spent_text(each['epsilon'])} ({each['unit']})"
            for each in item["guarantees"]
        ]
        said += [f"ε of {item['method']}: {', '.join(seen)}."] if seen else []
    return said


def network_line(bandwidth: float | None, latency: float) -> NetworkLink:
    if bandwidth is not None and not (math.isfinite(bandwidth) and bandwidth > 0):
        raise InputError(f"--bandwidth: found {bandwidth:g}; it must be a number of Mbit a second above 0.")
    if not (math.isfinite(latency) and latency >= 0):
        raise InputError(f"--latency: found {latency:g}; it must be a number of milliseconds from 0.")
    return NetworkLink(math.inf if bandwidth is None else bandwidth * 1e6, latency / 1e3)


def declared(job: Job, given: list[Path]) -> tuple[dict[str, PartyFile], dict[str, PublicSchema]]:
    """The parties' own files, as far as they are here, and every party's schema."""

    def alone(party: str) -> Path:
        return job.path.parent / f"{party}.schema.toml"

    absent = {
        party
        for party in job.parties
        if not given and not (job.path.parent / f"{party}.toml").exists() and alone(party).exists()
    }
    files = party_files(job, given, among=[party for party in job.parties if party not in absent])
    paths = {party: files[party].schema if party in files else alone(party) for party in job.parties}
    return files, {party: Schema.load(path).public(party) for party, path in paths.items()}


def counted_rows(job: Job, files: Mapping[str, PartyFile]) -> dict[str, int]:
    missing = [party for party in job.parties if party not in files]
    if missing:
        raise JobError(
            f"--count needs the own file of {', '.join(missing)}. Give it with --party, or use --rows."
        )
    return {party: files[party].table().rows for party in job.parties}


def party_sizes(job: Job, given: list[str], common: int) -> dict[str, int]:
    """How many people each party holds: those in common, unless --held says more."""
    sizes = dict.fromkeys(job.parties, common)
    for text in given:
        party, _, number = text.partition("=")
        if party not in sizes:
            raise InputError(
                f"--held {text}: {party!r} is not among the parties ({', '.join(job.parties)})."
                + nearest_name(party, job.parties)
            )
        if not number.isdecimal() or int(number) < common:
            raise InputError(
                f"--held {text}: wanted {party}= and a number from {common}, which all parties have in common."
            )
        sizes[party] = int(number)
    return sizes


def named_methods(job: Job, listed: str | None) -> frozenset[str] | None:
    """The methods that were asked for beside the job's own; None for those that may be recommended."""
    if listed is None:
        return None
    if listed.strip() == "all":
        return frozenset(method.name for method in methods_for(job.task))
    names = [name.strip() for name in listed.split(",") if name.strip() and name.strip() != "none"]
    return frozenset(method_named(name, job.task, place="--methods").name for name in names)
