"""The options that the commands of `colonnade privacy` share, and how an answer is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from colonnade.cli.privacy_families import Family


class Unit(StrEnum):
    """What sensitivities are given for."""

    RECORD = "record"
    REPLACED = "record-replaced"


class Whom(StrEnum):
    """Whom a calibration is meant for."""

    SERVER = "server"
    READER = "reader"
    PARTY = "party"
    COALITION = "coalition"
    EVERYONE = "everyone"


class Across(StrEnum):
    """What a plot has on its horizontal axis."""

    DELTA = "delta"
    TIMES = "times"


class Side(StrEnum):
    """Which party sends the messages."""

    PASSIVE = "passive"
    ACTIVE = "active"


def exact(text: str) -> Fraction:
    """The number that a user wrote, exactly.

    >>> exact("1/3"), exact("2.5e-1")
    (Fraction(1, 3), Fraction(1, 4))
    """
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{text!r} is no number; write 0.1, 1e-5 or 1/3") from None


def noise_option(flag: str, text: str) -> Any:
    """The noise, which --epsilon may stand for."""
    return typer.Option(flag, parser=exact, metavar="NUMBER", help=f"{text} Or give --epsilon.")


Epsilon = Annotated[float | None, typer.Option("--epsilon", help="Find the least noise for this ε.")]
Delta = Annotated[float, typer.Option("--delta", help="The δ of the guarantee.")]
Times = Annotated[int, typer.Option("--times", help="How often the release is made.")]
Rate = Annotated[
    Fraction | None,
    typer.Option(
        "--rate",
        parser=exact,
        metavar="NUMBER",
        help="Each record is in a release with this probability, in secret. Unit record only.",
    ),
]
UnitOption = Annotated[Unit, typer.Option("--unit", help="What the sensitivities are given for.")]
Owners = Annotated[int, typer.Option("--owners", help="How many owners deal the noise in parts.")]
Threshold = Annotated[
    int | None,
    typer.Option(
        "--threshold", help="t: how many owners may collude. Parts are 1/(owners − t) of the whole."
    ),
]
For = Annotated[
    Whom | None,
    typer.Option("--for", help="Whom --epsilon is meant for; the server (or whoever sees it) if left out."),
]
Entries = Annotated[
    int | None,
    typer.Option("--entries", min=1, help="How many integers are released; any number if left out."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Paper = Annotated[
    bool,
    typer.Option("--paper", help="Show beside it what the papers' formulas say, with what is wrong with it."),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Save a curve of ε: a .svg file, or .png or .pdf with the extra plots."),
]
Against = Annotated[Across, typer.Option("--against", help="What the curve runs over.")]


def number_option(flag: str, text: str) -> Any:
    """A number, taken exactly."""
    return typer.Option(flag, parser=exact, metavar="NUMBER", help=text)


def respond(
    family: Family,
    given: Mapping[str, object],
    *,
    noise: Fraction | None,
    epsilon: float | None,
    delta: float,
    times: int,
    rate: Fraction | None = None,
    whom: Whom | None = None,
    as_json: bool,
    paper: bool,
    plot: Path | None,
    against: Across,
) -> None:
    """Answer what was asked of a family: from the noise to ε, or from ε to the noise."""
    from colonnade.cli.privacy_answer import Question, Wanted, answer

    question = Question(given, noise, epsilon, delta, times, rate, None if whom is None else whom.value)
    answer(family, question, Wanted(as_json, paper, plot, against.value))
