"""What a run comes to, before any detail: budgets kept or not, what is left, how good the model is."""

from __future__ import annotations

import math
from typing import Any

from colonnade.privacy.guarantee import delta_text
from colonnade.privacy.words import about_text, observer_text, unit_text
from colonnade.report.compared import measured_text
from colonnade.report.evaluation import beside_text, figure_rows
from colonnade.report.numbers import budget_text, left_text, spent_text

from colonnade.report.facts import Facts
NON_PRIVATE = "non-private model, accuracy on people held out"
COMMONEST = "always the commonest class, accuracy on people held out"
_LEADING = ("accuracy", "AUC", "R²", "RMSE", "explained")


def verdict(facts: Facts) -> Facts:
    """The verdict of a run's facts: `kept` is whether every budget holds, the rest are words."""
    accounts = [(party, total) for party, ledger in facts["ledgers"].items() for total in ledger["totals"]]
    over = [(party, total) for party, total in accounts if not _within(total)]
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
        party, total = min(
            accounts, key=lambda item: math.inf if item[1]["left"] is None else item[1]["left"]
        )
        said |= {
            "left": f"{left_text(total['left'])} of {budget_text(total['budget'])}",
            "left_of": account_text(party, total),
        }
    return said


def _within(total: Facts) -> bool:
    epsilon, budget = total["epsilon"], total["budget"]
    return budget in (None, math.inf) or (epsilon is not None and epsilon <= budget)


def account_text(party: str, total: Facts) -> str:
    """One account of a party's ledger, as people say it."""
    about = unit_text(total["unit"], owner=party)
    return f"{observer_text(total['observer'])}, about {about}, in {party}'s ledger"


def worst(facts: Facts) -> Facts | None:
    """The guarantee with the largest ε, and what it bounds; None where nothing is guaranteed."""
    items = facts["guarantees"]
    if not items:
        return None
    item = max(items, key=lambda one: math.inf if one["epsilon"] is None else one["epsilon"])
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
    return (
        f"ε = {spent_text(epsilon)} bounds every attack: whoever sees what {who} saw, and knows all other rows, "
        f"is right about which of two {which} has at most {share:g} % of the time (50 % is chance), and concludes "
        f"nothing that is more than {grown} times as likely"
        + (f", plus δ = {delta_text(delta)}," if delta else "")
        + " with the "
        "one as with the other."
    )


def quality(facts: Facts) -> list[tuple[str, str, str]]:
    """What was measured, the figure, and what it is beside: the commonest class, and a model without privacy."""
    lines = []
    judged = facts.get("judged")
    if judged:
        rows = [row for row in figure_rows(judged) if row[0].startswith(_LEADING)]
        constant = beside_text(judged).removesuffix(" alone")
        always = constant if constant.startswith("always") else f"always {constant}"
        lines += [
            (f"{name} on people held out", value, f"{always} {beside}") for name, value, beside in rows[:2]
        ]
    measured = facts.get("measured") or {}
    beside = " · ".join(
        f"{said} {measured_text(measured[name], facts, name)}"
        for said, name in (("always the commonest class", COMMONEST), ("without privacy", NON_PRIVATE))
        if name in measured
    )
    lines += [
        (name, measured_text(value, facts, name), beside)
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
        said.append(f"ε at most {spent_text(item['epsilon'])}, for {observer_text(item['observer'])}")
    headline = overall["headline"][0].lower() + overall["headline"][1:]
    said.append(
        headline + (f", {overall['left']} left at least" if overall["left"] and overall["kept"] else "")
    )
    said += [
        f"{name} {value}" + (f" ({beside})" if beside else "")
        for name, value, beside in overall["quality"][:1]
    ]
    return f"{facts['name']}: {'; '.join(said)}."
