"""The record of a run as lines that can be read without colour: verdict first, then labels and detail."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from colonnade.data.declaring import nearest_name
from colonnade.errors import LabelMismatch
from colonnade.privacy.guarantee import delta_text
from colonnade.privacy.observers import about_text, joined, observer_text, observers_text, unit_text
from colonnade.report import evaluation, plain
from colonnade.report import record as records
from colonnade.report.plain import Section
from colonnade.report.record import RunRecord

_TASKS = {"classes": "classification", "real": "regression", "count": "regression"}


def labels_section(record: RunRecord) -> Section | None:
    """Of a run with several labels a row for each: learnt as what, how good its model is, and where."""
    rows = []
    for place, one in enumerate(record.labels):
        measured = plain.measured_rows(record.model_copy(update={"measured": one.measured}))
        evaluated = one.evaluated or (place == 0 and record.evaluated)
        quality = "evaluated on the people held out" if evaluated else "not measured"
        if one.failure is not None:
            quality = f"no model: {one.failure}"
        elif measured:
            quality = ", ".join(f"{name} {value}" for name, value in measured)
        rows.append((one.label, _TASKS[one.kind], quality, one.model or ""))
    heads = ("label", "learnt as", "how good it is", "model")
    return Section("A model of each label, at no further cost", [heads, *rows]) if rows else None


def record_of_label(record: RunRecord, label: str | None) -> RunRecord:
    """A run's record with the model of one label in the first's place, without the evaluation of the first."""
    if label is None:
        return record
    schemas = record.plan.get("schemas", {}).values()
    only = [schema["label"]["column"] for schema in schemas if "label" in schema]
    names = [one.label for one in record.labels] or only
    if label not in names:
        raise LabelMismatch(
            f"--label: this run has no model of {label!r}. It learnt {joined(names) or 'no label'}."
            + nearest_name(label, names)
        )
    if label == names[0]:
        return record
    first, *others = record.labels
    one = next(one for one in others if one.label == label)
    failed = [] if one.failure is None else [f"No model of {label} was learnt: {one.failure}"]
    # What stood only with the first is left out, and not written as missing.
    kept = {name: getattr(record, name) for name in record.model_fields_set - {"evaluated", "forecast"}}
    return RunRecord.model_construct(
        **kept
        | {
            "labels": [first.model_copy(update={"evaluated": record.evaluated is not None}), *others],
            "task": _TASKS[one.kind],
            "model_facts": one.model_facts,
            "measured": one.measured,
            "notes": [f"This is the model of {label}, in {one.model or 'no file'}.", *failed],
        }
    )


def brought_text(party: records.PartyRecord) -> str:
    count, labels = len(party.columns), "the label" if party.labels is None else f"{party.labels} labels"
    columns = "1 column" if count == 1 else f"{count} columns"
    return f"{columns} and {labels}" if party.holds_label else columns


NON_PRIVATE = "non-private model, accuracy on people held out"
COMMONEST = "always the commonest class, accuracy on people held out"
_LEADING = ("accuracy", "AUC", "R²", "RMSE", "explained")
NOT_MEASURED = (
    "how good it is",
    "not measured",
    "the people are private, and a score of them would be another release",
)


def verdict(record: RunRecord) -> Section:
    overall = budgets_section(record.ledgers, private=record.private)
    tiles = [*overall.table, *(quality(record) or [NOT_MEASURED])]
    notes: tuple[str, ...] = ()
    if (item := worst(record)) is not None:
        who = f"{observer_text(item.observer)}, about {record.about(item)}"
        tiles.insert(0, ("largest ε of an observer", plain.spent_text(item.epsilon), who))
        notes = (meaning(item),)
    return Section(overall.title, tiles, notes, bad=overall.bad)


def budgets_section(ledgers: Mapping[str, records.LedgerRecord], *, private: bool = True) -> Section:
    accounts = [(party, total) for party, ledger in ledgers.items() for total in ledger.totals]
    over = [
        (party, total)
        for party, total in accounts
        if total.budget not in (None, math.inf)
        if total.epsilon is None or total.epsilon > _size(total.budget)
    ]
    headline = "Within every budget" if accounts else "No budget is known here"
    if not private:
        headline = "No privacy: the noise came from a seed"
    elif over:
        headline = f"Not within every budget: {account_text(*over[0])}"
    tiles = []
    if accounts:
        party, total = min(accounts, key=lambda item: _size(item[1].left))
        left = f"{plain.left_text(total.left)} of {plain.budget_text(total.budget)}"
        tiles = [("smallest ε left", left, account_text(party, total))]
    return Section(headline, tiles, bad=not private or bool(over))


def _size(value: float | None) -> float:
    return math.inf if value is None else value


def account_text(party: str, total: records.TotalRecord) -> str:
    about = unit_text(total.unit, owner=party)
    return f"{observer_text(total.observer)}, about {about}, in {party}'s ledger"


def worst(record: RunRecord) -> records.GuaranteeRecord | None:
    """The guarantee with the largest ε; None where nothing is guaranteed."""
    return max(record.guarantees, key=lambda item: _size(item.epsilon), default=None)


def meaning(item: records.GuaranteeRecord) -> str:
    """What ε says, as the attack that it bounds; all numbers rounded up.

    Whoever has to tell which of two neighbouring tables was used, and takes each for equally likely, is right with
    probability at most (e^ε + δ)/(1 + e^ε); and whatever it concludes has, with one table, at most e^ε times the
    probability that it has with the other, plus δ.
    """
    epsilon, delta = item.epsilon, item.delta
    who = observer_text(item.observer)
    if epsilon is None or math.isinf(epsilon):
        return f"ε = ∞: no proof bounds what {who} can learn about {unit_text(item.unit)}."
    growth = math.exp(min(epsilon, 700.0))
    right = min(1.0, 1.0 - (1.0 - delta) / (1.0 + growth))
    share = math.ceil(right * 1000) / 10
    factor = math.ceil(growth * 100) / 100 if growth < 1e4 else math.ceil(growth)
    grown = f"{factor:,.2f}" if growth < 1e4 else f"{factor:.1e}"
    which = "sets of columns a party" if item.unit.startswith("columns:") else "records a person"
    slack = f", plus δ = {delta_text(delta)}," if delta else ""
    return (
        f"ε = {plain.spent_text(epsilon)} bounds every attack: an attacker who sees what {who} saw and knows all other "
        f"rows guesses which of two {which} has at most {share:g} % of the time (50 % is chance), and concludes "
        f"nothing that is more than {grown} times as likely{slack} with the one as with the other."
    )


def quality(record: RunRecord) -> list[tuple[str, str, str]]:
    """What was measured, the figure, and what it is beside: the commonest class, and a model without privacy."""
    lines = []
    if record.evaluated is not None:
        rows = [row for row in evaluation.figure_rows(record.evaluated) if row[0].startswith(_LEADING)]
        constant = evaluation.baseline_text(record.evaluated).removesuffix(" alone")
        always = constant if constant.startswith("always") else f"always {constant}"
        lines += [(f"{name} on people held out", value, f"{always} {base}") for name, value, base in rows[:2]]
    measured = dict(plain.measured_rows(record))
    baselines = " · ".join(
        f"{said} {measured[name]}"
        for said, name in (("always the commonest class", COMMONEST), ("without privacy", NON_PRIVATE))
        if name in measured
    )
    return lines + [
        (name, value, baselines) for name, value in measured.items() if name not in (COMMONEST, NON_PRIVATE)
    ]


def verdict_line(record: RunRecord) -> str:
    overall, item = budgets_section(record.ledgers, private=record.private), worst(record)
    said = [f"{record.task} on {record.rows} people"]
    if item is not None:
        said.append(f"ε at most {plain.spent_text(item.epsilon)}, for {observer_text(item.observer)}")
    left = "".join(f", {value} left at least" for _, value, _ in overall.table if not overall.bad)
    said.append(overall.title[0].lower() + overall.title[1:] + left)
    for name, value, baselines in quality(record)[:1]:
        said.append(f"{name} {value}" + (f" ({baselines})" if baselines else ""))
    return f"{record.name}: {'; '.join(said)}."


TEXT_ROWS = 5
TEXT_COLUMNS = 8
NONE_STANDS_OUT = (
    "No single column stands out of the noise. Together they can still predict: what is said of one column depends on "
    "telling it apart from the others, and that is what the noise hides first."
)
SPLIT = "The weights stay with their parties: no party, and no server, has seen another's."
WOULD_HOLD = "With noise that nobody can reproduce, the same run would promise:"


def run_text(record: RunRecord, *, width: int | None = None, verbose: bool = False) -> str:
    """What a person wants to know after a run, the verdict first; `verbose` has what else the report has."""
    lines = plain.wrapped([verdict_line(record)], width, indent="")
    if verbose:
        brought = [(party.name, brought_text(party)) for party in record.parties]
        lines += [f"  run {record.run}", *plain.table_lines(brought, width, heads=False)]
    lines += ["", "What each observer can learn at most"]
    if record.warning:
        lines += plain.wrapped([record.warning, WOULD_HOLD], width)
    owners = [party.name for party in record.parties]
    lines += guarantee_lines(record.guarantees, owners, width, verbose=verbose)
    if record.measured:
        lines += ["", "How good it is, measured on data declared public"]
        lines += plain.table_lines(plain.measured_rows(record), width, heads=False)
    lines += plain.section_lines(labels_section(record), width)
    if record.evaluated is not None:
        lines += ["", evaluation.TITLE, *evaluation.evaluation_lines(record.evaluated, width)]
        lines += plain.wrapped([evaluation.evaluation_note(record.evaluated)], width)
    if record.notes:
        lines += ["", "Notes", *plain.wrapped(record.notes, width, bullet="- ")]
    lines += learnt_lines(record, width, verbose=verbose)
    lines += ["", "Budgets after this run", *budget_lines(record.ledgers.values(), width)]
    if verbose:
        sent = f"{plain.size_text(record.traffic.bytes)} in {record.traffic.rounds} rounds"
        lines += ["", f"Sent: {sent}, besides finding the common people."]
        lines += plain.section_lines(forecast_section(record), width)
        versions = ", ".join(f"{what} {version}" for what, version in record.versions.items())
        lines += [f"Made by {versions}."] if versions else []
    return plain.lines_text(lines)


def guarantee_lines(
    guarantees: Sequence[records.GuaranteeRecord], owners: Sequence[str], width: int | None, *, verbose: bool
) -> list[str]:
    """Who could learn how much about what, as a table; with `verbose` each as its exact sentence too."""
    rows = [
        (
            plain.spent_text(item.epsilon),
            delta_text(item.delta),
            observer_text(item.observer),
            about_text(item.observer, item.unit, owners),
            f"({item.unit})",
        )
        for item in guarantees
    ]
    lines = plain.table_lines([("ε", "at δ", "who", "about what", ""), *rows], width) if rows else []
    exact = [item.sentence for item in guarantees] if verbose else []
    return lines + plain.wrapped(exact, width, bullet="- ")


def forecast_section(record: RunRecord) -> Section | None:
    forecast = record.forecast
    if forecast is None:
        return None
    took, planned = (
        "not shown" if side.seconds is None else plain.duration_text(side.seconds)
        for side in (forecast.measured, forecast.predicted)
    )
    # The error foretold is that of synthetic people: beside one of the rows trained on it would say nothing.
    table = [
        ("what", "planned", "measured"),
        ("sent", plain.size_text(forecast.predicted.bytes), plain.size_text(forecast.measured.bytes)),
        ("rounds", str(forecast.predicted.rounds), str(forecast.measured.rounds)),
        ("time", planned, took),
    ]
    return Section("Plan against outcome", table, (forecast.note,))


def learnt_lines(record: RunRecord, width: int | None, *, verbose: bool = True) -> list[str]:
    """The columns that move the score most, with the noise's part in it; nothing where there is no model."""
    learnt, spectrum, lines = record.model_facts, record.spectrum, []
    if learnt.split:
        lines += ["", "What was learnt", *plain.wrapped([SPLIT], width)]
    lines += plain.wrapped(learnt.paper, width)
    if learnt.by_column:
        unit = "log-odds" if record.task == "classification" else "units of the label"
        lines += ["", f"What was learnt: what a column adds over its range, in {unit}"]
    for row in learnt.by_column[:TEXT_ROWS]:
        lines += [f"  towards {row.row}"] if len(learnt.by_column) > 1 else []
        effects = []
        for column in row.columns[:TEXT_COLUMNS]:
            ends = (f"{plain.signed_text(end.effect, end.half_width)} at {end.at}" for end in column.ends)
            doubt = "within noise" if learnt.intervals and not column.clear else ""
            effects.append((column.column, column.owner, *ends, doubt))
        lines += plain.table_lines(effects, width, heads=False)
    notes = []
    if verbose and learnt.by_column and learnt.intervals:
        notes.append(learnt.intervals.covers)
    if learnt.by_column and learnt.none_stands_out:
        notes.append(NONE_STANDS_OUT)
    if verbose and learnt.rule:
        notes.append(learnt.rule["reason"])
    if learnt.classes:
        counts = ", ".join(f"{name} {count:.0f}" for name, count in learnt.classes.items())
        each = f" (± {2 * learnt.count_noise:.0f} each)" if learnt.count_noise else ""
        notes.append(f"Noisy class counts: {counts}{each}.")
    if verbose and spectrum is not None:
        rank, directions = spectrum.learnable_rank, len(spectrum.eigenvalues)
        stands = f"{'stands' if rank == 1 else 'stand'} out of the noise"
        above = f"(eigenvalue above {spectrum.edge:.3g})"
        notes.append(f"Learnable rank: {rank} of {directions} directions {stands} {above}.")
    return lines + plain.wrapped(notes, width)


def declared_text(column: Mapping[str, object]) -> str:
    sentence = [str(column["kind"])]
    for key, value in column.items():
        if key in ("name", "column", "kind") or value is False or value in (None, "none", "", []):
            continue
        shown = ", ".join(str(item) for item in value) if isinstance(value, list | tuple) else str(value)
        sentence.append(f"{key} {shown}")
    return ", ".join(sentence)


def budget_lines(ledgers: Iterable[records.LedgerRecord], width: int | None = None) -> list[str]:
    """A table of every account of these ledgers, equal ones as one: ε spent rounded up, ε left rounded down."""
    rows, bare = [], []
    for ledger in ledgers:
        if not ledger.totals:
            bare.append(f"  {ledger.party}: no account has been charged yet.")
        for account in plain.merged(ledger.totals):
            total = account.total
            rows.append(
                (
                    ledger.party,
                    total.dataset,
                    observers_text(account.observers),
                    f"{unit_text(total.unit, owner=ledger.party)} ({total.unit})",
                    f"{plain.spent_text(total.epsilon)} of {plain.budget_text(total.budget)}",
                    plain.left_text(total.left),
                    delta_text(total.delta),
                    "" if total.private else "seeded noise: no privacy",
                )
            )
        bare += plain.wrapped((exact_text(ledger.party, item) for item in ledger.exact), width)
        bare += plain.wrapped(_otherwise(ledger), width)
    heads = ("party", "data set", "who could learn", "about what", "ε spent", "ε left", "at δ", "")
    datasets = {row[1] for row in rows}
    if len(datasets) == 1:
        # One name in every row would only take room.
        named = [f"  Data set: {plain.one_line(rows[0][1])}"]
        return [*named, *plain.table_lines([row[:1] + row[2:] for row in (heads, *rows)], width), *bare]
    return (plain.table_lines([heads, *rows], width) if rows else []) + bare


def _otherwise(ledger: records.LedgerRecord) -> list[str]:
    """That parts of a data set were not cut as before, and what that does to the totals."""
    sentence = []
    for dataset in sorted({total.dataset for total in ledger.totals if total.otherwise}):
        releases = max(total.otherwise for total in ledger.totals if total.dataset == dataset)
        many, verb = ("1 release", "it counts") if releases == 1 else (f"{releases} releases", "they count")
        clause = f"cut {ledger.party}'s people otherwise than the first"
        sentence.append(f"{many} of {dataset!r} {clause}, so {verb} for everybody.")
    return sentence


def exact_text(party: str, item: records.ExactRecord) -> str:
    """What left without noise, and what that does to the totals."""
    people = "1 person" if item.people == 1 else f"{item.people} people"
    return (
        f"Besides, {party}'s part of the exact scores of {people} of {item.dataset!r} went to {item.receiver}: "
        "no ε covers them."
    )
