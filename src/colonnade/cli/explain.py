"""`colonnade explain`: what is behind the number of an error, without a network."""

from __future__ import annotations

import re

import typer

from colonnade.cli.screen import AS_JSON, answer
from colonnade.errors import InputError, explanations

ADDRESS = "docs/errors.md"
# What goes wrong on a command line itself, before or after any verb, has numbers too.
INTERRUPTED = "E130"
USAGE = "E200"
_NUMBER = re.compile(r"[eE]?(\d{3})")


def page(number: str) -> str:
    """Where in the documents a number is explained."""
    return f"{ADDRESS}#{number.lower()}"


def _completed(incomplete: str) -> list[tuple[str, str]]:
    return [(s.number, s.title) for s in explanations().values() if s.number.startswith(incomplete.upper())]


def explain(
    number: str | None = typer.Argument(
        None, metavar="[NUMBER]", help="The number of an error, such as E313.", autocompletion=_completed
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Say what is behind the number of an error, what usually causes it, and what to do; without one, list all.

    Examples:

      colonnade explain E313

      colonnade explain
    """
    known = explanations()
    if number is None:
        listed = [
            {"number": one.number, "title": one.title, "page": page(one.number)} for one in known.values()
        ]
        text = "\n".join(f"{one.number}  {one.title}" for one in known.values())
        answer({"errors": listed}, text, as_json)
        return
    meant = _NUMBER.fullmatch(number.strip())
    section = known.get(f"E{meant[1]}") if meant else None
    if section is None:
        raise InputError(f"{number!r} is not the number of an error. `colonnade explain` lists all of them.")
    facts = {"number": section.number, "title": section.title, "page": page(section.number)}
    answer({**facts, "text": section.text}, f"{section.number}\n{_plain(section.text)}", as_json)


def _plain(text: str) -> str:
    """The section as a terminal shows it: without the signs of Markdown, examples indented."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        else:
            lines.append(f"    {line}" if inside else line.replace("**", "").replace("`", ""))
    return "\n".join(lines)
