"""How a ledger came to where it stands: each account's ε after each charge, as rows and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from colonnade.data.spreadsheets import csv_text
from colonnade.ledger.chain import Entry
from colonnade.ledger.state import LedgerState
from colonnade.report.charts import Axes, Chart, Series
from colonnade.report.curves import draw
from colonnade.report.facts import entry_text

COLUMNS = (
    "entry",
    "time",
    "kind",
    "what",
    "run",
    "receiver",
    "dataset",
    "unit",
    "observer",
    "epsilon_total",
    "delta",
    "budget_epsilon",
    "left",
    "private",
    "hash",
)


@dataclass(frozen=True)
class Standing:
    """One account after one entry: what it has lost by then, and of which budget."""

    entry: Entry
    dataset: str
    unit: str
    observer: str
    epsilon: float
    delta: float
    budget: float
    left: float
    private: bool

    @property
    def account(self) -> str:
        return f"{self.observer}, {self.unit} of {self.dataset}"


def history(entries: Sequence[Entry]) -> tuple[Standing, ...]:
    """Every account's standing after each charge and each budget that changed it, in order."""
    running_state, standings = LedgerState("the history"), []
    last: dict[tuple[str, str, str], tuple[float, float, float, int]] = {}
    for entry in entries:
        running_state.read(entry)
        if entry.kind not in ("charge", "budget"):
            continue
        for total in running_state.totals():
            account = (total.dataset, total.unit, total.observer)
            state = (total.epsilon, total.delta, total.budget_epsilon, total.entries)
            if last.get(account) == state:
                continue
            last[account] = state
            standings.append(
                Standing(
                    entry,
                    *account,
                    epsilon=total.epsilon,
                    delta=total.delta,
                    budget=total.budget_epsilon,
                    left=total.left,
                    private=not total.reproducible,
                )
            )
    return tuple(standings)


def history_csv(entries: Sequence[Entry]) -> str:
    """The history as a table for a spreadsheet: one line for each account that an entry changed."""
    rows: list[Sequence[object]] = [COLUMNS]
    for item in history(entries):
        entry = item.entry
        release = entry.body["release"] if entry.kind == "charge" else {}
        rows.append(
            [
                entry.seq,
                entry.time,
                entry.kind,
                entry_text(entry),
                release.get("run", ""),
                release.get("receiver", ""),
                item.dataset,
                item.unit,
                item.observer,
                item.epsilon,
                item.delta,
                item.budget,
                item.left,
                "yes" if item.private else "no",
                entry.hash,
            ]
        )
    return csv_text(rows)


def draw_timeline(path: Path, entries: Sequence[Entry], *, party: str) -> None:
    """Draw the timeline into a file; a `ValueError` where no account has a history yet."""
    chart = timeline(entries, party=party)
    draw(path, chart.lines, chart.axes, title=chart.title)


def timeline(entries: Sequence[Entry], *, party: str) -> Chart:
    """A picture of how much of each budget was spent after each entry; 1 is all of it."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for item in history(entries):
        xs, ys = lines.setdefault(item.account, ([], []))
        share = item.epsilon / item.budget
        if ys:  # a step, not a slope: nothing was spent in between
            xs.append(float(item.entry.seq))
            ys.append(ys[-1])
        xs.append(float(item.entry.seq))
        ys.append(share)
    end = float(entries[-1].seq)
    drawn = [Series(name, (*xs, end), (*ys, ys[-1])) for name, (xs, ys) in lines.items()]
    axes = Axes("entry of the ledger", "share of the budget spent", whole_x=True)
    return Chart(f"What has left {party}", axes, tuple(drawn))
