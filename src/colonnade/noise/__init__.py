"""Exact integer noise: samplers and the mechanisms made of them."""

from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise, MatrixGaussianNoise
from colonnade.noise.discrete_laplace import DiscreteLaplaceNoise, PolyaNoise
from colonnade.noise.mechanism import VectorChange
from colonnade.noise.poisson_binomial import PoissonBinomialNoise, binomial
from colonnade.noise.skellam import MatrixSkellamNoise, SkellamNoise

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
