"""A job that is being thought of on the board: whose columns are known here, and what a form asks of them.

Nothing of it is on the disk until somebody saves it. A job takes every column that a party declares, so fewer columns
are a schema of their own: where some are left out, each party whose file lies here gets a second schema and party file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from colonnade.board.place import OwnFile, Place
from colonnade.cli.runs.run_folders import FACTS, read_run
from colonnade.data.documents import toml_text
from colonnade.data.schema import PublicSchema, Schema
from colonnade.errors import CannotWrite, ColonnadeError, InputError, NameTaken
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile
from colonnade.federation.whole_files import make_folder, write_whole

Form = Mapping[str, str]
_SCHEMA = ".schema.toml"
_LOOKED_AT = 20
_LONGEST = 60
_PLACE = "the plan"


@dataclass(frozen=True)
class Declared:
    """A party that can be planned with: what it declares, and its own file where that lies here."""

    schema: PublicSchema
    known_from: str
    file: PartyFile | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.schema.columns)


@dataclass(frozen=True)
class Draft:
    """What a form asks for, checked: the job and its text, the columns that were chosen, and for how many people."""

    text: str
    job: Job
    declared: Mapping[str, Declared]
    schemas: Mapping[str, PublicSchema]
    rows: int
    every: bool

    @property
    def files(self) -> dict[str, PartyFile]:
        files = {party: self.declared[party].file for party in self.job.parties}
        return {party: file for party, file in files.items() if file is not None}

    @property
    def narrowed(self) -> dict[str, PublicSchema]:
        """The parties of which columns were left out, with those that were not."""
        return {
            party: schema for party, schema in self.schemas.items() if schema != self.declared[party].schema
        }


def declared_here(place: Place) -> dict[str, Declared]:
    """Whose columns are known here: by party files, by schemas beside them, and by runs that parties took part in."""
    own = place.own_files()
    declared: dict[str, Declared] = {}
    # Of several files of one party the one that goes by its name.
    for one in sorted(own, key=lambda one: one.file is None or one.path.stem != one.file.party):
        if one.file is not None and one.file.party not in declared:
            declared[one.file.party] = _of_file(one.file)
    for folder in {place.folder, *(one.path.parent for one in own)}:
        for path in sorted(folder.glob(f"*{_SCHEMA}")):
            party = path.name.removesuffix(_SCHEMA)
            if party not in declared and _is_name(party):
                declared[party] = Declared(Schema.load(path).public(party), str(path))
    if place.kit is not None:
        for party, schema in _met(place, own).items():
            declared.setdefault(party, schema)
    return declared


def _is_name(party: str) -> bool:
    return "." not in party


def _of_file(file: PartyFile) -> Declared:
    return Declared(Schema.load(file.schema).public(file.party), str(file.schema), file)


def _met(place: Place, own: list[OwnFile]) -> dict[str, Declared]:
    met: dict[str, Declared] = {}
    mine = {one.file.party for one in own if one.file is not None}
    ended = (one for one in place.runs.listed() if not one.open)
    for listed in islice(ended, _LOOKED_AT):
        path = place.runs.folder / listed.name
        try:
            if not (path / FACTS).is_file():
                continue
            schemas = read_run(path).facts["plan"]["schemas"]
            for party, described in schemas.items():
                if party not in met and party not in mine:
                    schema = PublicSchema.from_data(described)
                    met[party] = Declared(schema, f"the run {listed.name}")
        except (ColonnadeError, KeyError, TypeError, AttributeError):
            continue
    return met


def fields_of(place: Place, base: str) -> dict[str, str]:
    """What stands in the form at first: what a job file here says, or what most people begin with."""
    fields = {"name": "a new job", "epsilon": "1", "held_out": "0.2", "rows": "", "delta": "", "method": ""}
    if not base:
        return fields
    data = _base(place, base)
    named = {name: str(data[name]) for name in (*fields, "task") if name in data}
    parties = {f"party:{party}": "on" for party in data.get("parties", ())}
    return {**fields, "held_out": "", **named, **parties, "base": base}


def _base(place: Place, name: str) -> dict[str, Any]:
    for path in place.job_files():
        if path.name == name:
            Job.load(path)
            return tomllib.loads(path.read_text(encoding="utf-8"))
    raise InputError(f"there is no job {name!r} here to begin with. It may have been removed since.")


def draft_of(place: Place, form: Form, *, by: str) -> Draft:
    """What a form asks for; a `ColonnadeError` says which field is wrong."""
    declared = declared_here(place)
    parties = [party for party in declared if form.get(f"party:{party}")]
    if len(parties) < 2:
        raise InputError(f"{_PLACE}, parties: found {len(parties)}; choose at least two who take part.")
    schemas = {party: _chosen(declared[party].schema, form) for party in parties}
    data = _job_data(place, form, parties, schemas)
    lines = [f"# Written on the board by {by}.", *_columns_said(declared, schemas)]
    text = "\n".join([*(_comment(line) for line in lines), toml_text(data)])
    job = Job.parse(text, name=_PLACE)
    files = {party: declared[party].file for party in parties}
    return Draft(text, job, declared, schemas, _rows(form, files), bool(form.get("every")))


def _comment(line: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in line)


def _columns_said(declared: Mapping[str, Declared], schemas: Mapping[str, PublicSchema]) -> list[str]:
    """For whoever gets the file: the columns that were planned with, where some were left out."""
    return [
        f"# Planned with these columns of {party}: {', '.join(column.name for column in schema.columns) or 'none'}."
        for party, schema in schemas.items()
        if schema != declared[party].schema
    ]


def _chosen(schema: PublicSchema, form: Form) -> PublicSchema:
    kept = tuple(column for column in schema.columns if form.get(f"column:{schema.party}:{column.name}"))
    if not kept and schema.label is None:
        raise InputError(f"{_PLACE}, columns: none of {schema.party} is chosen. Choose one, or leave it out.")
    return replace(schema, columns=kept)


def _job_data(
    place: Place, form: Form, parties: list[str], schemas: Mapping[str, PublicSchema]
) -> dict[str, Any]:
    before = _base(place, form["base"]) if form.get("base") else {}
    holders = [party for party in parties if schemas[party].label is not None]
    chosen: dict[str, Any] = {
        "name": form.get("name", "").strip(),
        "task": form.get("task", ""),
        "method": form.get("method") or None,
        "parties": parties,
        "active": holders[0] if holders and form.get("task") != "pca" else None,
        "epsilon": _number(form, "epsilon"),
        "delta": _number(form, "delta", optional=True),
        "held_out": _number(form, "held_out", optional=True),
    }
    kept = {name: value for name, value in before.items() if name not in chosen}
    if before.get("method") != chosen["method"]:
        kept.pop("options", None)
    return {name: value for name, value in {**chosen, **kept}.items() if value is not None}


def _number(form: Form, field: str, *, optional: bool = False) -> float | None:
    text = form.get(field, "").strip().replace(",", ".")
    if not text and optional:
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{_PLACE}, {field}: {text[:_LONGEST]!r} is no number.") from None


def _rows(form: Form, files: Mapping[str, PartyFile | None]) -> int:
    text = form.get("rows", "").strip()
    if text:
        if not text.isascii() or not text.isdecimal() or len(text) > 12 or not int(text):
            raise InputError(f"{_PLACE}, people: {text[:_LONGEST]!r} is no number of people from 1.")
        return int(text)
    absent = [party for party, file in files.items() if file is None]
    if absent:
        raise InputError(
            f"{_PLACE}, people: say how many the parties are expected to have in common. The rows of "
            f"{', '.join(absent)} cannot be counted here."
        )
    return min(file.table().rows for file in files.values() if file is not None)


def save(draft: Draft, place: Place) -> list[Path]:
    """Write the job's file, and where columns were left out the schemas and party files of those who are here."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", draft.job.name).strip("-")[:_LONGEST] or "job"
    texts = {place.jobs / f"{stem}.toml": draft.text}
    for party, schema in draft.narrowed.items():
        file = draft.declared[party].file
        if file is not None:
            texts |= _own_texts(file, schema, stem)
    for path in texts:
        if path.exists() or path.is_symlink():
            raise NameTaken(f"{path} exists already. Give the job another name, or remove that file first.")
    try:
        make_folder(place.jobs)
        for path, text in texts.items():
            write_whole(path, text, own=path.parent != place.jobs or path.stem != stem)
    except OSError as error:
        raise CannotWrite(f"{error.filename} cannot be written ({error.strerror}).") from None
    return list(texts)


def _own_texts(file: PartyFile, chosen: PublicSchema, stem: str) -> dict[Path, str]:
    kept = {column.name for column in chosen.columns}
    whole = Schema.load(file.schema)
    data = replace(whole, columns=tuple(column for column in whole.columns if column.name in kept)).to_data()
    described: Any = data["columns"]
    columns = {
        column["name"]: {name: value for name, value in column.items() if name != "name"}
        for column in described
    }
    path = file.path.with_name(f"{stem}.{file.party}.toml")
    schema = path.with_name(f"{stem}.{file.party}{_SCHEMA}")
    named = {**tomllib.loads(file.path.read_text(encoding="utf-8")), "schema": schema.name}
    return {schema: toml_text({**data, "columns": columns}), path: toml_text(named)}


def next_steps(draft: Draft, saved: list[Path], place: Place) -> list[str]:
    """The commands that go on with a job that was saved."""
    job, own = saved[0], [path for path in saved[1:] if not path.name.endswith(_SCHEMA)]
    if place.kit is None:
        given = "".join(f" --party {path}" for path in _all_files(draft, own)) if own else ""
        return [f"colonnade train {job}{given}"]
    started = [f"colonnade party start {place.folder} --party {path} --policy POLICY" for path in own]
    return [*started, f"colonnade job submit {job} --kit ADMIN-KIT"]


def _all_files(draft: Draft, own: list[Path]) -> list[Path]:
    changed = {PartyFile.load(path).party: path for path in own}
    return [changed.get(party, file.path) for party, file in draft.files.items()]
