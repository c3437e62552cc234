"""What stands on the pages of a board, as facts: made by the functions of the command line, and in its words."""

from __future__ import annotations

import datetime
import math
from itertools import takewhile
from typing import Any

from markupsafe import Markup

from colonnade.board.place import LedgerView, OwnFile, Place
from colonnade.board.plans import cost_lines
from colonnade.cli.doctor.findings import Finding
from colonnade.cli.doctor.job_files import examine_party
from colonnade.report.ledgers import opened
from colonnade.data.drafting import check_schema, draft
from colonnade.data.schema import Schema
from colonnade.errors import ColonnadeError, LedgerLocked
from colonnade.federation.approval import Request
from colonnade.report.accounts import merged
from colonnade.report.charts import svg
from colonnade.report.numbers import duration_text
from colonnade.report.text import declared_text
from colonnade.report.timeline import history, timeline
from colonnade.report.verdict import verdict
from colonnade.runtime.identity import fingerprint
from colonnade.runtime.presence import Presence

Facts = dict[str, Any]
SHOWN_RUNS, A_PAGE, SHOWN_ENTRIES = 8, 50, 100
SOON_DAYS = 30


def overview(place: Place) -> Facts:
    """Whether every budget holds, what waits, what runs, and who has been heard of."""
    ledgers, listed = place.ledgers(), place.runs.listed()
    going = list(takewhile(lambda one: one.open, listed))
    said = verdict(
        {
            "private": True,
            "ledgers": {one.party: one.facts for one in ledgers if not one.error},
            "run": "",
            "guarantees": [],
        }
    )
    broken = [one for one in ledgers if one.error]
    problems = [str(one.error) for one in broken]
    problems += [one.error for one in place.own_files() if one.error]
    try:
        waiting = place.requests()
    except ColonnadeError as error:
        waiting, problems = (), list(dict.fromkeys((*problems, str(error))))
    seeded = [
        one.party for one in ledgers if not one.error and not all(t["private"] for t in one.facts["totals"])
    ]
    if ledgers and not said["left"]:
        said["headline"] = "Nothing has been charged yet"
    if broken:
        held = isinstance(broken[0].error, LedgerLocked)
        trouble = "is held by another process" if held else "cannot be relied on"
        said |= {"kept": False, "headline": f"The ledger of {broken[0].party} {trouble}"}
    return {
        "verdict": said,
        "problems": problems,
        "seeded": seeded,
        "waiting": waiting,
        "ledgers": [ledger_totals(one) for one in ledgers if not one.error],
        "broken": [(one.key, one.party) for one in broken],
        "going": [place.runs.line(one) for one in going[:SHOWN_RUNS]],
        "going_count": len(going),
        "runs": [place.runs.line(one) for one in listed[len(going) : len(going) + SHOWN_RUNS]],
        "count": len(listed) - len(going),
        "certificate": certificate(place),
        "peers": peers(ledgers),
    }


def ledger_totals(view: LedgerView) -> Facts:
    """Where the accounts of one ledger stand, equal ones as one."""
    totals = merged(view.facts["totals"])
    datasets = list(dict.fromkeys(total["dataset"] for total in totals))
    return {
        "key": view.key,
        "party": view.party,
        "datasets": [
            {"name": name, "totals": [one for one in totals if one["dataset"] == name]} for name in datasets
        ],
        "exact": view.facts["exact"],
        "verified": view.facts["verified"],
    }


def certificate(place: Place) -> Facts | None:
    """The kit's certificate and how long it is good for; None without a kit."""
    if place.kit is None:
        return None
    issued = place.kit.identity().certificate
    presence = Presence.load(place.kit.path)
    seconds = None if presence is None else presence.seconds_since_heard()
    left = (issued.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days
    return {
        "name": place.name,
        "days": left,
        "fingerprint": fingerprint(issued),
        "fine": left > SOON_DAYS,
        "server": f"{place.kit.address[0]}:{place.kit.address[1]}",
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
    """A time as people read it, to the minute."""
    return f"{time[:16].replace('T', ' ')} UTC" if time else ""


def runs(place: Place, page: int, wanted: str) -> Facts:
    """One page of the list of runs, those that go on first; `wanted` is part of a folder's name."""
    listed = place.runs.listed()
    if wanted:
        listed = tuple(one for one in listed if wanted.casefold() in one.name.casefold())
    pages = max(1, math.ceil(len(listed) / A_PAGE))
    page = min(max(1, page), pages)
    return {
        "lines": [place.runs.line(one) for one in listed[(page - 1) * A_PAGE : page * A_PAGE]],
        "count": len(listed),
        "page": page,
        "pages": pages,
        "wanted": wanted,
        "folder": str(place.runs.folder),
    }


def request(asked: Request) -> Facts:
    """A job that waits, with what each observer would learn in plain words and what would be left."""
    return {
        "asking": asked,
        "asked": moment(asked.asked),
        "until": moment(asked.until),
        "missing": max(0, asked.people - len(asked.approvals)),
        "costs": cost_lines(asked.costs, asked.party),
        "decisions": [(one.by, one.approved, one.because, moment(one.time)) for one in asked.decisions],
    }


def ledger(view: LedgerView, page: int) -> Facts:
    """A ledger: totals, what would still fit, its history as a picture and as entries, the latest first."""
    if view.error:
        return {"party": view.party, "error": str(view.error), "path": str(view.path)}
    entries = view.facts["entries"][::-1]
    pages = max(1, math.ceil(len(entries) / SHOWN_ENTRIES))
    page = min(max(1, page), pages)
    drawn = [item for item in history(view.entries) if math.isfinite(item.budget)]
    return {
        "error": "",
        "path": str(view.path),
        **ledger_totals(view),
        "fits": view.facts["totals"],
        "entries": entries[(page - 1) * SHOWN_ENTRIES : page * SHOWN_ENTRIES],
        "count": len(entries),
        "page": page,
        "pages": pages,
        "head": view.facts["head"],
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
    """A party's schema beside what its file has: names and kinds only, and what is wrong between the two."""
    if own.file is None:
        return {"path": str(own.path), "error": own.error, "columns": [], "findings": []}
    file = own.file
    facts: Facts = {
        "path": str(own.path),
        "key": own.path.stem,
        "party": file.party,
        "dataset": file.dataset,
        "source": str(file.data),
        "schema": str(file.schema),
        "error": "",
        "columns": [],
        "findings": [],
    }
    try:
        looked = check_schema(file.schema, file.data, party=file.party)
        facts["findings"] = [
            *(f"{where}: left blank." for where in looked.blank),
            *looked.absent,
            *filter(None, [looked.mistake]),
        ]
        drafted = draft(file.data, party=file.party)
        has = {**({drafted.id: "id"} if drafted.id else {}), **drafted.kinds}
    except (ColonnadeError, OSError) as error:
        return facts | {"error": str(error)}
    try:
        schema = Schema.load(file.schema)
    except ColonnadeError:
        return facts | {"columns": [(name, "not declared", kind) for name, kind in has.items()]}
    described: Facts = dict(schema.public(file.party).to_data())
    declared = dict.fromkeys(schema.id_columns, "the id")
    declared |= {column["name"]: declared_text(column) for column in described["columns"]}
    if described.get("label"):
        label = described["label"]
        declared[label["column"]] = f"the label: {declared_text(label)}"
    names = [*declared, *(name for name in has if name not in declared)]
    facts["columns"] = [
        (name, declared.get(name, "not declared"), has.get(name, "not there")) for name in names
    ]
    return facts


def checked(own: OwnFile, place: Place) -> tuple[list[Finding], list[tuple[str, str, str]]]:
    """What reading every row finds, and how many values of each column lie outside their bounds."""
    if own.file is None:
        return [], []
    ledgers = {}
    for other in place.own_files():
        if other.file is not None and other.file.ledger.exists():
            try:
                ledgers[other.file.party] = opened(other.file.ledger, patience=place.patience)
            except ColonnadeError:
                continue
    findings = list(examine_party(own.file, ledgers))
    clipped: list[tuple[str, str, str]] = []
    try:
        table = own.file.table().check()
        rows = max(1, table.rows)
        clipped = [
            (name, str(count), f"{100 * count / rows:.1f} %")
            for name, count in table.clipping.counts.items()
            if count
        ]
    except ColonnadeError:
        # What is wrong stands among the findings.
        pass
    return findings, clipped
