"""The options that the commands of `colonnade privacy` share, and how an answer is asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from colonnade.protocols.noise_families import Family


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
    """The number that a user wrote, exactly."""
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{text!r} is no number; write 0.1, 1e-5 or 1/3") from None


def number_option(flag: str, text: str) -> Any:
    """A number, taken exactly."""
    return typer.Option(flag, parser=exact, metavar="NUMBER", help=text)


def noise_option(flag: str, text: str) -> Any:
    return number_option(flag, f"{text} Or give --epsilon.")


@dataclass(frozen=True)
class CommonOptions:
    """The options that commands share; each command takes those in `ALWAYS` and others by name."""

    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Find the least noise for this ε.")] = (
        None
    )
    delta: Annotated[float, typer.Option("--delta", help="The δ of the guarantee.")] = 1e-5
    times: Annotated[int, typer.Option("--times", help="How often the release is made.")] = 1
    rate: Annotated[
        Fraction | None,
        number_option(
            "--rate", "Each record is in a release with this probability, in secret. Unit record only."
        ),
    ] = None
    unit: Annotated[Unit, typer.Option("--unit", help="What the sensitivities are given for.")] = Unit.RECORD
    owners: Annotated[int, typer.Option("--owners", help="How many owners deal the noise in parts.")] = 1
    threshold: Annotated[
        int | None,
        typer.Option(
            "--threshold", help="t: how many owners may collude. Parts are 1/(owners − t) of the whole."
        ),
    ] = None
    whom: Annotated[
        Whom | None,
        typer.Option(
            "--for", help="Whom --epsilon is meant for; the server (or whoever sees it) if left out."
        ),
    ] = None
    entries: Annotated[
        int | None,
        typer.Option("--entries", min=1, help="How many integers are released; any number if left out."),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
    paper: Annotated[
        bool,
        typer.Option(
            "--paper", help="Show beside it what the papers' formulas say, with what is wrong with it."
        ),
    ] = False
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Save a curve of ε as a .svg file."),
    ] = None
    against: Annotated[Across, typer.Option("--against", help="What the curve runs over.")] = Across.DELTA

    def given(self, *names: str, **own: object) -> dict[str, object]:
        """What was given to a command by its own options and by these, for the answer to repeat."""
        return own | {name: getattr(self, name) for name in names}

    def respond(self, family: Family, noise: Fraction | None, given: Mapping[str, object]) -> None:
        """Answer what was asked of a family: from the noise to ε, or from ε to the noise."""
        from colonnade.cli.privacy.answer import Question, Wanted, answer

        whom = None if self.whom is None else self.whom.value
        question = Question(given, noise, self.epsilon, self.delta, self.times, self.rate, whom)
        answer(family, question, Wanted(self.as_json, self.paper, self.plot, self.against.value))


ALWAYS = ("epsilon", "delta", "as_json", "paper", "plot", "against")


def asking(*names: str, delta: float = 1e-5) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, whose first argument is `CommonOptions`, the shared options with these names and those of all."""
    hints = get_type_hints(CommonOptions, include_extras=True)
    taken = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=delta if field.name == "delta" else field.default,
            annotation=hints[field.name],
        )
        for field in fields(CommonOptions)
        if field.name in (*ALWAYS, *names)
    ]

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        @wraps(command)
        def asked(**values: Any) -> None:
            shared = {option.name: values.pop(option.name) for option in taken}
            command(CommonOptions(**shared), **values)

        signature = inspect.Signature([*own, *taken])
        asked.__signature__ = signature  # type: ignore[attr-defined]
        asked.__annotations__ = {name: option.annotation for name, option in signature.parameters.items()}
        return asked

    return with_options
