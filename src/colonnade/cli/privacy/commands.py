"""`colonnade privacy`: from a mechanism and its numbers to ε for every observer, and back."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Annotated

import typer

from colonnade.cli.privacy.options import CommonOptions, Side, asking, noise_option, number_option

app = typer.Typer(
    help="""From a mechanism and its noise to ε for every observer, and from ε to the least noise.

Give the noise to learn ε, or --epsilon to learn the least noise. Numbers may be written 0.1, 1e-5 or 1/3.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("gaussian")
@asking("times", "rate", "unit")
def gaussian(
    asked: CommonOptions,
    *,
    sensitivity: Annotated[Fraction, number_option("--sensitivity", "L2 sensitivity.")],
    sigma: Annotated[Fraction | None, noise_option("--sigma", "Standard deviation σ.")] = None,
) -> None:
    """Normal noise on real numbers.

    \b
    Example:
      colonnade privacy gaussian --sensitivity 1 --epsilon 1 --delta 1e-5 --paper
    """
    from colonnade.protocols import noise_families as families

    family = families.gaussian(sensitivity, unit=families.unit_asked(asked.unit), rate=asked.rate)
    asked.respond(family, sigma, asked.given("unit", sensitivity=sensitivity))


@app.command("discrete-gaussian")
@asking("times", "rate", "unit", "entries")
def discrete_gaussian(
    asked: CommonOptions,
    *,
    sensitivity: Annotated[Fraction, number_option("--sensitivity", "L2 sensitivity of the integers.")],
    sigma_squared: Annotated[
        Fraction | None, noise_option("--sigma-squared", "Variance parameter σ².")
    ] = None,
) -> None:
    """Discrete Gaussian noise on integers.

    \b
    Example:
      colonnade privacy discrete-gaussian --sensitivity 16 --sigma-squared 3600 --entries 1
    """
    from colonnade.protocols import noise_families as families

    unit = families.unit_asked(asked.unit)
    family = families.gaussian_on_integers(sensitivity, entries=asked.entries, unit=unit, rate=asked.rate)
    asked.respond(family, sigma_squared, asked.given("unit", "entries", sensitivity=sensitivity))


@app.command("laplace")
@asking("times", "rate", "unit", delta=0.0)
def laplace(
    asked: CommonOptions,
    *,
    sensitivity: Annotated[Fraction, number_option("--sensitivity", "L1 sensitivity.")],
    scale: Annotated[Fraction | None, noise_option("--scale", "Scale of the noise.")] = None,
) -> None:
    """Laplace noise on real numbers.

    \b
    Example:
      colonnade privacy laplace --sensitivity 1 --scale 20 --times 100 --delta 1e-6
    """
    from colonnade.protocols import noise_families as families

    family = families.laplace(sensitivity, unit=families.unit_asked(asked.unit), rate=asked.rate)
    asked.respond(family, scale, asked.given("unit", sensitivity=sensitivity))


@app.command("discrete-laplace")
@asking("times", "rate", "unit", "owners", "threshold", "whom", "entries", delta=0.0)
def discrete_laplace(
    asked: CommonOptions,
    *,
    sensitivity: Annotated[Fraction, number_option("--sensitivity", "L1 sensitivity of the integers.")],
    scale: Annotated[Fraction | None, noise_option("--scale", "Scale of the noise.")] = None,
    others: Annotated[
        Fraction | None,
        number_option(
            "--others", "L1 sensitivity of the other owners' part of a record, replaced; safe if left out."
        ),
    ] = None,
) -> None:
    """Discrete Laplace noise on integers, whole or dealt by several owners as Pólya parts.

    \b
    Example:
      colonnade privacy discrete-laplace --sensitivity 4 --epsilon 1 --owners 3 --threshold 1 --delta 1e-9
    """
    from colonnade.errors import PrivacyError
    from colonnade.protocols import noise_families as families

    dealing = families.Dealing.asked(asked.owners, asked.threshold)
    if dealing.of > 1 and asked.delta == 0:
        raise PrivacyError(
            "noise dealt in parts is truncated, so no ε holds at δ = 0. Give --delta, for instance 1e-9."
        )
    family = families.laplace_on_integers(
        sensitivity,
        others=others,
        entries=asked.entries,
        dealing=dealing,
        unit=families.unit_asked(asked.unit),
        rate=asked.rate,
    )
    shared = ("unit", "owners", "threshold", "entries")
    asked.respond(family, scale, asked.given(*shared, sensitivity=sensitivity, others=others))


@app.command("skellam")
@asking("times", "rate", "unit", "owners", "threshold", "whom", "entries")
def skellam(
    asked: CommonOptions,
    *,
    l1: Annotated[Fraction, number_option("--l1", "L1 sensitivity of the integers.")],
    l2: Annotated[Fraction, number_option("--l2", "L2 sensitivity of the integers.")],
    mu: Annotated[Fraction | None, noise_option("--mu", "μ, half the variance.")] = None,
    others_l1: Annotated[
        Fraction | None,
        number_option("--others-l1", "L1 sensitivity of the other owners' part, replaced; safe if left out."),
    ] = None,
    others_l2: Annotated[Fraction | None, number_option("--others-l2", "The same in L2.")] = None,
) -> None:
    """Skellam noise on integers, whole or dealt by several owners in parts.

    \b
    Example:
      colonnade privacy skellam --l1 100 --l2 20 --epsilon 1 --owners 5 --threshold 2
    """
    from colonnade.errors import PlanError
    from colonnade.noise.mechanism import VectorChange
    from colonnade.protocols import noise_families as families

    if (others_l1 is None) != (others_l2 is None):
        raise PlanError("give both --others-l1 and --others-l2, or neither.")
    family = families.skellam_on_integers(
        VectorChange(l1, l2),
        others=None if others_l1 is None or others_l2 is None else VectorChange(others_l1, others_l2),
        dealing=families.Dealing.asked(asked.owners, asked.threshold),
        entries=asked.entries,
        unit=families.unit_asked(asked.unit),
        rate=asked.rate,
    )
    own = {"l1": l1, "l2": l2, "others_l1": others_l1, "others_l2": others_l2}
    asked.respond(family, mu, asked.given("unit", "owners", "threshold", "entries", **own))


@app.command("moments")
@asking("threshold", "times", "whom")
def moments(
    asked: CommonOptions,
    *,
    party: Annotated[
        list[str],
        typer.Option("--party", help="NAME=COLUMNS, numeric columns; repeat. The first holds the label."),
    ],
    mu: Annotated[Fraction | None, noise_option("--mu", "μ of the matrix's noise.")] = None,
    classes: Annotated[int, typer.Option("--classes", help="Classes of the label; 0 for no label.")] = 2,
    regression: Annotated[bool, typer.Option("--regression", help="The label is a number.")] = False,
    gamma: Annotated[int, typer.Option("--gamma", min=2, help="Steps of the integer grid.")] = 1 << 12,
) -> None:
    """The noisy moment matrix that `colonnade train` releases, from column counts alone.

    \b
    Example:
      colonnade privacy moments --party clinic=10 --party laboratory=20 --classes 2 --epsilon 1
    """
    from colonnade.protocols import families

    columns = [_party(text) for text in party]
    family = families.moments(
        columns, classes=classes, regression=regression, gamma=gamma, threshold=asked.threshold
    )
    own = {"parties": party, "classes": None if regression else classes, "regression": regression}
    asked.respond(family, mu, asked.given("threshold", **own, gamma=gamma))


@app.command("poisson-binomial")
@asking("times", "whom")
def poisson_binomial(
    asked: CommonOptions,
    *,
    parties: Annotated[int, typer.Option("--parties", help="How many parties add a count.")],
    trials: Annotated[int, typer.Option("--trials", help="b: trials of each binomial.")],
    beta: Annotated[
        Fraction | None, noise_option("--beta", "β: counts have p in [1/2 − β, 1/2 + β].")
    ] = None,
    coordinates: Annotated[
        int, typer.Option("--coordinates", min=1, help="Coordinates of an embedding.")
    ] = 1,
    colluding: Annotated[int, typer.Option("--colluding", help="How many parties pool what they know.")] = 1,
    rows: Annotated[
        int | None,
        typer.Option("--rows", min=1, help="Also state the cost of one party's columns in all rows."),
    ] = None,
) -> None:
    """Sums of binomial counts (PBM-VFL); --times is how often a record is used, one use an epoch.

    \b
    Example:
      colonnade privacy poisson-binomial --parties 5 --trials 4 --beta 0.1 --coordinates 16 --times 10 --paper
    """
    from colonnade.protocols import families

    own = {"trials": trials, "coordinates": coordinates, "colluding": colluding, "rows": rows}
    family = families.poisson_binomial(
        parties, trials=trials, coordinates=coordinates, colluding=colluding, rows=rows
    )
    asked.respond(family, beta, {"parties": parties, **own})


@app.command("messages")
@asking()
def messages(
    asked: CommonOptions,
    *,
    rows: Annotated[int, typer.Option("--rows", help="How many records.")],
    batch: Annotated[int, typer.Option("--batch", help="Records in a batch.")],
    epochs: Annotated[int, typer.Option("--epochs", help="How often every record is used.")],
    sender: Annotated[Side, typer.Option("--sender", help="Whose messages.")] = Side.PASSIVE,
    sigma: Annotated[Fraction | None, noise_option("--sigma", "σ of the noise on every message.")] = None,
    step_size: Annotated[float, typer.Option("--step-size", help="η of gradient descent.")] = 0.1,
    radius: Annotated[float, typer.Option("--radius", help="k: weights are projected to ‖w‖ ≤ k.")] = 1.0,
    clip: Annotated[
        float, typer.Option("--clip", help="C: the passive party clips what it receives to ±C.")
    ] = 1.0,
    active_cap: Annotated[float, typer.Option("--active-cap", help="Norm of the active party's rows.")] = 0.5
    ** 0.5,
    passive_cap: Annotated[
        float, typer.Option("--passive-cap", help="Norm of the passive party's rows.")
    ] = 0.5**0.5,
    grid: Annotated[
        Fraction, number_option("--grid", "Messages are rounded to multiples of it.")
    ] = "1/65536",  # type: ignore[assignment]
) -> None:
    """Logistic regression step by step with noisy, clipped messages (HDP-VFL, made sound).

    \b
    Example:
      colonnade privacy messages --rows 30000 --batch 3200 --epochs 10 --epsilon 1 --paper
    """
    from colonnade.protocols import families

    descent = families.Descent(rows, batch, radius, step_size, clip, active_cap, passive_cap, grid)
    family = families.messages(sender.value, descent)
    replace(asked, times=epochs).respond(family, sigma, {"sender": sender.value, **vars(descent)})


def _party(text: str) -> tuple[str, int]:
    name, equals, count = text.partition("=")
    if not equals or not count.isdigit():
        raise typer.BadParameter(f"--party {text}: write NAME=COLUMNS, for instance bank=12")
    return name, int(count)
