"""The commands of `colonnade privacy` for one kind of noise each."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from colonnade.cli.privacy_options import (
    Across,
    Against,
    AsJson,
    Delta,
    Entries,
    Epsilon,
    For,
    Owners,
    Paper,
    Plot,
    Rate,
    Threshold,
    Times,
    Unit,
    UnitOption,
    noise_option,
    number_option,
    respond,
)


def gaussian(
    sensitivity: Annotated[Fraction, number_option("--sensitivity", "L2 sensitivity.")],
    sigma: Annotated[Fraction | None, noise_option("--sigma", "Standard deviation σ.")] = None,
    epsilon: Epsilon = None,
    delta: Delta = 1e-5,
    times: Times = 1,
    rate: Rate = None,
    unit: UnitOption = Unit.RECORD,
    as_json: AsJson = False,
    paper: Paper = False,
    plot: Plot = None,
    against: Against = Across.DELTA,
) -> None:
    """Normal noise on real numbers.

    \b
    Example:
      colonnade privacy gaussian --sensitivity 1 --epsilon 1 --delta 1e-5 --paper
    """
    from colonnade.cli import privacy_families as families

    family = families.gaussian(sensitivity, unit=families.unit_asked(unit.value), rate=rate)
    given = {"sensitivity": sensitivity, "unit": unit.value}
    respond(
        family,
        given,
        noise=sigma,
        epsilon=epsilon,
        delta=delta,
        times=times,
        rate=rate,
        as_json=as_json,
        paper=paper,
        plot=plot,
        against=against,
    )


def discrete_gaussian(
    sensitivity: Annotated[Fraction, number_option("--sensitivity", "L2 sensitivity of the integers.")],
    sigma_squared: Annotated[
        Fraction | None, noise_option("--sigma-squared", "Variance parameter σ².")
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = 1e-5,
    times: Times = 1,
    rate: Rate = None,
    unit: UnitOption = Unit.RECORD,
    entries: Entries = None,
    as_json: AsJson = False,
    paper: Paper = False,
    plot: Plot = None,
    against: Against = Across.DELTA,
) -> None:
    """Discrete Gaussian noise on integers.

    \b
    Example:
      colonnade privacy discrete-gaussian --sensitivity 16 --sigma-squared 3600 --entries 1
    """
    from colonnade.cli import privacy_families as families

    family = families.gaussian_on_integers(
        sensitivity, entries=entries, unit=families.unit_asked(unit.value), rate=rate
    )
    given = {"sensitivity": sensitivity, "unit": unit.value, "entries": entries}
    respond(
        family,
        given,
        noise=sigma_squared,
        epsilon=epsilon,
        delta=delta,
        times=times,
        rate=rate,
        as_json=as_json,
        paper=paper,
        plot=plot,
        against=against,
    )


def laplace(
    sensitivity: Annotated[Fraction, number_option("--sensitivity", "L1 sensitivity.")],
    scale: Annotated[Fraction | None, noise_option("--scale", "Scale of the noise.")] = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    times: Times = 1,
    rate: Rate = None,
    unit: UnitOption = Unit.RECORD,
    as_json: AsJson = False,
    paper: Paper = False,
    plot: Plot = None,
    against: Against = Across.DELTA,
) -> None:
    """Laplace noise on real numbers.

    \b
    Example:
      colonnade privacy laplace --sensitivity 1 --scale 20 --times 100 --delta 1e-6
    """
    from colonnade.cli import privacy_families as families

    family = families.laplace(sensitivity, unit=families.unit_asked(unit.value), rate=rate)
    given = {"sensitivity": sensitivity, "unit": unit.value}
    respond(
        family,
        given,
        noise=scale,
        epsilon=epsilon,
        delta=delta,
        times=times,
        rate=rate,
        as_json=as_json,
        paper=paper,
        plot=plot,
        against=against,
    )


def discrete_laplace(
    sensitivity: Annotated[Fraction, number_option("--sensitivity", "L1 sensitivity of the integers.")],
    scale: Annotated[Fraction | None, noise_option("--scale", "Scale of the noise.")] = None,
    others: Annotated[
        Fraction | None,
        number_option(
            "--others", "L1 sensitivity of the other owners' part of a record, replaced; safe if left out."
        ),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    times: Times = 1,
    rate: Rate = None,
    unit: UnitOption = Unit.RECORD,
    owners: Owners = 1,
    threshold: Threshold = None,
    whom: For = None,
    entries: Entries = None,
    as_json: AsJson = False,
    paper: Paper = False,
    plot: Plot = None,
    against: Against = Across.DELTA,
) -> None:
    """Discrete Laplace noise on integers, whole or dealt by several owners as Pólya parts.

    \b
    Example:
      colonnade privacy discrete-laplace --sensitivity 4 --epsilon 1 --owners 3 --threshold 1 --delta 1e-9
    """
    from colonnade.cli import privacy_families as families
    from colonnade.errors import PrivacyError

    dealing = families.Dealing.asked(owners, threshold)
    if dealing.of > 1 and delta == 0:
        raise PrivacyError(
            "noise dealt in parts is truncated, so no ε holds at δ = 0. Give --delta, for instance 1e-9."
        )
    family = families.laplace_on_integers(
        sensitivity,
        others=others,
        entries=entries,
        dealing=dealing,
        unit=families.unit_asked(unit.value),
        rate=rate,
    )
    given = {
        "sensitivity": sensitivity,
        "others": others,
        "unit": unit.value,
        "owners": owners,
        "threshold": threshold,
        "entries": entries,
    }
    respond(
        family,
        given,
        noise=scale,
        epsilon=epsilon,
        delta=delta,
        times=times,
        rate=rate,
        whom=whom,
        as_json=as_json,
        paper=paper,
        plot=plot,
        against=against,
    )


def skellam(
    l1: Annotated[Fraction, number_option("--l1", "L1 sensitivity of the integers.")],
    l2: Annotated[Fraction, number_option("--l2", "L2 sensitivity of the integers.")],
    mu: Annotated[Fraction | None, noise_option("--mu", "μ, half the variance.")] = None,
    others_l1: Annotated[
        Fraction | None,
        number_option("--others-l1", "L1 sensitivity of the other owners' part, replaced; safe if left out."),
    ] = None,
    others_l2: Annotated[Fraction | None, number_option("--others-l2", "The same in L2.")] = None,
    epsilon: Epsilon = None,
    delta: Delta = 1e-5,
    times: Times = 1,
    rate: Rate = None,
    unit: UnitOption = Unit.RECORD,
    owners: Owners = 1,
    threshold: Threshold = None,
    whom: For = None,
    entries: Entries = None,
    as_json: AsJson = False,
    paper: Paper = False,
    plot: Plot = None,
    against: Against = Across.DELTA,
) -> None:
    """Skellam noise on integers, whole or dealt by several owners in parts.

    \b
    Example:
      colonnade privacy skellam --l1 100 --l2 20 --epsilon 1 --owners 5 --threshold 2
    """
    from colonnade.cli import privacy_families as families
    from colonnade.errors import PlanError
    from colonnade.noise.mechanism import VectorChange

    if (others_l1 is None) != (others_l2 is None):
        raise PlanError("give both --others-l1 and --others-l2, or neither.")
    family = families.skellam_on_integers(
        VectorChange(l1, l2),
        others=None if others_l1 is None or others_l2 is None else VectorChange(others_l1, others_l2),
        entries=entries,
        dealing=families.Dealing.asked(owners, threshold),
        unit=families.unit_asked(unit.value),
        rate=rate,
    )
    given = {
        "l1": l1,
        "l2": l2,
        "others_l1": others_l1,
        "others_l2": others_l2,
        "unit": unit.value,
        "owners": owners,
        "threshold": threshold,
        "entries": entries,
    }
    respond(
        family,
        given,
        noise=mu,
        epsilon=epsilon,
        delta=delta,
        times=times,
        rate=rate,
        whom=whom,
        as_json=as_json,
        paper=paper,
        plot=plot,
        against=against,
    )
