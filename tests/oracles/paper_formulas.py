"""Formulas of the papers that nothing in the product answers with, for the tables and tests that compare them."""

from __future__ import annotations

from colonnade.privacy.paper.figure import PaperFigure
from colonnade.privacy.paper.skellam_moments import (
    _WHY_NORM,
    Moments,
    least_epsilon,
    server_renyi,
)


def sample_factor(contributors: int, order: float) -> PaperFigure:
    """Theorem 6.2: S_M(α) = (2^(M+1) − 2^(M−1) − 2)α − (3·2^(M−1) − 3M) + (2^(M−1) − 1)/(2^(M−2)(α − 1)).

    >>> sample_factor(5, 2.0).value
    60.875
    """
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
    """Theorem 6.2: C₀·P·b·β²·S_M(α)/M for one record in one release.

    >>> round(sample_renyi(2.0, contributors=2, trials=4, beta=0.1, coordinates=1).value, 6)
    0.18
    """
    factor = sample_factor(contributors, order).value
    return PaperFigure(
        constant * coordinates * trials * beta**2 * factor / contributors,
        f"Theorem 6.2 of PBM-VFL with C₀ = {constant:g}, Rényi divergence for sample privacy",
        "With C₀ = 1 it can lie below the exact divergence, and later releases depend on the record through the "
        "trained networks, which it does not count.",
    )


def row_norm_squared(columns: int, gamma: int) -> PaperFigure:
    """Equation (13): ‖x̄‖² ≤ γ² + n.

    >>> row_norm_squared(117, 16).value
    373
    """
    return PaperFigure(
        gamma**2 + columns,
        "equation (13) of SPCA, squared norm of a rounded row",
        "A row of 117 equal entries may round to squared norm 468 at γ = 16, where it claims 373.",
    )


def client_epsilon_of_proof(moments: Moments, mu: float, delta: float, *, clients: int) -> PaperFigure:
    """The proof of Lemma 2: sensitivities doubled, μ(N − 1)/N.

    >>> mu = server_mu(gram_moments(117, 16), 1.0, 1e-5).value
    >>> round(client_epsilon_of_proof(gram_moments(117, 16), mu, 1e-5, clients=117).value, 4)
    2.1507
    """
    epsilon = least_epsilon(server_renyi(moments.scaled(2), mu * (clients - 1) / clients), delta)
    return PaperFigure(epsilon, "proof of Lemma 2 of SPCA, a client's ε", _WHY_NORM)


def packed_values(key_bits: int, field_bits: int) -> PaperFigure:
    """Equation (37): ⌊(κ − 1)/ι⌋ values in one ciphertext.

    >>> packed_values(2048, 64).value
    31
    """
    return PaperFigure(
        (key_bits - 1) // field_bits,
        "equation (37) of the vertical logistic regression paper, values packed in a ciphertext",
        "A field must hold the product of two fixed-point numbers summed over the batch, with its sign, so fewer fit.",
    )
