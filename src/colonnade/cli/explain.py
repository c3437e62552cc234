"""`colonnade explain`: what is behind the number of an error, without a network."""

from __future__ import annotations

import re

from colonnade.cli.screen import Answer, argument
from colonnade.errors import InputError, explanations

ADDRESS = "docs/errors.md"
# What goes wrong on a command line itself, before or after any verb, has numbers too.
INTERRUPTED = "E130"
USAGE = "E200"
_NUMBER = re.compile(r"[eE]?(\d{3})")


def page(number: str) -> str:
    return f"{ADDRESS}#{number.lower()}"


def explain(
    number: str | None = argument("[NUMBER]", "The number of an error, such as E313.", None),
) -> Answer:
    """Say what is behind the number of an error, what usually causes it, and what to do; without one, list all.

    Examples:
      colonnade explain E313
      colonnade explain
    """
    known = {
        one.number: {"number": one.number, "title": one.title, "page": page(one.number)}
        for one in explanations().values()
    }
    if number is None:
        lines = [f"{one['number']}  {one['title']}" for one in known.values()]
        return Answer({"errors": list(known.values())}, "\n".join(lines))
    meant = _NUMBER.fullmatch(number.strip())
    if meant is None or (name := f"E{meant[1]}") not in known:
        raise InputError(f"{number!r} is not the number of an error. `colonnade explain` lists all of them.")
    text = explanations()[name].text
    return Answer({**known[name], "text": text}, f"{name}\n{_plain(text)}")


def _plain(text: str) -> str:
    """The section as a terminal shows it: without the signs of Markdown, examples indented."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        else:
            lines.append(f"    {line}" if inside else line.replace("**", "").replace("`", ""))
    return "\n".join(lines)
