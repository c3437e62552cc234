"""TOML files whose mistakes can be pointed at: file, line, field, value found, nearest valid choice.

What such a file says is written by a person and public to that person, so its values may be quoted; values
from data files never are.
"""

from __future__ import annotations

import re
import tomllib
import types
import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from colonnade.data.declaring import nearest
from colonnade.errors import InputError

FormT = TypeVar("FormT", bound="Form")

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"^\s*\[\[?\s*({_DOTTED})\s*\]\]?")
_ASSIGNMENT = re.compile(rf"^\s*({_DOTTED})\s*=")


class Form(BaseModel):
    """The shape of a file or of a part of one: exact types, no unknown keys.

    >>> class Job(Form):
    ...     epsilon: float
    >>> Document.parse("epsilon = 1", "job.toml", error=InputError).check(Job, error=InputError).epsilon
    1.0
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Document:
    """A parsed TOML text that remembers where its keys stand.

    >>> text = 'id = "customer"' + chr(10) + '[columns.age]' + chr(10) + 'low = 17'
    >>> Document.parse(text, "bank.toml", error=InputError).where(("columns", "age", "low"))
    'bank.toml, line 3, columns.age.low'
    """

    name: str
    text: str
    data: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, name: str, *, error: type[InputError]) -> Document:
        """The document in a text; `name` is how messages call it."""
        try:
            return cls(name, text, tomllib.loads(text))
        except tomllib.TOMLDecodeError as wrong:
            raise error(f"{name} is not TOML: {wrong}.") from None

    @classmethod
    def load(cls, path: str | Path, *, error: type[InputError]) -> Document:
        """The document in a file."""
        path = Path(path)
        if path.is_dir():
            raise error(f"{path} is a directory; a TOML file was expected.")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise error(f"{path} does not exist." + nearest_file(path)) from None
        except UnicodeDecodeError:
            raise error(f"{path} is not UTF-8 text, as TOML must be.") from None
        except OSError as wrong:
            raise error(f"{path} cannot be read: {wrong.strerror}.") from None
        return cls.parse(text, str(path), error=error)

    def where(self, path: Sequence[str | int]) -> str:
        """File, line if it can be told, and field."""
        line = self.line(path)
        field = ".".join(str(piece) for piece in path)
        return ", ".join(part for part in (self.name, f"line {line}" if line else "", field) if part)

    def line(self, path: Sequence[str | int]) -> int | None:
        """The line on which a key, or the closest key or table around it, stands."""
        wanted = tuple(str(piece) for piece in path)
        table: tuple[str, ...] = ()
        best, depth = None, 0
        items: Counter[tuple[str, ...]] = Counter()
        for number, line in enumerate(self.text.splitlines(), start=1):
            if header := _HEADER.match(line):
                table = found = _keys(header[1])
                if line.lstrip().startswith("[["):
                    # The items of a list of tables are counted from 0; the first also stands for the list.
                    table = (*found, str(items[found]))
                    items[found] += 1
                    found = table if table == wanted[: len(table)] else found
            elif assignment := _ASSIGNMENT.match(line):
                found = table + _keys(assignment[1])
            else:
                continue
            if len(found) > depth and found == wanted[: len(found)]:
                best, depth = number, len(found)
        return best

    def check(self, form: type[FormT], *, error: type[InputError]) -> FormT:
        """This document in the shape of `form`, or `error` for its first mistake."""
        return check(form, self.data, error=error, document=self)


def check(
    form: type[FormT],
    data: object,
    *,
    error: type[InputError],
    document: Document | None = None,
    name: str = "",
    prefix: tuple[str, ...] = (),
) -> FormT:
    """`data` in the shape of `form`; the first mistake is an `error` that says where and what instead.

    `prefix` is where in the document the data stands.

    >>> class Job(Form):
    ...     epsilon: float
    >>> check(Job, {"epsilon": 1, "epsilom": 2}, error=InputError, name="job")
    Traceback (most recent call last):
    colonnade.errors.InputError: job, epsilom: unknown key 'epsilom'; known are epsilon. Did you mean 'epsilon'?
    """
    try:
        return form.model_validate(data)
    except ValidationError as wrong:
        found = wrong.errors(include_url=False)
        # A misspelt key also shows as a missing one; the misspelling is what the reader can find in the file.
        first = min(found, key=lambda one: one["type"] != "extra_forbidden")
    path, valid = _walk(form, first["loc"])
    place = (
        document.where((*prefix, *path))
        if document
        else ", ".join(part for part in (name, ".".join(str(piece) for piece in path)) if part)
    )
    raise error(f"{place}: {_sentence(first, path, valid)}")


def nearest_file(path: Path) -> str:
    """A sentence naming the file in the same folder that was probably meant.

    >>> nearest_file(Path("no such folder/bank.csv"))
    ' The folder no such folder does not exist either.'
    """
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f" The folder {path.parent} does not exist either." if not path.parent.exists() else ""
    return nearest(path.name, names)


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, dotted))


def _sentence(wrong: ErrorDetails, path: tuple[str | int, ...], valid: tuple[str, ...]) -> str:
    found, context, last = wrong.get("input"), wrong.get("ctx", {}), str(path[-1]) if path else ""
    match wrong["type"]:
        case "missing":
            return "this field is missing."
        case "extra_forbidden":
            return f"unknown key {last!r}; known are {', '.join(valid)}." + nearest(last, valid)
        case "union_tag_not_found":
            return "the field 'kind' is missing."
        case "union_tag_invalid":
            tag, tags = str(context["tag"]), re.findall(r"'([^']*)'", str(context["expected_tags"]))
            return f"kind = {tag!r} is not one of {', '.join(tags)}." + nearest(tag, tags)
        case "literal_error":
            choices = re.findall(r"'([^']*)'", str(context["expected"]))
            return f"{found!r} is not one of {', '.join(choices)}." + nearest(str(found), choices)
        case "finite_number":
            return f"{found!r} is not a finite number."
        case _:
            text = wrong["msg"].removeprefix("Value error, ").removeprefix("Input ")
            return f"found {found!r}; it {text}." if text[:6] == "should" else f"found {found!r}: {text}."


def _walk(
    form: type[BaseModel], location: tuple[str | int, ...]
) -> tuple[tuple[str | int, ...], tuple[str, ...]]:
    """The path in the file that a validation error speaks of, and the keys valid at its end.

    pydantic's locations name the tags of unions, which are no keys of the file.
    """
    here: Any = form
    path: list[str | int] = []
    valid: tuple[str, ...] = ()
    for piece in location:
        members = _members(here)
        models = [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]
        tagged = [model for model in models if _tag(model) == piece]
        if _is_union(here) and tagged:
            here = tagged[0]
            continue
        if _is_union(here) and not models:
            continue
        path.append(piece)
        fields = {name: field.annotation for model in models for name, field in model.model_fields.items()}
        valid = tuple(fields)
        arguments = [a for a in typing.get_args(here) if a is not Ellipsis]
        here = fields.get(str(piece)) if models else (arguments[-1] if arguments else None)
        if typing.get_origin(here) is typing.Annotated:
            here = typing.get_args(here)[0]
    return tuple(path), valid


def _members(annotation: Any) -> list[Any]:
    """What a union can be, unions inside it included; what is no union is its own only member."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _members(typing.get_args(annotation)[0])
    if _is_union(annotation):
        return [member for part in typing.get_args(annotation) for member in _members(part)]
    return [annotation]


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def _tag(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("kind")
    choices = typing.get_args(field.annotation) if field else ()
    return str(choices[0]) if choices else None
