"""Formulas of "Achieving Differential Privacy in Vertically Partitioned Multiparty Learning" (functional mechanism).

What holds instead: `colonnade.privacy.sensitivity.functional` and docs/proofs/functional-sensitivity.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from colonnade.privacy.paper.figure import PaperFigure

_WHY_GLOBAL = (
    "It covers the server only: the parties decrypt exact coefficients of each other's data and add the noise "
    "afterwards."
)
_BLOCK = "Δ of one block of the functional mechanism, {}"
_WHY_BLOCK = "A zeroed record moves the block half as far, and parties hold cross-party blocks without noise."


def linear_sensitivity(features: int) -> PaperFigure:
    """Δ_f = 2(1 + 2d + d²) for linear regression; valid, and twice what is needed."""
    return PaperFigure(
        2 * (1 + 2 * features + features**2), "Δ_f of the functional mechanism, linear", _WHY_GLOBAL
    )


def logistic_sensitivity(features: int) -> PaperFigure:
    """Δ_f = d²/4 + d for logistic regression; valid, where (d + 2)²/8 is needed."""
    return PaperFigure(features**2 / 4 + features, "Δ_f of the functional mechanism, logistic", _WHY_GLOBAL)


def linear_party_sensitivity(features: int, *, own: int, holds_label: bool) -> PaperFigure:
    """Δ_f^1 = 2(1 + 2d + d¹d) for the label party, Δ_f^k = 2(2dᵏ + dᵏd) for the others."""
    first = 1 + 2 * features if holds_label else 2 * own
    return PaperFigure(
        2 * (first + own * features),
        "Δ_f^k of the functional mechanism, linear",
        "Pairs across parties are counted once here and twice in Δ_f, so a party with less than half of the "
        "features moves the coefficients further than this.",
    )


def logistic_party_sensitivity(features: int, *, own: int, holds_label: bool) -> PaperFigure:
    """Δ_f^1 = d + d¹(2d − d¹)/4 for the label party, Δ_f^k = dᵏ + dᵏ(2d − dᵏ)/4 for the others."""
    first = features if holds_label else own
    return PaperFigure(
        first + own * (2 * features - own) / 4,
        "Δ_f^k of the functional mechanism, logistic",
        "Other parties hold exact cross coefficients of this party's data, so no noise stands between them and it.",
    )


def party_epsilon(epsilon: float, *, party_sensitivity: PaperFigure, sensitivity: PaperFigure) -> PaperFigure:
    """Theorem 2: ε^(k) = Δ_f^k/Δ_f·ε."""
    return PaperFigure(
        party_sensitivity.value / sensitivity.value * epsilon,
        "ε^(k) of Theorem 2 of the functional mechanism paper",
        "It fails against other parties, who see exact coefficients, and for linear regression its Δ_f^k is too small.",
    )


def linear_block_sensitivity(own: int, *, other: int = 0, label: int | None = None) -> PaperFigure:
    """Δ_g^k of a single-party block (other = 0) or Δ_h^kl of a cross-party one, linear: 2·Σ‖λ‖₁ over its coefficients.

    `label` is 0 if the first party holds the label, 1 if the second does. A block of one party has (dᵏ)² ordered pairs
    and with the label 1 + 2dᵏ more; one of two parties has 2dᵏdˡ and with the label 2d of the other party. Together
    they make Δ_f.
    """
    if other:
        count = 2 * own * other + (0 if label is None else 2 * (other, own)[label])
    else:
        count = own**2 + (0 if label is None else 1 + 2 * own)
    return PaperFigure(2 * count, _BLOCK.format("linear"), _WHY_BLOCK)


def logistic_block_sensitivity(own: int, *, other: int = 0, label: int | None = None) -> PaperFigure:
    """Δ_g^k or Δ_h^kl, logistic: ½ for each product with the label, ⅛ for each ordered pair of features, doubled."""
    if other:
        pairs, labelled = 2 * own * other, 0 if label is None else (other, own)[label]
    else:
        pairs, labelled = own**2, 0 if label is None else own
    return PaperFigure(pairs / 4 + labelled, _BLOCK.format("logistic"), _WHY_BLOCK)


def bottom_up_epsilon(
    sensitivity: float, *, single: Sequence[tuple[float, float]], cross: Sequence[tuple[float, float]]
) -> PaperFigure:
    """Corollary 1: ε = Σ Δ_f/Δ_g^k·εᵏ + Σ Δ_f/Δ_h^kl·εᵏˡ, over pairs (sensitivity of a block, its ε)."""
    return PaperFigure(
        sum(sensitivity / block * spent for block, spent in (*single, *cross)),
        "ε of Corollary 1 of the functional mechanism paper",
        "Plain composition already gives the sum of the blocks' ε; this returns the number of blocks times as much, "
        "and still covers the server only.",
    )
