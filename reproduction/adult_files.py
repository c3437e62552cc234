"""Adult (census income) as two organisations would bring it to `colonnade compare`: tables, schemas, party files, jobs.

Twelve columns between a bank, which knows who earns more than 50,000 dollars, and an employer. Bounds and categories
are those of the published description. Both declare the data public, which it is.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.public_data import ADULT_BANK, ADULT_EMPLOYER, PublicSet
from colonnade.data.kinds import Column

DELTA = 1e-5
PARTIES: dict[str, tuple[Column, ...]] = {"bank": ADULT_BANK, "employer": ADULT_EMPLOYER}
HOLDER = "bank"


def write_adult(folder: Path, people: PublicSet, options: Mapping[str, Mapping[str, Any]]) -> dict[str, Path]:
    """Everything a comparison needs, in one folder; a job for each method, with what is chosen about it."""
    folder.mkdir(parents=True, exist_ok=True)
    for party, columns in PARTIES.items():
        names = [column.name for column in columns]
        values = [people.rows[name] for name in names]
        if party == HOLDER:
            names.append(people.label.column)
            values.append(people.labels)
        with (folder / f"{party}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["person", *names])
            writer.writerows((number, *row) for number, row in enumerate(zip(*values, strict=True)))
        schema = _schema(columns, people.label.to_data() if party == HOLDER else None)
        (folder / f"{party}.schema.toml").write_text(schema, encoding="utf-8")
        (folder / f"{party}.toml").write_text(_party(party), encoding="utf-8")
    jobs = {}
    for method, chosen in options.items():
        jobs[method] = folder / f"{method}.toml"
        jobs[method].write_text(_job(method, chosen), encoding="utf-8")
    return jobs


def _schema(columns: tuple[Column, ...], label: Mapping[str, Any] | None) -> str:
    lines = ['id = "person"']
    for column in columns:
        data = {key: value for key, value in column.to_data().items() if key != "name" and value is not None}
        lines.append(f"columns.{column.name} = {_toml(data)}")
    if label is not None:
        lines.append(f"label = {_toml(label)}")
    return "\n".join(lines) + "\n"


def _party(party: str) -> str:
    return f"""party = "{party}"
data = "{party}.csv"
schema = "{party}.schema.toml"
dataset = "census income"
ledger = "{party}.ledger"
public = true

[[budget]]
epsilon = 1.0
delta = {DELTA}
"""


def _job(method: str, options: Mapping[str, Any]) -> str:
    chosen = "".join(f"{key} = {_toml(value)}\n" for key, value in options.items())
    return f"""name = "Census income, 45,222 people, two organisations"
task = "classification"
method = "{method}"
parties = {_toml(list(PARTIES))}
active = "{HOLDER}"
epsilon = 1.0
delta = {DELTA}

[options]
{chosen}"""


def _toml(value: Any) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)
