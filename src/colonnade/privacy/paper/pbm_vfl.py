"""Formulas of "PBM-VFL: Vertical Federated Learning with Feature and Sample Privacy".

What holds instead: `colonnade.privacy.poisson_binomial`.
"""

from __future__ import annotations

from colonnade.privacy.conversion import best_order, epsilon_from_renyi
from colonnade.privacy.paper.figure import PaperFigure


def feature_renyi(
    order: float,
    *,
    contributors: int,
    trials: int,
    beta: float,
    coordinates: int,
    uses: float,
    constant: float = 1.0,
) -> PaperFigure:
    """Theorem 6.1: C₀·T·B·P·b·β²·α/(M·N), with `uses` = T·B/N and `coordinates` = P.

    >>> feature_renyi(2.0, contributors=4, trials=4, beta=0.25, coordinates=16, uses=10).value
    20.0
    """
    return PaperFigure(
        constant * uses * coordinates * trials * beta**2 * order / contributors,
        f"Theorem 6.1 of PBM-VFL with C₀ = {constant:g}, Rényi divergence for feature privacy",
        "Changing one party's features changes every row, so the losses of the rows add up instead of running in "
        "parallel; TB/N is an expected count; and no C₀ below 14.7 is valid.",
    )


def feature_epsilon(
    delta: float,
    *,
    contributors: int,
    trials: int,
    beta: float,
    coordinates: int,
    uses: float,
    constant: float = 1.0,
) -> PaperFigure:
    """Theorem 6.1 converted to ε at this δ, at the best order.

    >>> round(feature_epsilon(1e-5, contributors=5, trials=4, beta=0.1, coordinates=16, uses=10).value, 2)
    8.19
    """

    def divergence(order: float) -> float:
        return feature_renyi(
            order,
            contributors=contributors,
            trials=trials,
            beta=beta,
            coordinates=coordinates,
            uses=uses,
            constant=constant,
        ).value

    _, epsilon = best_order(lambda order: epsilon_from_renyi(order, divergence(order), delta), integer=False)
    return PaperFigure(
        epsilon,
        f"Theorem 6.1 of PBM-VFL with C₀ = {constant:g}, converted to ε",
        "The exact divergence of the Poisson binomial is 8 to 15 times larger than with C₀ = 1, and the theorem "
        "composes in parallel what adds up.",
    )


def local_variance(*, contributors: int, trials: int, beta: float) -> PaperFigure:
    """σ_G² = 2M/(bβ²), the Gaussian noise of the baseline said to give the same privacy.

    >>> round(local_variance(contributors=5, trials=4, beta=0.1).value)
    250
    """
    return PaperFigure(
        2 * contributors / (trials * beta**2),
        "variance of PBM-VFL's local baseline",
        "It matches C₀ = 1; equal privacy needs M(1 − 4β²)/(4bβ²), so the comparison favours the paper's method by "
        "a factor of 8/(1 − 4β²).",
    )
