"""A plan for people: what it promises, what each method would cost and bring, and which to take."""

from __future__ import annotations

from typing import Any

from colonnade.methods.margin.plan import MarginPlan
from colonnade.privacy.words import observer_text
from colonnade.report.numbers import duration_text, size_text, spent_text
from colonnade.report.plain import lines_text, table_lines, wrapped
from colonnade.report.text import guarantee_lines

HEAD = ("method", "error", "ε ≤", "sent", "rounds", "time", "memory", "budgets")
_WAYS = {
    "curve": "on a curve",
    "server": "through the server",
}
_UNLESS = (
    ' By methods in which it keeps no share, and where a policy does not name "server" under alignment, they are '
    "matched on a curve, which takes far longer."
)
_CHECKED = {
    "all": (
        'Everything that is dealt, verify = "all": two keepers check the norm of every row, and every product before '
        "it is used. Whatever is not proved stops the run before it is opened."
    ),
    "rows": (
        'Rows, verify = "rows": two keepers check that no row an owner deals is longer than agreed. Whatever is not '
        "proved stops the run before it is opened."
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
    products = plan["protocol"] == MarginPlan.protocol or plan["spec"].get("conditional", False)
    return _CHECKED[verify] + _COULD.format("all" if products else "rows")


def plan_text(facts: dict[str, Any], columns: int | None, *, verbose: bool = False) -> str:
    """The whole plan, wrapped to the terminal.

    `verbose` has every statement as its sentence too, and noise and ε by observer of every method.
    """
    lines = wrapped([plan_line(facts)], columns, indent="")
    lines.append(f"  {facts['features']} features, plan {facts['plan']['hash'][:12]}")
    if facts["because"]:
        said = f"The job names no method, so it takes {facts['method']}: {facts['because']}."
        lines += wrapped([said], columns)
    if facts["warnings"]:
        lines += ["", "Warnings", *wrapped(facts["warnings"], columns, bullet="- ")]
    lines += ["", "What each observer could learn at most"]
    owners = list(facts["plan"]["schemas"])
    lines += guarantee_lines(facts["guarantees"], owners, columns, verbose=verbose)
    lines += ["", "Checked", *wrapped([_checked(facts["plan"])], columns)]
    lines += _noise_lines(facts, columns)
    lines += _expected_lines(facts, columns)
    if "block_lines" in facts:
        lines += ["", "Blocks of the objective", *wrapped(facts["block_lines"], columns, bullet="- ")]
    if facts["coding"]:
        lines += ["", "Coding", *wrapped([facts["coding"]], columns)]
    lines += [
        "",
        "Methods for this job",
        *table_lines(method_rows(facts["methods"], facts["recommended"]), columns),
    ]
    lines += ["", *wrapped(notes(facts, verbose=verbose), columns)]
    lines += ["", "Recommended" if facts["recommended"] else "No recommendation"]
    named = f"{facts['recommended']}. " if facts["recommended"] else ""
    lines += wrapped([f"{named}{facts['why']}"], columns)
    lines += ["", "Budgets"]
    lines += table_lines(
        [(item["party"], _SAID[item["admits"]], item["reason"]) for item in facts["budgets"]],
        columns,
        heads=False,
    )
    lines += ["", "Nothing was run or charged."]
    return lines_text(lines)


def plan_line(facts: dict[str, Any]) -> str:
    """The plan in one line: what, by which method, the largest ε, what budgets say, and the expected error."""
    said = [f"{facts['task']} by {facts['method']} on {facts['rows']} people"]
    if facts["guarantees"]:
        worst = max(facts["guarantees"], key=lambda item: float(item["epsilon"]))
        said.append(f"ε at most {spent_text(worst['epsilon'])}, for {observer_text(worst['observer'])}")
    refusing = [item["party"] for item in facts["budgets"] if item["admits"] is False]
    if refusing:
        said.append(f"refused by the budget of {' and '.join(refusing)}")
    else:
        asked = all(item["admits"] for item in facts["budgets"])
        said.append("every budget admits it" if asked else "not every budget is known here")
    made = facts["methods"][0]["forecast"]
    if made is not None and made["expected"] is not None:
        exact = facts["without_privacy"]
        beside = "" if exact is None else f" ({exact:.3f} without privacy)"
        said.append(f"error {made['expected']['error']:.3f} on invented people{beside}")
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
    from colonnade.forecast.expected import HALF_A_POINT, PAST_THE_LAW

    expected = facts["expected"]
    if expected is None:
        return []
    lost, low, high = (f"{100 * expected[name]:.1f}" for name in ("lost", "low", "high"))
    if expected["lost"] > PAST_THE_LAW:
        said = f"More than {100 * PAST_THE_LAW:.0f} points of accuracy are lost to noise: such a model says little."
    elif expected["lost"] < HALF_A_POINT:
        said = f"Less than half a point of accuracy is lost to noise, {high} at most on four tables in five."
    else:
        said = f"About {lost} points of accuracy are lost to noise, {low} to {high} on four tables in five."
    people = f"{float(format(expected['people_for_a_point'], '.2g')):,.0f}"
    said += f" With {people} people most tables lose less than a point (docs/plan.md)."
    return ["", "What to expect", *wrapped([said], columns)]


def method_rows(methods: list[dict[str, Any]], recommended: str | None) -> list[tuple[str, ...]]:
    """What each method would cost and bring, under a head; the one that is recommended has a star."""
    rows: list[tuple[str, ...]] = [HEAD]
    for item in methods:
        made = item["forecast"]
        if made is not None:
            rows.append(
                (
                    f"{item['method']} *" if item["method"] == recommended else item["method"],
                    _error(made),
                    max(
                        (spent_text(each["epsilon"]) for each in item["guarantees"]), key=_number, default="∞"
                    ),
                    size_text(made["bytes"]),
                    str(made["rounds"]),
                    duration_text(made["seconds"]),
                    size_text(made["memory"]),
                    _SAID[item["admitted"]],
                )
            )
    return rows


def _error(made: dict[str, Any]) -> str:
    expected = made["expected"]
    if expected is None:
        return "not known"
    spread = "" if expected["spread"] is None else f" ± {expected['spread']:.3f}"
    return f"{expected['error']:.3f}{spread}"


def _number(text: str) -> float:
    return float("inf") if text == "∞" else float(text)


def notes(facts: dict[str, Any], *, verbose: bool = True) -> list[str]:
    """How to read the table, and what is missing from it; `verbose` has noise and ε of every method too."""
    methods, line = facts["methods"], facts["line"]
    made = {item["method"]: item["forecast"] for item in methods if item["forecast"] is not None}
    notes = []
    if any(each["expected"] is not None for each in made.values()):
        exact = facts["without_privacy"]
        against = "" if exact is None else f" A model without privacy has {exact:.3f}."
        notes.append(
            f"Error: {facts['error']}, simulated on invented people with the declared columns; the real one depends on "
            f"the real people, the order of methods less so.{against}"
        )
    areas = [
        f"{name} {each['expected']['auc']:.3f}"
        for name, each in made.items()
        if each["expected"] is not None and each["expected"]["auc"] is not None
    ]
    if areas:
        notes.append(
            f"AUC on the same people: {', '.join(areas)}. Invented classes are equally common; where one is rare, "
            "whoever names nobody has a small error too: go by AUC."
        )
    fewer = [
        f"{name} ({each['expected']['rows']})"
        for name, each in made.items()
        if each["expected"] is not None and each["expected"]["rows"] < facts["rows"]
    ]
    if fewer:
        notes.append(f"Simulated on fewer people, so that the error is an upper figure: {', '.join(fewer)}.")
    notes += [
        f"No prediction of the error of {name}: {each['unknown']}."
        for name, each in made.items()
        if each["expected"] is None
    ]
    notes += [f"{item['method']} cannot do this job: {item['reason']}" for item in methods if item["reason"]]
    passed = [f"{item['method']}: {item['passed']}" for item in methods if item["passed"]]
    if passed:
        notes.append(f"Not rehearsed, unless --methods names them or says all. {'; '.join(passed)}.")
    noises = [
        f"{name}: {each['noise']['standard_deviation']:.3g} on {each['noise']['on']}"
        for name, each in made.items()
        if each["noise"] is not None
    ]
    if noises and verbose:
        notes.append(f"Noise, standard deviation. {'; '.join(noises)}.")
    if verbose:
        notes += [f"ε of {item['method']}: {_observers(item)}." for item in methods if item["guarantees"]]
    elif len(made) > 1:
        notes.append("The noise of each method, and its ε by observer, are shown with --verbose.")
    if any(each["unit"].startswith("columns:") for item in methods for each in item["guarantees"]):
        notes.append("ε about all of a party's columns (columns:NAME) is stated: no budget is kept for it.")
    if facts["held_out"]:
        notes.append(
            f"Of {facts['common']:,} people in common {facts['held_out']:g} are held out. {facts['judging']}"
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
    where = "this machine" if facts["machine"] == facts["rehearsed_on"] else "the stated machine"
    lines = (
        "all parties in one process"
        if line["bandwidth"] is None and not line["latency"]
        else f"{_wide(line['bandwidth'])}{1e3 * line['latency']:g} ms from party to party"
    )
    parts = [name for name, each in made.items() if each["rehearsed"] != "whole"]
    inferred = f" Rehearsed in part: {', '.join(parts)}." if parts else ""
    notes.append(
        f"Time on {where}, {facts['machine']['cores']} cores, {lines}. Memory is that of all parties' arrays, with "
        f"{size_text(facts['held'])} of matched rows on top.{inferred}"
    )
    return notes


def _wide(bandwidth: float | None) -> str:
    return "" if bandwidth is None else f"{bandwidth / 1e6:g} Mbit a second, "


def _observers(item: dict[str, Any]) -> str:
    return ", ".join(
        f"{each['observer']} {spent_text(each['epsilon'])} ({each['unit']})" for each in item["guarantees"]
    )
