"""Facts as lines that can be read without colour."""

from __future__ import annotations

from colonnade.report.facts import Facts

NOT_PRIVATE = "No privacy: the noise of this run came from a seed and can be taken out again."


def run_text(facts: Facts) -> str:
    """What a person wants to know after a run, in the order they ask."""
    lines = [f"{facts['name']}: {facts['task']} on {facts['rows']} people, run {facts['run'][:12]}"]
    for party in facts["parties"]:
        label = ", and the label" if party["holds_label"] else ""
        lines.append(f"  {party['name']} brought {len(party['columns'])} columns{label}")
    lines += ["", "What each observer could learn:"]
    if not facts["private"]:
        lines.append(f"  {NOT_PRIVATE}")
    lines += [f"  {guarantee['sentence']}" for guarantee in facts["guarantees"]]
    if facts["measured"]:
        lines += ["", "Measured on data declared public:"]
        lines += [f"  {what}: {value:.3f}" for what, value in facts["measured"].items()]
    traffic = facts["traffic"]
    lines += ["", f"Sent: {size_text(traffic['bytes'])} in {traffic['rounds']} rounds."]
    lines += ["", "Budgets after this run:"]
    for ledger in facts["ledgers"].values():
        lines += [f"  {line}" for line in totals_lines(ledger)]
    return "\n".join(lines)


def totals_lines(ledger: Facts) -> list[str]:
    """One line for each account of a ledger."""
    lines = []
    for total in ledger["totals"]:
        tainted = "" if total["private"] else "  (includes noise from a seed: no privacy)"
        lines.append(
            f"{ledger['party']}, data set {total['dataset']}, unit {total['unit']}, seen by {total['observer']}: "
            f"ε = {total['epsilon']:.3g} of {total['budget']:.3g} spent at δ = {total['delta']:.0e}, "
            f"{total['left']:.3g} left{tainted}"
        )
    return lines or [f"{ledger['party']}: nothing charged, no budget declared"]


def size_text(size: int) -> str:
    """Bytes in a unit that people read.

    >>> size_text(1536), size_text(12)
    ('1.5 kB', '12 B')
    """
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1024 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{size} B"
