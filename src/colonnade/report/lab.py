"""What attacks and audits found, as lines and as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from colonnade.privacy.guarantee import delta_text, epsilon_text
from colonnade.privacy.observers import observer_text
from colonnade.report.charts import Axes, Series, draw
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
    drawn: list[tuple[str, list[float]]] = []
    chances: list[float] = []
    for finding in facts["findings"]:
        if epochs := finding["by_epoch"]:
            defended = f"ε = {facts['epsilon']:g}" if finding["defence"] == "sound" else "no defence"
            label = f"{defended}: {finding['attack']} ({finding['run']})"
            drawn.append((label, [item["rate"] for item in epochs]))
            if len(epochs) > len(chances) and finding["defence"] == "sound":
                chances = [item["chance"] for item in epochs]
    if not drawn:
        return False
    drawn += [("chance", chances)] if chances else []
    lines = [Series(label, tuple(map(float, range(1, len(ys) + 1))), tuple(ys)) for label, ys in drawn]
    draw(path, lines, Axes("epoch", "labels read right", whole_x=True), title=facts["name"])
    return True


MEANING = (
    "A lower bound near 0 proves nothing: it says that these observers, with these statistics and so few trials, saw "
    "little. What is proved is the upper bound. A lower bound above it would be a defect, of the proof or of the code."
)
DEFECT = (
    "DEFECT: more was shown than is proved. With 95 % confidence a guarantee of Colonnade does not hold. Do not run "
    "this method on private data, and report this audit."
)
CAUGHT = (
    "Caught: more was shown than the paper's formula claims. It is no guarantee, and none was printed as one."
)
NAMES = {
    "neighbours": "two neighbouring data sets",
    "canaries": "many canaries in every session",
    "draws": "draws of the plan's own noise, without a session",
}
_BAR, _ROOM = 40, 3.0


def audit_text(facts: Facts, *, width: int | None = None) -> str:
    """One bar an observer: what was shown, filled, and what is proved, as a line."""
    lines = [
        f"{facts['name']}: audit of {facts['method']} on {facts['people']}",
        f"  {facts['sessions']} sessions of the real protocol in {facts['seconds']:.0f} s; ε at least, with 95 % "
        "confidence for each observer",
    ]
    scale = _scale(facts["findings"])
    for item in facts["findings"]:
        lines += ["", f"  {item['about']}", f"  {bar_text(item['lower'], _limit(item), scale, item['most'])}"]
        lines += wrapped([sentence(item)], width)
        lines += wrapped(experiments(item), width, bullet="- ")
    if facts["notes"]:
        lines += ["", *wrapped(facts["notes"], width)]
    lines += ["", *wrapped([verdict(facts)], width)]
    return lines_text(lines)


def papers_text(formulas: Sequence[Facts], *, width: int | None = None) -> str:
    """Which of the papers' formulas an audit catches, one paragraph each."""
    lines = ["The papers' own formulas, audited: paper formulas, not guarantees", ""]
    for item in formulas:
        if item["lower"] is None:
            state = "nothing to draw"
        else:
            state = "CAUGHT" if item["caught"] else "not caught"
            delta = f" at δ = {delta_text(item['delta'])}" if item["delta"] else ""
            shown, claimed = int(item["lower"] * 100) / 100, epsilon_text(item["epsilon"])
            state += f": shown ε ≥ {shown:.2f}, claimed ε ≤ {claimed}{delta}"
        lines += wrapped([f"{item['paper']}: {item['claim']}", f"  {state}; {item['why']}."], width)
    return lines_text(lines)


def sentence(item: Facts) -> str:
    kind = "proved" if item["proved"] else "the paper claims"
    loud = (" DEFECT" if item["proved"] else " CAUGHT") if item["exceeded"] else ""
    lower = int(item["lower"] * 100) / 100
    limit = _limit(item)
    upper = "no bound" if limit is None else f"ε ≤ {epsilon_text(limit)}"
    return (
        f"shown: ε ≥ {lower:.2f}; {kind}: {upper} at δ = {delta_text(item['delta'])}; "
        f"so many trials could have shown at most {item['most']:.1f}{loud}"
    )


def experiments(item: Facts) -> list[str]:
    return [
        f"{NAMES[each['kind']]}: {each['what']}; ε ≥ {int(each['epsilon'] * 100) / 100:.2f} "
        f"({each['hits']} right, {each['misses']} wrong of {each['trials']} trials judged)"
        for each in item["experiments"]
    ]


def verdict(facts: Facts) -> str:
    exceeded = [item for item in facts["findings"] if item["exceeded"]]
    if any(item["proved"] for item in exceeded):
        return DEFECT
    return CAUGHT if exceeded else MEANING


def _limit(item: Facts) -> float | None:
    """The upper bound, if there is a finite one."""
    upper = item["upper"]
    return upper if upper is not None and math.isfinite(upper) else None


def _scale(findings: Sequence[Facts]) -> float:
    """The largest ε that a picture has room for: what was shown, what is proved, and what could have been shown."""
    sizes = [size for item in findings for size in (item["lower"], _limit(item)) if size is not None]
    largest = max(sizes, default=1.0) or 1.0
    most = max((item["most"] for item in findings), default=largest)
    # What far more trials than needed could have shown must not shrink the rest to nothing.
    return max(largest, min(most, _ROOM * largest))


def bar_text(lower: float, upper: float | None, scale: float, most: float) -> str:
    """A bar of characters: the lower bound filled, what could have been shown dotted, the upper bound a line."""
    filled, could = (round(_BAR * min(1.0, size / scale)) for size in (lower, most))
    marks = ["█"] * filled + ["·"] * max(0, could - filled)
    marks += [" "] * (_BAR - len(marks))
    if upper is None:
        return "".join(marks).rstrip()
    line = round(_BAR * min(1.0, upper / scale))
    return "".join([*marks[:line], "┃", *marks[line:]]).rstrip()


def audit_picture(findings: Sequence[Facts]) -> Markup:
    """One bar an observer as SVG, in the colours of the page: shown filled, what could have been shown dashed."""
    if not findings:
        return Markup("")
    width, row, left, right = 400.0, 40.0, 8.0, 8.0
    scale = _scale(findings)
    room = width - left - right
    drawn = []
    for number, item in enumerate(findings):
        top = number * row
        limit = _limit(item)
        lower, upper, could = (
            room * min(1.0, size / scale)
            for size in (item["lower"], scale if limit is None else limit, item["most"])
        )
        kind = "shown over" if item["exceeded"] else "shown"
        kind_text = "proved" if item["proved"] else "claimed"
        limit_text = "no bound" if limit is None else epsilon_text(limit)
        lower_text = f"{int(item['lower'] * 100) / 100:.2f}"
        drawn.append(
            f'<text x="{left:g}" y="{top + 13:g}">{escape(observer_text(item["observer"]))}, {escape(item["unit"])}: '
            f"shown ≥ {lower_text}, {kind_text} ≤ {limit_text}, at most {item['most']:.1f} could show</text>"
            f'<rect class="could" x="{left:g}" y="{top + 19.5:g}" width="{could:.1f}" height="11"/>'
            f'<rect class="{kind}" x="{left:g}" y="{top + 19:g}" width="{lower:.1f}" height="12"/>'
            f'<path class="proved" d="M{left + upper:.1f} {top + 15:g}v20"/>'
        )
    return Markup(
        f'<svg class="picture wide" viewBox="0 0 {width:g} {len(findings) * row:g}" '
        f'role="img" aria-label="what was shown against what is proved">{"".join(drawn)}</svg>'
    )


STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#5a6478}"
    ".could{fill:none;stroke:#5a6478;stroke-dasharray:3 2}.shown{fill:#2f6db5}.over{fill:#a8322a}"
    ".proved{stroke:#b5602f;stroke-width:2}"
)


def audit_drawing(findings: Sequence[Facts]) -> str:
    """The picture as a file of its own, with colours in it."""
    drawn = str(audit_picture(findings)).replace(">", f"><style>{STYLE}</style>", 1)
    return drawn.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)


def audit_section(audit: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the page of a run needs of an audit."""
    if audit is None:
        return None
    return {
        **audit,
        "picture": audit_picture(audit["findings"]),
        "lines": [{"about": item["about"], "told": sentence(item)} for item in audit["findings"]],
        "verdict": verdict(audit),
        "proved": all(item["proved"] for item in audit["findings"]),
        "bad": any(item["exceeded"] and item["proved"] for item in audit["findings"]),
    }
