"""What PBM-VFL's settings cost: as the paper states it, and as it is."""

from __future__ import annotations

from fractions import Fraction

from colonnade.privacy.events import PoissonBinomial, Repeated
from colonnade.privacy.guarantee import account
from colonnade.privacy.paper import feature_epsilon
from reproduction.split_networks import EMBEDDING

DELTA = 1e-5


def true_epsilon(
    parties: int,
    trials: int,
    beta: float,
    uses: int,
    *,
    known: int = 0,
    changed: int = 1,
    embedding: int = EMBEDDING,
) -> float:
    """ε at δ = 1e-5 of so many releases of a record's embedding, every release counted as a fixed map."""
    leaf = PoissonBinomial(parties - known, trials, Fraction(str(beta)), changed)
    return account(Repeated(leaf, uses * embedding), DELTA).epsilon


def stated_epsilon(parties: int, trials: int, beta: float, uses: int) -> float:
    """Theorem 6.1 with C₀ = 1."""
    return feature_epsilon(
        DELTA, contributors=parties, trials=trials, beta=beta, coordinates=EMBEDDING, uses=uses
    ).value
