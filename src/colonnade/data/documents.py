"""TOML files whose mistakes can be pointed at: file, line, field, value found, nearest valid choice.

A person wrote what such a file says, so its values may be quoted; values from data files never are.
"""

from __future__ import annotations

import datetime
import errno
import re
import tomllib
import types
import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from colonnade import errors
from colonnade.data.declaring import nearest_name

_MAX_SHOWN = 120


def check_present(path: Path, start: str) -> None:
    """Refuse a file that is not there, in a message that begins with `start`."""
    try:
        path.stat()
    except FileNotFoundError:
        raise errors.DataMissing(f"{start} does not exist.{nearest_file(path)}") from None
    except ValueError:
        raise errors.DataMissing(f"{start} does not exist: no file has NUL in its name.") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise errors.DataMissing(
                f"{start} does not exist: it is a link that leads back to itself."
            ) from None
        if error.errno == errno.ENAMETOOLONG:
            letters = f"the name has {len(str(path))} letters, longer than a path can be."
            raise errors.DataMissing(f"{start[:_MAX_SHOWN]}…: {letters}") from None
        raise errors.DataUnreadable(f"{start} cannot be read ({error.strerror}).") from None


def nearest_file(path: Path) -> str:
    if path.is_symlink():
        return " It is a link to something that is not there."
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f" The folder {path.parent} does not exist either." if not path.parent.exists() else ""
    return nearest_name(path.name, names)


FormT = TypeVar("FormT", bound="Form")

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"^\s*\[\[?\s*({_DOTTED})\s*\]\]?")
_ASSIGNMENT = re.compile(rf"^\s*({_DOTTED})\s*=")
_TOML_PLACE = re.compile(
    r"^(?P<what>.*) \(at (?:line (?P<line>\d+), column \d+|end of document)\)$", re.DOTALL
)
# A value may be an address with a password in it, although such an address is refused; a password may hold : / and @.
# In a connection string of keys and values it may stand between quotation marks, which a repr escapes.
_PASSWORD = re.compile(
    r"""(?<=:)(?!//)[^\s'"]*(?=@)|(?P<key>(?:password|passfile)\s*=\s*)(?:\\*'(?:[^'\\]|\\+.)*(?:\\*'|$)|[^&\s'"]*)""",
    re.IGNORECASE,
)
_ODD_NUMBER = re.compile(r"=\s*[-+]?[0-9.]+\s*[,%]")
LARGEST = 16 << 20
"""Bytes of a TOML file, and of a text: reading takes many times as much memory."""
MAX_KEY = 1000
"""Letters of a key with its dots: the time to read one grows with the square of its parts."""
_LONG_KEY = re.compile(rf"""^[ \t]*\[{{0,2}}[A-Za-z0-9_\-."' \t]{{{MAX_KEY},}}+""", re.MULTILINE)
_WORDS = {
    float: "a number",
    int: "a whole number",
    str: "a text",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
_KINDS: dict[str, type[errors.FormError]] = {
    "missing": errors.MissingKey,
    "union_tag_not_found": errors.MissingKey,
    "extra_forbidden": errors.UnknownKey,
    "literal_error": errors.UnknownChoice,
    "union_tag_invalid": errors.UnknownChoice,
    "finite_number": errors.OutOfRange,
}


class Form(BaseModel):
    """The shape of a file or of a part of one: exact types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    def __hash__(self) -> int:
        # Lists and tables in a form have no hash of their own.
        return hash(self.model_dump_json())


T = TypeVar("T")
if TYPE_CHECKING:
    Listed = tuple[T, ...]
else:
    # A list in the file, which nobody changes once it is read.
    Listed = Annotated[list[T], AfterValidator(tuple)]


@dataclass(frozen=True)
class Document:
    """A parsed TOML text that remembers where its keys stand."""

    name: str
    text: str
    data: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, name: str) -> Document:
        if not isinstance(text, str):
            raise errors.WrongType(f"{name}: a text was expected, and found {type(text).__name__}.")
        _check_size(len(text), name)
        for key in _LONG_KEY.finditer(text):
            if key[0].count(".") > MAX_KEY // 10:
                line = text.count("\n", 0, key.start()) + 1
                raise errors.FormError(
                    f"{name}, line {line}: a key has {len(key[0])} letters, and {MAX_KEY} are the most. Nothing here "
                    "has such a key: see whether the file is the one that was meant."
                )
        try:
            return cls(name, text, tomllib.loads(text))
        except tomllib.TOMLDecodeError as wrong:
            raise errors.NotTOML(_broken(text, name, str(wrong))) from None
        except RecursionError:
            raise errors.NotTOML(
                f"{name}: lists or tables are nested too deep to be read. Nothing here needs more than a few levels."
            ) from None
        except ValueError:
            # TOML has no limit to a number's digits, and Python has one.
            number = max(re.finditer(r"[0-9][0-9_]*", text), key=lambda match: match.end() - match.start())
            line, size = text.count("\n", 0, number.start()) + 1, len(number[0].replace("_", ""))
            raise errors.NotTOML(
                f"{name}, line {line}: a whole number has {size} digits, more than anything here can be. Shorten it."
            ) from None

    @classmethod
    def load(cls, path: str | Path) -> Document:
        path = errors.path_of(path)
        try:
            size = path.stat().st_size
            if path.is_dir():
                raise errors.FormError(f"{path} is a directory; a TOML file was expected.")
            _check_size(size, str(path))
            text = path.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as wrong:
            line = wrong.object.count(b"\n", 0, wrong.start) + 1
            said = "this is not UTF-8 text, as TOML must be. Save it as UTF-8."
            raise errors.NotTOML(f"{path}, line {line}: {said}") from None
        except FileNotFoundError:
            raise errors.FileMissing(f"{path} does not exist.{nearest_file(path)}") from None
        except (OSError, ValueError) as wrong:
            try:
                check_present(path, str(path))
            except errors.DataError as absent:
                raise errors.FileMissing(str(absent)) from None
            raise errors.FileMissing(
                f"{path} cannot be read ({getattr(wrong, 'strerror', wrong)})."
            ) from None
        return cls.parse(text, str(path))

    def where(self, path: Sequence[str | int]) -> str:
        """File, line if it can be told, and field."""
        line = self.line(path)
        field = ".".join(str(piece) for piece in path)
        return ", ".join(part for part in (self.name, f"line {line}" if line else "", field) if part)

    def line(self, path: Sequence[str | int]) -> int | None:
        """The line on which a key, or the closest key or table around it, stands."""
        target = tuple(str(piece) for piece in path)
        table: tuple[str, ...] = ()
        best, depth = None, 0
        items: Counter[tuple[str, ...]] = Counter()
        for number, line in enumerate(self.text.split("\n"), start=1):
            if header := _HEADER.match(line):
                table = keys = _keys(header[1])
                if line.lstrip().startswith("[["):
                    # The items of a list of tables are counted from 0; the first also stands for the list.
                    table = (*keys, str(items[keys]))
                    items[keys] += 1
                    keys = table if table == target[: len(table)] else keys
            elif assignment := _ASSIGNMENT.match(line):
                keys = table + _keys(assignment[1])
            else:
                continue
            # A header such as [columns.age] also is the first place of the table [columns].
            keys = keys[: len(target)]
            if len(keys) > depth and keys == target[: len(keys)]:
                best, depth = number, len(keys)
        return best

    def check(self, form: type[FormT]) -> FormT:
        return check(form, self.data, document=self)


def check(
    form: type[FormT],
    data: object,
    *,
    document: Document | None = None,
    name: str = "",
    prefix: tuple[str, ...] = (),
) -> FormT:
    """`data` in the shape of `form`, or a `FormError` for its first mistake; `prefix` is where the data stands."""
    try:
        return form.model_validate(data)
    except ValidationError as wrong:
        mistakes = wrong.errors(include_url=False)
        # A misspelt key also shows as a missing one; the misspelling is what the reader can find in the file.
        first = min(mistakes, key=lambda one: one["type"] != "extra_forbidden")
    path, valid, hint = _walk(form, first["loc"])
    if first["type"] == "union_tag_not_found":
        first, path, valid = _tag_misspelt(first, path, hint)
    elif first["type"] == "union_tag_invalid":
        path = (*path, "kind")
    place = document.where((*prefix, *path)) if document else Document(name, "", {}).where(path)
    kind = _KINDS.get(first["type"], errors.OutOfRange if "than" in first["type"] else errors.WrongType)
    raise kind(f"{place}: {_sentence(first, path, valid, hint)}")


def shown(value: object) -> str:
    """A value as a message may quote it: not too long, and without the password of an address."""
    # As TOML spells it, where Python does otherwise.
    spelt = str(value) if isinstance(value, datetime.date | datetime.time) else repr(value)
    text = without_passwords(spelt.lower() if isinstance(value, bool) else spelt)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def without_passwords(text: str) -> str:
    return _PASSWORD.sub(lambda match: f"{match['key'] or ''}…", text)


def _check_size(size: int, name: str) -> None:
    if size > LARGEST:
        raise errors.FormError(
            f"{name}: it has {size} bytes, and {LARGEST} are the most that a TOML file here may have. See whether it "
            "is the file that was meant."
        )


def _broken(text: str, name: str, wrong: str) -> str:
    """What keeps a text from being TOML, with the line and, if it can be told, the key."""
    place = _TOML_PLACE.match(wrong)
    lines = text.split("\n")
    number = int(place["line"]) if place and place["line"] else len(lines)
    assignment = _ASSIGNMENT.match(lines[number - 1])
    field = f", {assignment[1]}" if assignment else ""
    what = place["what"] if place else wrong
    if what.startswith(("Cannot overwrite", "Cannot declare", "Cannot mutate")):
        advice = "The key or table stands there a second time: keep one."
    elif what.startswith("Invalid date"):
        advice = "Dates are written 2000-01-31, and there must be such a day."
    elif what.startswith("Invalid value") or _ODD_NUMBER.search(lines[number - 1]):
        advice = 'Texts stand in quotation marks, as in name = "risk", and numbers have a point and no comma.'
    else:
        advice = "See whether a quotation mark, a bracket or an equals sign is missing there or on the line before."
    return f"{name}, line {number}{field}: this is not TOML: {what}. {advice}"


def _keys(dotted: str) -> tuple[str, ...]:
    here: Any = tomllib.loads(f"{dotted} = 0")
    keys = []
    while isinstance(here, dict):
        ((key, here),) = here.items()
        keys.append(key)
    return tuple(keys)


def _takes(annotation: Any) -> str:
    members = [member for member in _members(annotation) if member is not type(None)]
    literals = [member for member in members if typing.get_origin(member) is typing.Literal]
    choices = [str(choice) for literal in literals for choice in typing.get_args(literal)]
    if choices:
        return f" It is one of {', '.join(choices)}."
    words = {_WORDS.get(typing.get_origin(member) or member, "") for member in members}
    return f" It takes {words.pop()}." if len(words) == 1 and "" not in words else ""


def _sentence(wrong: ErrorDetails, path: tuple[str | int, ...], valid: tuple[str, ...], hint: Any) -> str:
    value, context, last = wrong.get("input"), wrong.get("ctx", {}), str(path[-1]) if path else ""
    match wrong["type"]:
        case "missing":
            return "this field is missing." + _takes(hint)
        case "extra_forbidden":
            known = f"known are {', '.join(valid)}." if valid else "there are none here. Take it out."
            return f"unknown key {last!r}; {known}" + nearest_name(last, valid)
        case "union_tag_not_found":
            tags = [tag for member in _members(hint) for tag in _tags(member)]
            return f"this field is missing. It is one of {', '.join(tags)}."
        case "union_tag_invalid":
            tag, tags = str(context["tag"]), re.findall(r"'([^']*)'", str(context["expected_tags"]))
            return f"kind = {tag!r} is not one of {', '.join(tags)}." + nearest_name(tag, tags)
        case "literal_error":
            choices = re.findall(r"'([^']*)'", str(context["expected"]))
            return f"{shown(value)} is not one of {', '.join(choices)}." + nearest_name(str(value), choices)
        case "finite_number":
            return f"{shown(value)} is not a finite number."
        case _:
            text = wrong["msg"].removeprefix("Value error, ").removeprefix("Input ")
            return f"found {shown(value)}{'; it' if text[:6] == 'should' else ':'} {text}."


def _tag_misspelt(
    wrong: ErrorDetails, path: tuple[str | int, ...], hint: Any
) -> tuple[ErrorDetails, tuple[str | int, ...], tuple[str, ...]]:
    """Where `kind` is missing because it was misspelt, the misspelling is the mistake."""
    given = wrong["input"] if isinstance(wrong["input"], Mapping) else {}
    fields = {name for model in _members(hint) for name in getattr(model, "model_fields", {})}
    meant = [key for key in given if key not in fields and nearest_name("kind", [str(key)])]
    if not meant:
        return wrong, (*path, "kind"), ()
    return {**wrong, "type": "extra_forbidden"}, (*path, meant[0]), ("kind",)


def _walk(
    form: type[BaseModel], location: tuple[str | int, ...]
) -> tuple[tuple[str | int, ...], tuple[str, ...], Any]:
    """Where in the file a mistake is, the valid keys there, and what is taken; tags of unions are not keys."""
    here: Any = form
    path: list[str | int] = []
    valid: tuple[str, ...] = ()
    for piece in location:
        members = _members(here)
        models = [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]
        tagged = [model for model in models if piece in _tags(model)]
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
    return tuple(path), valid, here


def _members(annotation: Any) -> list[Any]:
    """What a union can be, unions inside it included; what is not a union is its own only member."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _members(typing.get_args(annotation)[0])
    if _is_union(annotation):
        return [member for part in typing.get_args(annotation) for member in _members(part)]
    return [annotation]


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def _tags(model: Any) -> tuple[str, ...]:
    described = isinstance(model, type) and issubclass(model, BaseModel)
    field = model.model_fields.get("kind") if described else None
    return typing.get_args(field.annotation) if field else ()


def check_fields(form: Form, document: Document, *limits: tuple[str, bool, str]) -> None:
    """Refuse the first field that does not fit, with the line it stands on: (field, whether it fits, its limit)."""
    for field, fits, limit in limits:
        if not fits:
            raise errors.OutOfRange(
                f"{document.where((field,))}: found {getattr(form, field)!r}; it must be {limit}."
            )
