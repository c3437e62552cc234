"""The commands of `colonnade privacy` for whole protocols."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import typer

from colonnade.cli.privacy_options import (
    Across,
    Against,
    AsJson,
    Delta,
    Epsilon,
    For,
    Paper,
    Plot,
    Side,
    Threshold,
    Times,
    noise_option,
    number_option,
    respond,
)


def moments(
    party: Annotated[
        list[str],
        typer.Option("--party", help="NAME=COLUMNS, numeric columns; repeat. The first holds the label."),
    ],
    mu: Annotated[Fraction | None, noise_option("--mu", "μ of the matrix's noise.")] = None,
    classes: Annotated[int, typer.Option("--classes", help="Classes of the label; 0 for no label.")] = 2,
    regression: Annotated[bool, typer.Option("--regression", help="The label is a number.")] = False,
    gamma: Annotated[int, typer.Option("--gamma", min=2, help="Steps of the integer grid.")] = 1 << 12,
    threshold: Threshold = None,
    epsilon: Epsilon = None,
    delta: Delta = 1e-5,
    times: Times = 1,
    whom: For = None,
    as_json: AsJson = False,
    paper: Paper = False,
    plot: Plot = None,
    against: Against = Across.DELTA,
) -> None:
    """The noisy moment matrix that `colonnade train` releases, from column counts alone.

    \b
    Example:
      colonnade privacy moments --party clinic=10 --party laboratory=20 --classes 2 --epsilon 1
    """
    from colonnade.cli import privacy_protocols as protocols

    family = protocols.moments(
        [_party(text) for text in party],
        classes=classes,
        regression=regression,
        gamma=gamma,
        threshold=threshold,
    )
    given = {
        "parties": party,
        "classes": None if regression else classes,
        "regression": regression,
        "gamma": gamma,
        "threshold": threshold,
    }
    respond(
        family,
        given,
        noise=mu,
        epsilon=epsilon,
        delta=delta,
        times=times,
        whom=whom,
        as_json=as_json,
        paper=paper,
        plot=plot,
        against=against,
    )


def poisson_binomial(
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
    epsilon: Epsilon = None,
    delta: Delta = 1e-5,
    times: Times = 1,
    whom: For = None,
    as_json: AsJson = False,
    paper: Paper = False,
    plot: Plot = None,
    against: Against = Across.DELTA,
) -> None:
    """Sums of binomial counts (PBM-VFL); --times is how often a record is used, one use an epoch.

    \b
    Example:
      colonnade privacy poisson-binomial --parties 5 --trials 4 --beta 0.1 --coordinates 16 --times 10 --paper
    """
    from colonnade.cli import privacy_protocols as protocols

    family = protocols.poisson_binomial(
        parties, trials=trials, coordinates=coordinates, colluding=colluding, rows=rows
    )
    given = {
        "parties": parties,
        "trials": trials,
        "coordinates": coordinates,
        "colluding": colluding,
        "rows": rows,
    }
    respond(
        family,
        given,
        noise=beta,
        epsilon=epsilon,
        delta=delta,
        times=times,
        whom=whom,
        as_json=as_json,
        paper=paper,
        plot=plot,
        against=against,
    )


def messages(
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
    epsilon: Epsilon = None,
    delta: Delta = 1e-5,
    as_json: AsJson = False,
    paper: Paper = False,
    plot: Plot = None,
    against: Against = Across.DELTA,
) -> None:
    """Logistic regression step by step with noisy, clipped messages (HDP-VFL, made sound).

    \b
    Example:
      colonnade privacy messages --rows 30000 --batch 3200 --epochs 10 --epsilon 1 --paper
    """
    from colonnade.cli import privacy_protocols as protocols

    descent = protocols.Descent(rows, batch, radius, step_size, clip, active_cap, passive_cap, grid)
    given = {"sender": sender.value, **vars(descent)}
    family = protocols.messages(sender.value, descent)
    respond(
        family,
        given,
        noise=sigma,
        epsilon=epsilon,
        delta=delta,
        times=epochs,
        as_json=as_json,
        paper=paper,
        plot=plot,
        against=against,
    )


def _party(text: str) -> tuple[str, int]:
    name, equals, count = text.partition("=")
    if not equals or not count.isdigit():
        raise typer.BadParameter(f"--party {text}: write NAME=COLUMNS, for instance bank=12")
    return name, int(count)
