"""What attacks found, as lines and as one picture over the epochs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.report.charts import Axes, Series
from colonnade.report.curves import draw
from colonnade.report.facts import Facts
from colonnade.report.plain import lines_text, table_lines, wrapped

DEFENCES = {"none": "without a defence", "sound": "with noise before encryption"}


def attack_text(facts: Facts, *, width: int | None = None) -> str:
    """One line an attack, undefended first, with what chance would give and a 95 % interval."""
    lines = [f"{facts['name']}: attacks on {facts['people']} people's records, declared public"]
    for defence, title in DEFENCES.items():
        findings = [finding for finding in facts["findings"] if finding["defence"] == defence]
        if not findings:
            continue
        promise = f" (ε = {facts['epsilon']:g}, δ = {facts['delta']:g})" if defence == "sound" else ""
        lines += ["", f"The encrypted gradient {title}{promise}"]
        rows = [(finding["attack"], success_text(finding)) for finding in findings]
        lines += table_lines(rows, width, heads=False)
        notes = {
            f"{finding['attack']} ({finding['run']}): {finding['note']}"
            for finding in findings
            if finding["note"] and finding["success"] is not None
        }
        lines += wrapped(sorted(notes), width, bullet="- ")
    return lines_text(lines)


def success_text(finding: dict[str, Any]) -> str:
    if finding["success"] is None:
        return f"refused: {finding['refused']}" if finding["refused"] else str(finding["note"])
    success = finding["success"]
    interval = f"{success['low']:.3f} to {success['high']:.3f}"
    who = f"{finding['attacker']} about {finding['target']}, {finding['run']}"
    return f"{success['rate']:.3f} right ({interval}; by chance {success['chance']:.3f}), {who}"


def draw_attacks(path: Path, facts: Facts) -> bool:
    """Success over the epochs of every attack that has them, and chance; False if none has."""
    lines: list[Series] = []
    chances: Sequence[float] = ()
    for finding in facts["findings"]:
        epochs = finding["by_epoch"]
        if epochs:
            xs = tuple(float(number) for number in range(1, len(epochs) + 1))
            defended = f"ε = {facts['epsilon']:g}" if finding["defence"] == "sound" else "no defence"
            label = f"{defended}: {finding['attack']} ({finding['run']})"
            lines.append(Series(label, xs, tuple(item["rate"] for item in epochs)))
            if len(epochs) > len(chances) and finding["defence"] == "sound":
                chances = [item["chance"] for item in epochs]
    if not lines:
        return False
    if chances:
        xs = tuple(float(number) for number in range(1, len(chances) + 1))
        lines.append(Series("chance", xs, tuple(chances)))
    draw(path, lines, Axes("epoch", "labels read right", whole_x=True), title=facts["name"])
    return True
