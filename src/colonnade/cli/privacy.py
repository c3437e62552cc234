"""`colonnade privacy`: the commands, one row of a table for each mechanism, and the options that they take.

What is asked of a mechanism is common to all; `privacy_answer` makes the mechanisms and answers.
"""

from __future__ import annotations

import inspect
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

import typer

from colonnade.cli.screen import Answer, answering, group

Unit = StrEnum("Unit", {"RECORD": "record", "REPLACED": "record-replaced"})
CalibrateFor = StrEnum("CalibrateFor", ["SERVER", "READER", "PARTY", "COALITION", "EVERYONE"])
Side = StrEnum("Side", ["PASSIVE", "ACTIVE"])

# A type, and what Typer is told of the option.
Option: TypeAlias = tuple[Any, Any]


def _option(kind: Any, text: str, default: Any = ..., *flags: str, **more: Any) -> Option:
    """An option that is named as its parameter is, or by `flags`; without a default it must be given."""
    return kind, typer.Option(default, *flags, help=text, **more)


def _number(text: str, default: Any = ..., *flags: str) -> Option:
    """An option whose number is taken exactly."""

    def exact(written: str) -> Fraction:
        try:
            return Fraction(written)
        except (ValueError, ZeroDivisionError):
            raise typer.BadParameter(f"{written!r} is not a number; write 0.1, 1e-5 or 1/3") from None

    return _option(Fraction | None, text, default, *flags, parser=exact, metavar="NUMBER")


DELTA = "The δ of the guarantee."
FOR = "Whom --epsilon is meant for; the server (or whoever sees it) if left out."
PAPER = "Show beside it what the papers' formulas say, with what is wrong with it."
COMMON: dict[str, Option] = {
    "epsilon": _option(float | None, "Find the least noise for this ε.", None),
    "delta": _option(float, DELTA, 1e-5),
    "times": _option(int, "How often the release is made.", 1),
    "to": _option(CalibrateFor | None, FOR, None, "--for"),
    "paper": _option(bool, PAPER, False, "--paper"),
}

RATE = "Each record is in a release with this probability, in secret. Unit record only."
ADDED = {
    "rate": _number(RATE, None),
    "unit": _option(Unit, "What the sensitivities are given for.", Unit.RECORD),
}
COLLUDE = "t: how many owners may collude. Parts are 1/(owners − t) of the whole."
THRESHOLD = {"threshold": _option(int | None, COLLUDE, None)}
OWNERS = {"owners": _option(int, "How many owners deal the noise in parts.", 1), **THRESHOLD}
RELEASED = "How many integers are released; any number if left out."
ENTRIES = {"entries": _option(int | None, RELEASED, None, min=1)}
COLUMNS = "NAME=COLUMNS, numeric columns; repeat. The first holds the label."

app = group("""From a mechanism and its noise to ε for every observer, and from ε to the least noise.

Give the noise to learn ε, or --epsilon to learn the least noise. Numbers may be written 0.1, 1e-5 or 1/3.
""")


def _command(example: str, noise: str, text: str, **options: Option) -> None:
    """The command that `example` begins with, its `noise` by flag; an own option may stand for one of `COMMON`."""
    mechanism, (flag, what) = example.split()[0], noise.split(maxsplit=1)
    amount = _number(f"{what} Or give --epsilon.", None, flag)
    shared = {"noise": amount, **{name: options.pop(name, usual) for name, usual in COMMON.items()}}

    def command(**values: Any) -> Answer:
        from colonnade.cli.privacy_answer import FAMILIES, respond

        query = {name: values.pop(name) for name in shared}
        return respond(FAMILIES[mechanism](**values), values, **query)

    command.__doc__ = f"{text}\n\nExample:\n  colonnade privacy {example}"
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in {**options, **shared}.items()
        ]
    )
    app.command(mechanism)(answering(command))


_command(
    "gaussian --sensitivity 1 --epsilon 1 --delta 1e-5 --paper",
    "--sigma Standard deviation σ.",
    "Normal noise on real numbers.",
    sensitivity=_number("L2 sensitivity."),
    **ADDED,
)
_command(
    "discrete-gaussian --sensitivity 16 --sigma-squared 3600 --entries 1",
    "--sigma-squared Variance parameter σ².",
    "Discrete Gaussian noise on integers.",
    sensitivity=_number("L2 sensitivity of the integers."),
    **ADDED,
    **ENTRIES,
)
_command(
    "laplace --sensitivity 1 --scale 20 --times 100 --delta 1e-6",
    "--scale Scale of the noise.",
    "Laplace noise on real numbers.",
    sensitivity=_number("L1 sensitivity."),
    **ADDED,
    delta=_option(float, DELTA, 0.0),
)
_command(
    "discrete-laplace --sensitivity 4 --epsilon 1 --owners 3 --threshold 1 --delta 1e-9",
    "--scale Scale of the noise.",
    "Discrete Laplace noise on integers, whole or dealt by several owners as Pólya parts.",
    sensitivity=_number("L1 sensitivity of the integers."),
    **ADDED,
    **OWNERS,
    **ENTRIES,
    delta=_option(float, DELTA, 0.0),
)
_command(
    "skellam --l1 100 --l2 20 --epsilon 1 --owners 5 --threshold 2",
    "--mu μ, half the variance.",
    "Skellam noise on integers, whole or dealt by several owners in parts.",
    l1=_number("L1 sensitivity of the integers."),
    l2=_number("L2 sensitivity of the integers."),
    **ADDED,
    **OWNERS,
    **ENTRIES,
)
_command(
    "moments --party clinic=10 --party laboratory=20 --classes 2 --epsilon 1",
    "--mu μ of the matrix's noise.",
    "The noisy moment matrix that `colonnade train` releases, from column counts alone.",
    parties=_option(list[str], COLUMNS, ..., "--party"),
    classes=_option(int, "Classes of the label; 0 for no label.", 2),
    regression=_option(bool, "The label is a number.", False, "--regression"),
    gamma=_option(int, "Steps of the integer grid.", 1 << 12, min=2),
    **THRESHOLD,
)
_command(
    "poisson-binomial --parties 5 --trials 4 --beta 0.1 --coordinates 16 --times 10 --paper",
    "--beta β: counts have p in [1/2 − β, 1/2 + β].",
    "Sums of binomial counts (PBM-VFL); --times is how often a record is used, one use an epoch.",
    parties=_option(int, "How many parties add a count."),
    trials=_option(int, "b: trials of each binomial."),
    coordinates=_option(int, "Coordinates of an embedding.", 1, min=1),
    colluding=_option(int, "How many parties pool what they know.", 1),
    rows=_option(int | None, "Also state the cost of one party's columns in all rows.", None, min=1),
)
_command(
    "messages --rows 30000 --batch 3200 --epochs 10 --epsilon 1 --paper",
    "--sigma σ of the noise on every message.",
    "Logistic regression step by step with noisy, clipped messages (HDP-VFL, made sound).",
    rows=_option(int, "How many records."),
    batch=_option(int, "Records in a batch."),
    sender=_option(Side, "Whose messages.", Side.PASSIVE),
    radius=_option(float, "k: weights are projected to ‖w‖ ≤ k.", 1.0),
    step_size=_option(float, "η of gradient descent.", 0.1),
    clip=_option(float, "C: the passive party clips what it receives to ±C.", 1.0),
    times=_option(int, "How often every record is used.", ..., "--epochs"),
)
