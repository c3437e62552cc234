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
    """Theorem 6.1: C₀·T·B·P·b·β²·α/(M·N), with `uses` = T·B/N and `coordinates` = P."""
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
    """Theorem 6.1 converted to ε at this δ, at the best order."""

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


def sample_factor(contributors: int, order: float) -> PaperFigure:
    """Theorem 6.2: S_M(α) = (2^(M+1) − 2^(M−1) − 2)α − (3·2^(M−1) − 3M) + (2^(M−1) − 1)/(2^(M−2)(α − 1))."""
    if contributors < 2 or order <= 1:
        raise ValueError("Theorem 6.2 is stated for at least two parties and orders above 1")
    power = 2 ** (contributors - 1)
    return PaperFigure(
        (4 * power - power - 2) * order
        - (3 * power - 3 * contributors)
        + (power - 1) / (power / 2 * (order - 1)),
        "S_M(α) of Theorem 6.2 of PBM-VFL",
        "It multiplies C₀, which the paper leaves open, and grows as 2^M where the exact divergence of a whole "
        "record is M·b times that of one coin.",
    )


def sample_renyi(
    order: float, *, contributors: int, trials: int, beta: float, coordinates: int, constant: float = 1.0
) -> PaperFigure:
    """Theorem 6.2: C₀·P·b·β²·S_M(α)/M for one record in one release."""
    factor = sample_factor(contributors, order).value
    return PaperFigure(
        constant * coordinates * trials * beta**2 * factor / contributors,
        f"Theorem 6.2 of PBM-VFL with C₀ = {constant:g}, Rényi divergence for sample privacy",
        "With C₀ = 1 it can lie below the exact divergence, and later releases depend on the record through the "
        "trained networks, which it does not count.",
    )


def local_variance(*, contributors: int, trials: int, beta: float) -> PaperFigure:
    """σ_G² = 2M/(bβ²), the Gaussian noise of the baseline said to give the same privacy."""
    return PaperFigure(
        2 * contributors / (trials * beta**2),
        "variance of PBM-VFL's local baseline",
        "It matches C₀ = 1; equal privacy needs M(1 − 4β²)/(4bβ²), so the comparison favours the paper's method by "
        "a factor of 8/(1 − 4β²).",
    )
