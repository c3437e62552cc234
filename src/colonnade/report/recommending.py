"""Which method to take, of those that a comparison ran."""

from __future__ import annotations

import math

from colonnade.evaluation.figures import figure_text
from colonnade.privacy.words import joined
from colonnade.report.compared import chance_of
from colonnade.report.facts import Facts


def recommendation(facts: Facts) -> str:
    """Which method to take at the ε at which promises are shown, and why; nothing where no accuracy is known.

    Simulations of a trusted place, papers' formulas and what promises nothing are not for taking. Of methods that do
    not differ by more than their spreads, it is the one that sends least.
    """
    epsilon, sign = shown_epsilon(facts), 1.0 if facts["larger_is_better"] else -1.0
    takers = [
        row
        for row in facts["rows"]
        if row["epsilon"] == epsilon
        and row["mean"] is not None
        and row["guarantees"]
        and not (row["paper"] or row["trusted"] or row["failures"])
    ]
    if not takers:
        return ""
    best = max(takers, key=lambda row: sign * row["mean"])
    near = [
        row
        for row in takers
        if sign * (best["mean"] - row["mean"]) <= math.hypot(best["spread"] or 0.0, row["spread"] or 0.0)
    ]
    taken = min(near, key=lambda row: (row["bytes"] is None, row["bytes"], -sign * row["mean"]))

    def known(value: float, spread: float | None = None) -> str:
        return figure_text(value, max(spread or 0.0, chance_of(value, facts, facts["metric"])))

    said = f"At ε = {epsilon:g} take {taken['method']}: {facts['metric']} {known(taken['mean'], taken['spread'])}"
    beside = []
    central = next((row for row in facts["rows"] if row["method"] == "non-private"), None)
    if central is not None and central["mean"] is not None:
        beside.append(f"{known(central['mean'], central['spread'])} without privacy")
    if facts["constant"] is not None:
        same = "the commonest class" if facts["task"] == "classification" else "the mean"
        beside.append(f"{known(facts['constant'])} for always answering {same}")
    said += f" ({', '.join(beside)})." if beside else "."
    others = [row["method"] for row in near if row is not taken]
    if others:
        verb = "differs" if len(others) == 1 else "differ"
        said += f" {joined(others)} {verb} from it by no more than the spread over splits, and it sends the least."
    if facts["constant"] is not None and sign * (taken["mean"] - facts["constant"]) <= (
        taken["spread"] or 0.0
    ):
        said += (
            " It is no better than always the same answer: more people, or a larger ε, before any of them."
        )
    return said


def shown_epsilon(facts: Facts) -> float:
    """The ε of the list at which promises are shown: the one nearest to 1."""
    return float(min(facts["epsilons"], key=lambda epsilon: abs(epsilon - 1.0)))
