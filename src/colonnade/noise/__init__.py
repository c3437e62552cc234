"""Exact integer noise: samplers and the mechanisms made of them."""

from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise, MatrixGaussianNoise
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise, PolyaNoise
from colonnade.noise.poisson_binomial import PoissonBinomialNoise, binomial
from colonnade.noise.skellam import MatrixSkellamNoise, SkellamNoise
from colonnade.privacy.sensitivity.matrix import VectorChange

__all__ = [
    "DiscreteGaussianNoise",
    "DiscreteLaplaceNoise",
    "MatrixGaussianNoise",
    "MatrixSkellamNoise",
    "PoissonBinomialNoise",
    "PolyaNoise",
    "SkellamNoise",
    "VectorChange",
    "binomial",
]
