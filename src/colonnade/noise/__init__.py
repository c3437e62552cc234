"""Exact integer noise: samplers and the mechanisms made of them."""

from colonnade.noise.skellam import MatrixSkellamNoise, SkellamNoise

__all__ = ["MatrixSkellamNoise", "SkellamNoise"]
