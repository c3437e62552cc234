"""What attacks and audits found, as lines and as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from colonnade.privacy.guarantee import delta_text, epsilon_text
from colonnade.privacy.observers import observer_text
from colonnade.report.charts import Axes, Series, draw
from colonnade.report.plain import Section, lines_text, table_lines, wrapped
from colonnade.report.record import AttackRecord, Attempt, AuditRecord, FindingRecord

DEFENCES = {"none": "without a defence", "sound": "with noise before encryption"}


def attack_text(record: AttackRecord, *, width: int | None = None) -> str:
    lines = [f"{record.name}: attacks on {record.people} people's records, declared public"]
    for defence, title in DEFENCES.items():
        findings = [finding for finding in record.findings if finding.defence == defence]
        if not findings:
            continue
        promise = f" (ε = {record.epsilon:g}, δ = {record.delta:g})" if defence == "sound" else ""
        lines += ["", f"The encrypted gradient {title}{promise}"]
        rows = [(finding.attack, success_text(finding)) for finding in findings]
        lines += table_lines(rows, width, heads=False)
        notes = {
            f"{finding.attack} ({finding.run}): {finding.note}"
            for finding in findings
            if finding.note and finding.success is not None
        }
        lines += wrapped(sorted(notes), width, bullet="- ")
    return lines_text(lines)


def success_text(finding: Attempt) -> str:
    if finding.success is None:
        return f"refused: {finding.refused}" if finding.refused else str(finding.note)
    success = finding.success
    interval = f"{success.low:.3f} to {success.high:.3f}"
    who = f"{finding.attacker} about {finding.target}, {finding.run}"
    return f"{success.rate:.3f} right ({interval}; by chance {success.chance:.3f}), {who}"


def draw_attacks(path: Path, record: AttackRecord) -> bool:
    """Success over the epochs of every attack that has them, and chance; False if none has."""
    drawn: list[tuple[str, list[float]]] = []
    chances: list[float] = []
    for finding in record.findings:
        if epochs := finding.by_epoch:
            defended = f"ε = {record.epsilon:g}" if finding.defence == "sound" else "no defence"
            label = f"{defended}: {finding.attack} ({finding.run})"
            drawn.append((label, [item.rate for item in epochs]))
            if len(epochs) > len(chances) and finding.defence == "sound":
                chances = [item.chance for item in epochs]
    if not drawn:
        return False
    drawn += [("chance", chances)] if chances else []
    lines = [Series(label, tuple(map(float, range(1, len(ys) + 1))), tuple(ys)) for label, ys in drawn]
    draw(path, lines, Axes("epoch", "labels read right", whole_x=True), title=record.name)
    return True


MEANING = (
    "A lower bound near 0 proves nothing: it says that these observers, with these statistics and so few trials, saw "
    "little. What is proved is the upper bound. A lower bound above it would be a defect, of the proof or of the code."
)
DEFECT = (
    "DEFECT: more was shown than is proved. With 95 % confidence a guarantee of Colonnade does not hold. Do not run "
    "this method on private data, and report this audit."
)
CAUGHT = "Caught: more was shown than the paper's formula claims. It is not a guarantee, and none was printed as one."
NAMES = {
    "neighbours": "two neighbouring data sets",
    "canaries": "many canaries in every session",
    "draws": "draws of the plan's own noise, without a session",
}
_ROOM = 3.0


def audit_text(record: AuditRecord, *, width: int | None = None) -> str:
    lines = [
        f"{record.name}: audit of {record.method} on {record.people}",
        f"  {record.sessions} sessions of the real protocol in {record.seconds:.0f} s; ε at least, with 95 % "
        "confidence for each observer",
    ]
    for item in record.findings:
        lines += ["", f"  {item.about}", *wrapped([sentence(item)], width)]
        lines += wrapped(experiments(item), width, bullet="- ")
    if record.notes:
        lines += ["", *wrapped(record.notes, width)]
    lines += ["", *wrapped([verdict(record)], width)]
    return lines_text(lines)


def papers_text(formulas: Sequence[Mapping[str, Any]], *, width: int | None = None) -> str:
    lines = ["The papers' own formulas, audited: paper formulas, not guarantees", ""]
    for item in formulas:
        caught = "CAUGHT" if item["caught"] else "not caught"
        delta = f" at δ = {delta_text(item['delta'])}" if item["delta"] else ""
        shown = f"shown ε ≥ {_down(item['lower'])}, claimed ε ≤ {epsilon_text(item['epsilon'])}{delta}"
        lines += wrapped([f"{item['paper']}: {item['claim']}", f"  {caught}: {shown}; {item['why']}."], width)
    return lines_text(lines)


def _down(epsilon: float) -> str:
    return f"{int(epsilon * 100) / 100:.2f}"


def sentence(item: FindingRecord) -> str:
    kind = "proved" if item.proved else "the paper claims"
    loud = (" DEFECT" if item.proved else " CAUGHT") if item.exceeded else ""
    upper = "no bound" if item.limit is None else f"ε ≤ {epsilon_text(item.limit)}"
    return (
        f"shown: ε ≥ {_down(item.lower)}; {kind}: {upper} at δ = {delta_text(item.delta)}; "
        f"so many trials could have shown at most {item.most:.1f}{loud}"
    )


def experiments(item: FindingRecord) -> list[str]:
    return [
        f"{NAMES[each.kind]}: {each.what}; ε ≥ {_down(each.epsilon)} "
        f"({each.hits} right, {each.misses} wrong of {each.trials} trials decided)"
        for each in item.experiments
    ]


def verdict(record: AuditRecord) -> str:
    exceeded = [item for item in record.findings if item.exceeded]
    if any(item.proved for item in exceeded):
        return DEFECT
    return CAUGHT if exceeded else MEANING


def _scale(findings: Sequence[FindingRecord]) -> float:
    """The largest ε that a picture has room for: what was shown, what is proved, and what could have been shown."""
    sizes = [size for item in findings for size in (item.lower, item.limit) if size is not None]
    largest = max(sizes, default=1.0) or 1.0
    most = max((item.most for item in findings), default=largest)
    # What far more trials than needed could have shown must not shrink the rest to nothing.
    return max(largest, min(most, _ROOM * largest))


def audit_picture(findings: Sequence[FindingRecord]) -> Markup:
    """One bar an observer as SVG, in the colours of the page: shown filled, what could have been shown dashed."""
    if not findings:
        return Markup("")
    width, row, left, right = 400.0, 40.0, 8.0, 8.0
    scale = _scale(findings)
    room = width - left - right
    drawn = []
    for number, item in enumerate(findings):
        top = number * row
        limit = item.limit
        lower, upper, could = (
            room * min(1.0, size / scale)
            for size in (item.lower, scale if limit is None else limit, item.most)
        )
        kind = "shown over" if item.exceeded else "shown"
        kind_text = "proved" if item.proved else "claimed"
        limit_text = "no bound" if limit is None else epsilon_text(limit)
        drawn.append(
            f'<text x="{left:g}" y="{top + 13:g}">{escape(observer_text(item.observer))}, {escape(item.unit)}: '
            f"shown ≥ {_down(item.lower)}, {kind_text} ≤ {limit_text}, at most {item.most:.1f} could show</text>"
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


def audit_drawing(findings: Sequence[FindingRecord]) -> str:
    drawn = str(audit_picture(findings)).replace(">", f"><style>{STYLE}</style>", 1)
    return drawn.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)


def audit_section(record: AuditRecord) -> Section:
    limit = "proved" if all(item.proved for item in record.findings) else "claimed"
    return Section(
        "What an audit could show of it",
        notes=(
            f"Filled: shown. Outlined: what so many trials could have shown at most. Line: {limit}.",
            f"{record.sessions} sessions of the real protocol on {record.people}; lower bounds hold with 95 % "
            "confidence each.",
            verdict(record),
        ),
        pictures=[audit_picture(record.findings)],
        lines=[f"{item.about}: {sentence(item)}" for item in record.findings],
        bad=any(item.exceeded and item.proved for item in record.findings),
    )
