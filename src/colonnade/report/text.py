"""Facts as lines that can be read without colour: verdict first, then labels and detail."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from colonnade.data.declaring import nearest_name
from colonnade.errors import LabelMismatch
from colonnade.privacy.guarantee import delta_text
from colonnade.privacy.observers import about_text, joined, observer_text, observers_text, unit_text
from colonnade.report import evaluation, plain
from colonnade.report.facts import Facts

HEADS = ("label", "learnt as", "how good it is", "model")
_TASKS = {"classes": "classification", "real": "regression", "count": "regression"}


def label_rows(facts: Facts) -> list[tuple[str, str, str, str]]:
    """Under heads a row for each label of a run with several: learnt as what, how good its model is, and where."""
    rows = []
    for place, one in enumerate(facts.get("labels", ())):
        measured = plain.measured_rows({**facts, "measured": one["measured"]})
        evaluated = one.get("evaluated") or (place == 0 and facts.get("evaluated"))
        quality = "judged on the people held out" if evaluated else "not measured"
        if one["failure"] is not None:
            quality = f"no model: {one['failure']}"
        elif measured:
            quality = ", ".join(f"{name} {value}" for name, value in measured)
        rows.append((one["label"], _TASKS[one["kind"]], quality, one["model"] or ""))
    return [HEADS, *rows] if rows else []


def facts_of_label(facts: Facts, label: str | None) -> Facts:
    """A run's facts with the model of one label in the first's place, without what was judged of the first."""
    if label is None:
        return facts
    labels = facts.get("labels", ())
    schemas = facts.get("plan", {}).get("schemas", {}).values()
    only = [schema["label"]["column"] for schema in schemas if "label" in schema]
    names = [one["label"] for one in labels] or only
    if label not in names:
        raise LabelMismatch(
            f"--label: this run has no model of {label!r}. It learnt {joined(names) or 'no label'}."
            + nearest_name(label, names)
        )
    if label == names[0]:
        return facts
    one = next(one for one in labels if one["label"] == label)
    kept = {key: value for key, value in facts.items() if key not in ("evaluated", "forecast")}
    failed = [] if one["failure"] is None else [f"No model of {label} was learnt: {one['failure']}"]
    return {
        **kept,
        "labels": [{**labels[0], "evaluated": bool(facts.get("evaluated"))}, *labels[1:]],
        "task": _TASKS[one["kind"]],
        "learnt": one.get("learnt", {}),
        "measured": one["measured"],
        "notes": [f"This is the model of {label}, in {one['model'] or 'no file'}.", *failed],
    }


def brought_text(party: Facts) -> str:
    count, labels = len(party["columns"]), f"{party['labels']} labels" if "labels" in party else "the label"
    columns = "1 column" if count == 1 else f"{count} columns"
    return f"{columns} and {labels}" if party["holds_label"] else columns


NON_PRIVATE = "non-private model, accuracy on people held out"
COMMONEST = "always the commonest class, accuracy on people held out"
_LEADING = ("accuracy", "AUC", "R²", "RMSE", "explained")


def verdict(facts: Facts) -> Facts:
    """The verdict of a run's facts: `kept` is whether every budget holds, the rest are words."""
    accounts = [(party, total) for party, ledger in facts["ledgers"].items() for total in ledger["totals"]]
    over = [
        (party, total)
        for party, total in accounts
        if total["budget"] not in (None, math.inf)
        if total["epsilon"] is None or total["epsilon"] > total["budget"]
    ]
    said: Facts = {
        "kept": facts["private"] and not over,
        "headline": "Within every budget",
        "left": "",
        "left_of": "",
        "worst": worst(facts),
        "quality": quality(facts),
        "time": str(facts.get("time", ""))[:16].replace("T", " "),
        "run": facts["run"],
    }
    if not facts["private"]:
        said["headline"] = "No privacy: the noise came from a seed"
    elif over:
        party, total = over[0]
        said["headline"] = f"Not within every budget: {account_text(party, total)}"
    elif not accounts:
        said["headline"] = "No budget is known here"
    if accounts:
        party, total = min(accounts, key=lambda item: _size(item[1]["left"]))
        said["left"] = f"{plain.left_text(total['left'])} of {plain.budget_text(total['budget'])}"
        said["left_of"] = account_text(party, total)
    return said


def _size(value: float | None) -> float:
    return math.inf if value is None else value


def account_text(party: str, total: Facts) -> str:
    """One account of a party's ledger, as people say it."""
    about = unit_text(total["unit"], owner=party)
    return f"{observer_text(total['observer'])}, about {about}, in {party}'s ledger"


def worst(facts: Facts) -> Facts | None:
    """The guarantee with the largest ε, and what it bounds; None where nothing is guaranteed."""
    items = facts["guarantees"]
    if not items:
        return None
    item = max(items, key=lambda one: _size(one["epsilon"]))
    about = about_text(item["observer"], item["unit"], [party["name"] for party in facts.get("parties", ())])
    return {**item, "about": about, "meaning": meaning(item)}


def meaning(item: Facts) -> str:
    """What ε says, as the attack that it bounds; all numbers rounded up.

    Whoever has to tell which of two neighbouring tables was used, and takes each for equally likely, is right with
    probability at most (e^ε + δ)/(1 + e^ε); and whatever it concludes has, with one table, at most e^ε times the
    probability that it has with the other, plus δ.
    """
    epsilon, delta = item["epsilon"], item["delta"]
    who = observer_text(item["observer"])
    if epsilon is None or math.isinf(epsilon):
        return f"ε = ∞: no proof bounds what {who} can learn about {unit_text(item['unit'])}."
    growth = math.exp(min(epsilon, 700.0))
    right = min(1.0, 1.0 - (1.0 - delta) / (1.0 + growth))
    share = math.ceil(right * 1000) / 10
    factor = math.ceil(growth * 100) / 100 if growth < 1e4 else math.ceil(growth)
    grown = f"{factor:,.2f}" if growth < 1e4 else f"{factor:.1e}"
    which = "sets of columns a party" if item["unit"].startswith("columns:") else "records a person"
    slack = f", plus δ = {delta_text(delta)}," if delta else ""
    return (
        f"ε = {plain.spent_text(epsilon)} bounds every attack: whoever sees what {who} saw, and knows all other rows, "
        f"is right about which of two {which} has at most {share:g} % of the time (50 % is chance), and concludes "
        f"nothing that is more than {grown} times as likely{slack} with the one as with the other."
    )


def quality(facts: Facts) -> list[tuple[str, str, str]]:
    """What was measured, the figure, and what it is beside: the commonest class, and a model without privacy."""
    lines = []
    evaluated = facts.get("evaluated")
    if evaluated:
        rows = [row for row in evaluation.figure_rows(evaluated) if row[0].startswith(_LEADING)]
        constant = evaluation.baseline_text(evaluated).removesuffix(" alone")
        always = constant if constant.startswith("always") else f"always {constant}"
        lines += [(f"{name} on people held out", value, f"{always} {base}") for name, value, base in rows[:2]]
    measured = facts.get("measured") or {}
    baselines = " · ".join(
        f"{said} {plain.measured_text(measured[name], facts, name)}"
        for said, name in (("always the commonest class", COMMONEST), ("without privacy", NON_PRIVATE))
        if name in measured
    )
    lines += [
        (name, plain.measured_text(value, facts, name), baselines)
        for name, value in measured.items()
        if name not in (COMMONEST, NON_PRIVATE)
    ]
    return lines


def verdict_line(facts: Facts) -> str:
    """The verdict in one line, for a terminal."""
    overall = verdict(facts)
    said = [f"{facts['task']} on {facts['rows']} people"]
    if overall["worst"]:
        item = overall["worst"]
        said.append(f"ε at most {plain.spent_text(item['epsilon'])}, for {observer_text(item['observer'])}")
    left = f", {overall['left']} left at least" if overall["left"] and overall["kept"] else ""
    said.append(overall["headline"][0].lower() + overall["headline"][1:] + left)
    for name, value, baselines in overall["quality"][:1]:
        said.append(f"{name} {value}" + (f" ({baselines})" if baselines else ""))
    return f"{facts['name']}: {'; '.join(said)}."


TEXT_ROWS = 5
TEXT_COLUMNS = 8
NONE_STANDS_OUT = (
    "No single column stands out of the noise. Together they can still predict: what is said of one column depends on "
    "telling it apart from the others, and that is what the noise hides first."
)
SPLIT = "The weights stay with their parties: no party, and no server, has seen another's."
WOULD_HOLD = "With noise that nobody can reproduce, the same run would promise:"


def run_text(facts: Facts, *, width: int | None = None, verbose: bool = False) -> str:
    """What a person wants to know after a run, the verdict first; `verbose` has what else the report has."""
    lines = plain.wrapped([verdict_line(facts)], width, indent="")
    if verbose:
        brought = [(party["name"], brought_text(party)) for party in facts["parties"]]
        lines += [f"  run {facts['run']}", *plain.table_lines(brought, width, heads=False)]
    lines += ["", "What each observer can learn at most"]
    if facts["warning"]:
        lines += plain.wrapped([facts["warning"], WOULD_HOLD], width)
    owners = [party["name"] for party in facts["parties"]]
    lines += guarantee_lines(facts["guarantees"], owners, width, verbose=verbose)
    if facts["measured"]:
        lines += ["", "How good it is, measured on data declared public"]
        lines += plain.table_lines(plain.measured_rows(facts), width, heads=False)
    if labels := label_rows(facts):
        lines += ["", "A model of each label, at no further cost", *plain.table_lines(labels, width)]
    if facts.get("evaluated"):
        lines += ["", "How good it is", *evaluation_lines(facts["evaluated"], width)]
        lines += plain.wrapped([evaluation.evaluation_note(facts["evaluated"])], width)
    if facts["notes"]:
        lines += ["", "Notes", *plain.wrapped(facts["notes"], width, bullet="- ")]
    lines += learnt_lines(facts, width, verbose=verbose)
    lines += ["", "Budgets after this run", *budget_lines(facts["ledgers"].values(), width)]
    if verbose:
        traffic = facts["traffic"]
        sent = f"{plain.size_text(traffic['bytes'])} in {traffic['rounds']} rounds"
        lines += ["", f"Sent: {sent}, besides finding the common people.", *forecast_lines(facts, width)]
        made = ", ".join(f"{what} {version}" for what, version in facts.get("versions", {}).items())
        lines += [f"Made by {made}."] if made else []
    return plain.lines_text(lines)


def guarantee_lines(
    guarantees: Sequence[Facts], owners: Sequence[str], width: int | None, *, verbose: bool
) -> list[str]:
    """Who could learn how much about what, as a table; with `verbose` each as its exact sentence too."""
    rows = [
        (
            plain.spent_text(item["epsilon"]),
            delta_text(item["delta"]),
            observer_text(item["observer"]),
            about_text(item["observer"], item["unit"], owners),
            f"({item['unit']})",
        )
        for item in guarantees
    ]
    lines = plain.table_lines([("ε", "at δ", "who", "about what", ""), *rows], width) if rows else []
    return lines + (
        plain.wrapped((item["sentence"] for item in guarantees), width, bullet="- ") if verbose else []
    )


def evaluation_lines(found: Facts, width: int | None = None) -> list[str]:
    """Figures of an evaluation beside what the commonest class alone would have, and who was taken for what."""
    section = evaluation.evaluation_section(found, drawn=False)
    if section is None:
        return []
    heads, *rows = section.table
    lines, confused = plain.table_lines([("", "", heads[2]), *rows], width), evaluation.confusion_rows(found)
    return [*lines, "", *plain.table_lines(confused, width)] if confused else lines


def forecast_rows(facts: Facts) -> list[tuple[str, str, str]]:
    """What, planned, measured; nothing for a run whose facts hold no forecast."""
    made = facts.get("forecast")
    if not made:
        return []
    before, after = made["predicted"], made["measured"]
    took = "not shown" if after["seconds"] is None else plain.duration_text(after["seconds"])
    # The error foretold is that of synthetic people: beside one of the rows trained on it would say nothing.
    return [
        ("sent", plain.size_text(before["bytes"]), plain.size_text(after["bytes"])),
        ("rounds", str(before["rounds"]), str(after["rounds"])),
        ("time", plain.duration_text(before["seconds"]), took),
    ]


def forecast_lines(facts: Facts, width: int | None) -> list[str]:
    """The same as text, with what to know of it."""
    if not (rows := forecast_rows(facts)):
        return []
    table = plain.table_lines([("", "planned", "measured"), *rows], width)
    return ["", "Plan against outcome", *table, *plain.wrapped([facts["forecast"]["note"]], width)]


def learnt_lines(facts: Facts, width: int | None, *, verbose: bool = True) -> list[str]:
    """The columns that move the score most, with the noise's part in it; nothing where there is no model."""
    model_facts, lines = facts["learnt"], []
    if model_facts.get("split"):
        lines += ["", "What was learnt", *plain.wrapped([SPLIT], width)]
    lines += plain.wrapped(model_facts.get("paper", ()), width)
    if model_facts.get("by_column"):
        unit = "log-odds" if facts["task"] == "classification" else "units of the label"
        known = "intervals" in model_facts
        lines += ["", f"What was learnt: what a column adds over its range, in {unit}"]
        for row in model_facts["by_column"][:TEXT_ROWS]:
            lines += [f"  towards {row['row']}"] if len(model_facts["by_column"]) > 1 else []
            effects = [
                (*effect_words(column), "within noise" if known and not clear(column) else "")
                for column in row["columns"][:TEXT_COLUMNS]
            ]
            lines += plain.table_lines(effects, width, heads=False)
        if verbose and model_facts.get("intervals"):
            lines += plain.wrapped([model_facts["intervals"]["covers"]], width)
        if none_stands_out(model_facts):
            lines += plain.wrapped([NONE_STANDS_OUT], width)
    if verbose and model_facts.get("rule"):
        lines += plain.wrapped([model_facts["rule"]["reason"]], width)
    if model_facts.get("classes"):
        noise = model_facts.get("count_noise")
        counts = ", ".join(f"{name} {count:.0f}" for name, count in model_facts["classes"].items())
        each = f" (± {2 * noise:.0f} each)" if noise else ""
        lines += plain.wrapped([f"Noisy class counts: {counts}{each}."], width)
    spectrum = facts.get("spectrum")
    if verbose and spectrum:
        rank, directions = spectrum["learnable_rank"], len(spectrum["eigenvalues"])
        stands = f"{'stands' if rank == 1 else 'stand'} out of the noise"
        above = f"(eigenvalue above {spectrum['edge']:.3g})"
        lines += plain.wrapped(
            [f"Learnable rank: {rank} of {directions} directions {stands} {above}."], width
        )
    return lines


def effect_words(column: Facts) -> tuple[str, str, str, str]:
    """A column, its owner, and its effect where it is least and where it is most."""
    ends = [pick(column["points"], key=lambda point: point["effect"]) for pick in (min, max)]
    least, most = (f"{plain.signed_text(end['effect'], end['half_width'])} at {end['at']}" for end in ends)
    return column["column"], column["owner"], least, most


def clear(column: Facts) -> bool:
    """Whether some effect of a column is farther from zero than the noise can have moved it."""
    return any(
        point["half_width"] is not None and abs(point["effect"]) > point["half_width"]
        for point in column["points"]
    )


def none_stands_out(model_facts: Facts) -> bool:
    """Whether there are intervals, and every effect of every column is within its own."""
    columns = [column for row in model_facts.get("by_column", []) for column in row["columns"]]
    return "intervals" in model_facts and not any(clear(column) for column in columns)


def declared_text(column: Facts) -> str:
    """What a schema declares of a column, in words."""
    sentence = [str(column["kind"])]
    for key, value in column.items():
        if key in ("name", "column", "kind") or value is False or value in (None, "none", "", []):
            continue
        shown = ", ".join(str(item) for item in value) if isinstance(value, list | tuple) else str(value)
        sentence.append(f"{key} {shown}")
    return ", ".join(sentence)


def budget_lines(ledgers: Iterable[Facts], width: int | None = None) -> list[str]:
    """A table of every account of these ledgers, equal ones as one: ε spent rounded up, ε left rounded down."""
    rows, bare = [], []
    for ledger in ledgers:
        if not ledger["totals"]:
            bare.append(f"  {ledger['party']}: no account has been charged yet.")
        for total in plain.merged(ledger["totals"]):
            rows.append(
                (
                    ledger["party"],
                    total["dataset"],
                    observers_text(total["observers"]),
                    f"{unit_text(total['unit'], owner=ledger['party'])} ({total['unit']})",
                    f"{plain.spent_text(total['epsilon'])} of {plain.budget_text(total['budget'])}",
                    plain.left_text(total["left"]),
                    delta_text(total["delta"]),
                    "" if total["private"] else "seeded noise: no privacy",
                )
            )
        bare += plain.wrapped((exact_text(ledger["party"], item) for item in ledger.get("exact", ())), width)
        bare += plain.wrapped(_otherwise(ledger), width)
    heads = ("party", "data set", "who could learn", "about what", "ε spent", "ε left", "at δ", "")
    datasets = {row[1] for row in rows}
    if len(datasets) == 1:
        # One name in every row would only take room.
        named = [f"  Data set: {plain.one_line(rows[0][1])}"]
        return [*named, *plain.table_lines([row[:1] + row[2:] for row in (heads, *rows)], width), *bare]
    return (plain.table_lines([heads, *rows], width) if rows else []) + bare


def _otherwise(ledger: Facts) -> list[str]:
    """That parts of a data set were not cut as before, and what that does to the totals."""
    counts: dict[str, int] = {}
    for total in ledger["totals"]:
        if total.get("otherwise"):
            counts[total["dataset"]] = max(counts.get(total["dataset"], 0), total["otherwise"])
    sentence = []
    for dataset, releases in sorted(counts.items()):
        many, verb = ("1 release", "it counts") if releases == 1 else (f"{releases} releases", "they count")
        cut = f"cut {ledger['party']}'s people otherwise than the first"
        sentence.append(f"{many} of {dataset!r} {cut}, so {verb} for everybody.")
    return sentence


def exact_text(party: str, item: Facts) -> str:
    """What left without noise, and what that does to the totals."""
    people = "1 person" if item["people"] == 1 else f"{item['people']} people"
    return (
        f"Besides, {party}'s part of the exact scores of {people} of {item['dataset']!r} went to {item['receiver']}: "
        "no ε covers them."
    )
