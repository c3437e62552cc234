"""Random features of a party's columns, drawn from a public seed.

Weights are sums of bits of a public stream: the same on every machine, to the last bit.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.data.columns import Column
from colonnade.data.declaring import check_positive, check_whole
from colonnade.errors import Misdeclared
from colonnade.randomness import KeyedRandomness

Array = NDArray[np.float64]
Origin = Literal["middle", "low"]

# More features than this make moment matrices that no party could hold.
MOST_FEATURES = 1 << 14
MOST_SEED = (1 << 63) - 1
_BITS = 64


@lru_cache(maxsize=16)
def public_normals(rows: int, columns: int, *, key: str) -> Array:
    """A matrix that the key stands for, with independent entries of mean 0 and variance 1 that are nearly normal.

    An entry is (k − 32)/4 for k set bits among 64: a binomial law, exact in floating point, so that no library's
    logarithm or cosine decides its last bit.
    """
    stream = KeyedRandomness(hashlib.sha256(f"colonnade public map: {key}".encode()).digest())
    set_bits = np.bitwise_count(stream.words(rows * columns)).astype(np.float64)
    made = np.asarray((set_bits - _BITS / 2) / math.sqrt(_BITS / 4)).reshape(rows, columns)
    made.flags.writeable = False
    return made


def within_unit_ball(features: Array) -> Array:
    """Vectors (columns) longer than 1 shortened to 1, in place."""
    norms = np.sqrt(np.einsum("ij,ij->j", features, features))
    features /= np.maximum(norms, 1.0)
    return features


def _check_origin(origin: str) -> None:
    if origin not in ("middle", "low"):
        raise Misdeclared(("map", "origin"), f"map: origin = {origin!r} is not one of middle, low.")


def _placed(inputs: Array, columns: int, origin: Origin) -> Array:
    if origin == "middle":
        return np.asarray(inputs * (1.0 / math.sqrt(columns)))
    raised = (inputs + 1.0) / 2.0
    norms = np.sqrt(np.einsum("ij,ij->j", raised, raised))
    return np.asarray(raised / np.where(norms > 0, norms, 1.0))


@dataclass(frozen=True)
class RandomRelu:
    """Random rectified features: max(0, w·x), the first layer of a network whose weights are drawn, not learnt.

    x is the encoded row of the mapped columns on the unit sphere, lifted there by one more coordinate where it is
    shorter. Each feature is max(0, w·x) − 1/√(2π) for w with independent entries of variance 1: the mean over w, which
    is the same at every x, is taken off, since a constant would use up norm. With the factor √(2π/(π − 1)/D) for D
    features the squared length is 1 on average over w; what is longer is shortened to 1.

    `origin = "low"` is for pixels, spectra and counts, most of which are at their lower bound: numbers run from 0 there
    to 1, and a row is brought to length 1, so that what all rows have in common does not drown what they differ in.
    """

    features: int
    seed: int
    origin: Origin = "middle"
    kind: ClassVar[str] = "random-relu"

    @property
    def linear(self) -> bool:
        return self.origin == "low"

    def __post_init__(self) -> None:
        _check_origin(self.origin)
        check_whole(("map", "features"), "map: features", self.features, low=1, high=MOST_FEATURES)
        check_whole(("map", "seed"), "map: seed", self.seed, low=0, high=MOST_SEED)

    def check(self, columns: tuple[Column, ...]) -> None:
        """Any columns will do."""

    def attributes(self, columns: int) -> int:
        """How many attributes the block counts as unless declared: as many as there are columns."""
        return columns

    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """A name for every feature."""
        return tuple(f"relu:{number}" for number in range(self.features))

    def apply(self, inputs: Array, columns: int) -> Array:
        """Features of encoded rows of so many columns; a row is a column of the array."""
        lifted = np.empty((len(inputs) + 1, inputs.shape[1]))
        lifted[:-1] = _placed(inputs, columns, self.origin)
        short = 1.0 - np.einsum("ij,ij->j", lifted[:-1], lifted[:-1])
        np.sqrt(np.maximum(short, 0.0), out=lifted[-1])
        features = np.asarray(public_normals(self.features, len(lifted), key=f"relu {self.seed}") @ lifted)
        np.maximum(features, 0.0, out=features)
        features -= 1.0 / math.sqrt(2.0 * math.pi)
        features *= math.sqrt(2.0 * math.pi / (math.pi - 1.0) / self.features)
        return within_unit_ball(features)

    def to_data(self) -> dict[str, object]:
        return {"kind": self.kind, "features": self.features, "seed": self.seed, "origin": self.origin}


@dataclass(frozen=True)
class RandomFourier:
    """Random Fourier features: a linear rule on them is nearly one of a Gaussian kernel (Rahimi and Recht 2007).

    Pairs (cos w·x/ℓ, sin w·x/ℓ) over √(D/2) for D features, of norm exactly 1; x is the encoded row of the mapped
    columns, of norm at most 1, and ℓ the `scale`: rows much closer than ℓ look alike. `origin` is that of `RandomRelu`.
    """

    features: int
    seed: int
    scale: float = 1.0
    origin: Origin = "middle"
    kind: ClassVar[str] = "random-fourier"

    @property
    def linear(self) -> bool:
        return self.origin == "low"

    def __post_init__(self) -> None:
        _check_origin(self.origin)
        check_whole(("map", "features"), "map: features", self.features, low=2, high=MOST_FEATURES)
        check_whole(("map", "seed"), "map: seed", self.seed, low=0, high=MOST_SEED)
        if self.features % 2:
            raise Misdeclared(
                ("map", "features"),
                f"map: features = {self.features}, but Fourier features come in pairs. Use an even number.",
            )
        check_positive(("map", "scale"), "map: scale", self.scale)
        object.__setattr__(self, "scale", float(self.scale))

    def check(self, columns: tuple[Column, ...]) -> None:
        """Any columns will do."""

    def attributes(self, columns: int) -> int:
        """How many attributes the block counts as unless declared: as many as there are columns."""
        return columns

    def names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """A name for every feature: all cosines, then all sines."""
        half = range(self.features // 2)
        return (*(f"fourier:cos{number}" for number in half), *(f"fourier:sin{number}" for number in half))

    def apply(self, inputs: Array, columns: int) -> Array:
        """Features of encoded rows of so many columns; a row is a column of the array."""
        half = self.features // 2
        weights = public_normals(half, len(inputs), key=f"fourier {self.seed}")
        angles = weights @ (_placed(inputs, columns, self.origin) / self.scale)
        features = np.concatenate([np.cos(angles), np.sin(angles)])
        features /= math.sqrt(half)
        return within_unit_ball(features)

    def to_data(self) -> dict[str, object]:
        plain = {"kind": self.kind, "features": self.features, "seed": self.seed}
        return {**plain, "scale": self.scale, "origin": self.origin}
