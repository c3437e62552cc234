"""What stands on the pages of a board, as facts: made by the functions that verbs call, and in their words."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from markupsafe import Markup

from colonnade.board.workspace import LedgerView, OwnFile, Workspace
from colonnade.data.documents import without_passwords
from colonnade.data.drafting import draft
from colonnade.data.schema import Schema
from colonnade.data.table import check_schema
from colonnade.errors import ColonnadeError, InputError, LedgerLocked
from colonnade.federation.party_file import PartyFile
from colonnade.privacy.observers import observer_text, unit_text
from colonnade.report.charts import svg
from colonnade.report.ledgers import history, timeline
from colonnade.report.plain import duration_text, merged
from colonnade.report.text import budgets_section, declared_text
from colonnade.runtime.identity import fingerprint
from colonnade.sites.approval import Request
from colonnade.sites.presence import Presence

Facts = dict[str, Any]
SHOWN_RUNS, A_PAGE, SHOWN_ENTRIES = 8, 50, 100
SOON_DAYS = 30


def overview(workspace: Workspace) -> Facts:
    ledgers, listed = workspace.ledgers(), workspace.runs.listed()
    going = list(takewhile(lambda one: one.open, listed))
    said = budgets_section({one.party: one.ledger for one in ledgers if not one.error})
    broken = [one for one in ledgers if one.error]
    problems = [str(one.error) for one in broken]
    problems += [one.error for one in workspace.own_files() if one.error]
    try:
        waiting = workspace.requests()
    except ColonnadeError as error:
        waiting, problems = (), list(dict.fromkeys((*problems, str(error))))
    seeded = [one.party for one in ledgers if not one.error and not all(t.private for t in one.ledger.totals)]
    if ledgers and not said.table:
        said = replace(said, title="Nothing has been charged yet")
    if broken:
        locked = isinstance(broken[0].error, LedgerLocked)
        trouble = "is held by another process" if locked else "cannot be relied on"
        said = replace(said, title=f"The ledger of {broken[0].party} {trouble}", bad=True)
    return {
        "verdict": said,
        "problems": problems,
        "seeded": seeded,
        "waiting": waiting,
        "ledgers": [ledger_totals(one) for one in ledgers if not one.error],
        "broken": [(one.key, one.party) for one in broken],
        "going": [workspace.runs.line(one) for one in going[:SHOWN_RUNS]],
        "going_count": len(going),
        "runs": [workspace.runs.line(one) for one in listed[len(going) : len(going) + SHOWN_RUNS]],
        "count": len(listed) - len(going),
        "certificate": certificate(workspace),
        "peers": peers(ledgers),
    }


def ledger_totals(view: LedgerView) -> Facts:
    totals = merged(view.ledger.totals)
    datasets = list(dict.fromkeys(one.total.dataset for one in totals))
    return {
        "key": view.key,
        "party": view.party,
        "datasets": [
            {"name": name, "totals": [one for one in totals if one.total.dataset == name]}
            for name in datasets
        ],
        "exact": view.ledger.exact,
        "verified": view.ledger.verified,
    }


def certificate(workspace: Workspace) -> Facts | None:
    if workspace.kit is None:
        return None
    issued = workspace.kit.identity().certificate
    presence = Presence.load(workspace.kit.path)
    seconds = None if presence is None else presence.seconds_since_contact()
    left = (issued.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days
    return {
        "name": workspace.name,
        "days": left,
        "fingerprint": fingerprint(issued),
        "fine": left > SOON_DAYS,
        "server": f"{workspace.kit.address[0]}:{workspace.kit.address[1]}",
        "heard": "never" if seconds is None else f"{duration_text(seconds)} ago",
        "refused": "" if presence is None else presence.refused,
    }


def peers(ledgers: list[LedgerView]) -> list[tuple[str, str]]:
    """Peers, and when these ledgers last noted something from each: a receipt, or ids that were compared."""
    last: dict[str, str] = {}
    for view in ledgers:
        for entry in view.entries:
            body = entry.body
            names = [body["party"]] if entry.kind == "receipt" else body.get("partners", ())
            for name in names if entry.kind in ("receipt", "compared") else ():
                last[str(name)] = max(entry.time, last.get(str(name), ""))
    return [(name, moment(when)) for name, when in sorted(last.items())]


def moment(time: str) -> str:
    return f"{time[:16].replace('T', ' ')} UTC" if time else ""


def _page_of(items: Sequence[Any], page: int, size: int) -> Facts:
    pages = max(1, math.ceil(len(items) / size))
    page = min(max(1, page), pages)
    shown = items[(page - 1) * size : page * size]
    return {"shown": shown, "count": len(items), "page": page, "pages": pages}


def runs(workspace: Workspace, page: int, part: str) -> Facts:
    """One page of the list of runs, those that go on first; `part` is of a folder's name."""
    listed = [one for one in workspace.runs.listed() if part.casefold() in one.name.casefold()]
    facts = _page_of(listed, page, A_PAGE)
    lines = [workspace.runs.line(one) for one in facts["shown"]]
    return {**facts, "lines": lines, "part": part, "folder": str(workspace.runs.folder)}


def request(entry: Request) -> Facts:
    return {
        "approval": entry,
        "since": moment(entry.requested),
        "until": moment(entry.until),
        "missing": max(0, entry.people - len(entry.approvals)),
        "costs": [
            {"who": observer_text(one.observer), "about": unit_text(one.unit, owner=entry.party), "cost": one}
            for one in entry.costs
        ],
        "decisions": [(one.by, one.approved, one.because, moment(one.time)) for one in entry.decisions],
    }


def ledger(view: LedgerView, page: int) -> Facts:
    if view.error:
        return {"party": view.party, "error": str(view.error), "path": str(view.path)}
    drawn = any(math.isfinite(item.total.budget_epsilon) for item in history(view.entries))
    return {
        "error": "",
        "path": str(view.path),
        **ledger_totals(view),
        **_page_of(view.ledger.entries[::-1], page, SHOWN_ENTRIES),
        "fits": view.ledger.totals,
        "witnesses": view.witnesses,
        "receipts": kept_receipts(view),
        # Names are escaped by the drawing itself.
        "picture": Markup(svg(timeline(view.entries, party=view.party), narrow=True)) if drawn else "",  # noqa: S704
    }


def kept_receipts(view: LedgerView) -> list[tuple[str, str, str, str]]:
    """Whose receipts this ledger keeps: the peer, how many, of which of its entries the last, and since when."""
    last: dict[str, tuple[int, int, str]] = {}
    for entry in view.entries:
        if entry.kind == "receipt":
            name = str(entry.body["party"])
            last[name] = (last.get(name, (0,))[0] + 1, int(entry.body["entry"]), entry.time)
    return [
        (name, str(count), str(number), moment(when)) for name, (count, number, when) in sorted(last.items())
    ]


def data(own: OwnFile) -> Facts:
    """A party's schema and what its file has: names and kinds only, and what is wrong between the two."""
    if own.file is None:
        return {"error": own.error, "columns": []}
    file = own.file
    facts: Facts = {"key": own.path.stem, "file": file, "error": "", "columns": [], "findings": []}
    try:
        checked = check_schema(file.schema, file.data, party=file.party)
        drafted = draft(file.data, party=file.party)
    except (ColonnadeError, OSError) as error:
        return facts | {"error": str(error)}
    blank = [f"{where}: left blank." for where in checked.blank]
    facts["findings"] = [*blank, *checked.absent, *filter(None, [checked.mistake])]
    has = {**({drafted.id: "id"} if drafted.id else {}), **drafted.kinds}
    declared = _declared(file)
    facts["columns"] = [
        (name, declared.get(name, "not declared"), has.get(name, "not there")) for name in declared | has
    ]
    return facts


def _declared(file: PartyFile) -> dict[str, str]:
    """What a party's schema says of each column; nothing where it cannot be read."""
    try:
        schema = Schema.load(file.schema)
    except ColonnadeError:
        return {}
    described: Facts = dict(schema.public(file.party).to_data())
    declared = dict.fromkeys(schema.id_columns, "the id")
    declared |= {column["name"]: declared_text(column) for column in described["columns"]}
    label = described.get("label")
    return declared | ({label["column"]: f"the label: {declared_text(label)}"} if label else {})


def checked_rows(own: OwnFile) -> Facts:
    if own.file is None:
        raise InputError(own.error)
    facts: Facts = {"party": own.file.party, "source": str(own.file.data), "error": "", "warning": ""}
    try:
        table = own.file.table().check()
    except ColonnadeError as error:
        return facts | {"error": f"{error.number} {without_passwords(str(error))}", "clipped": []}
    clipped = [
        (name, str(count), f"{100 * count / max(1, table.rows):.1f} %")
        for name, count in table.clipping.counts.items()
        if count
    ]
    return facts | {"rows": table.rows, "warning": table.clipping.warning, "clipped": clipped}
