"""Rows in groups, and polynomials through them: what proofs about rows and about products have in common.

A block of rows is cut into 64 groups. The entries at the same place of all groups lie on a polynomial, with a mask at
0, and an equation about every row becomes one about polynomials, which is checked at a random point of the extensions.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from colonnade.numbers.quartic import PRIMES, Floats, Nodes, loops, powers_of, reduced, uniform
from colonnade.randomness import KeyedRandomness

GROUPS = 64
"""Rows of a block are folded so many times in a proof."""
AT_ONCE = 1024
"""Columns whose squares are added up before they are reduced: the sums fit a double."""
AT_A_TIME = 512
"""Entries of a group that are computed at a time: they stay in the processor's cache, and so many products of 21 and
22 bits add up to an integer that a double holds and `reduced` takes."""
MOST_ROWS = 1 << 16
"""Rows of a block: their projections and products fit the integers and doubles they are computed in."""
_HALF = GROUPS // 2
_AROUND = (*range(1, _HALF + 1), *(-k for k in range(1, _HALF + 1)))
OUTSIDE = (0, *range(_HALF + 1, GROUPS + 1), *(-k for k in range(_HALF + 1, GROUPS + 1)))
"""Where the quotient of a proof is given."""
ROW_NODES = Nodes(_AROUND)
MASKED_NODES = Nodes((0, *_AROUND))
QUOTIENT_NODES = Nodes(OUTSIDE)


def derived(key: bytes, *labels: str) -> bytes:
    """A key for one purpose, bound to everything that is named."""
    whole = hashlib.sha256(b"colonnade verified rows 1")
    for part in (key, *(label.encode() for label in labels)):
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.digest()


def stretched(key: bytes, purpose: str, count: int) -> Floats:
    """Elements of the extensions that a key stands for, for one purpose."""
    return uniform(count, KeyedRandomness(derived(key, purpose)))


def point_of(key: bytes, degree: int) -> Floats:
    """The powers up to a degree of where a proof is checked: an element that is in the prime field of no extension."""
    source = KeyedRandomness(derived(key, "point"))
    while True:
        point = uniform(1, source)[:, :, 0]
        if point[:, 1:].any(axis=1).all():
            return powers_of(point, degree + 1)


@cache
def halves() -> tuple[Floats, Floats]:
    """Even and odd parts of the Lagrange polynomials at 33, …, 64: opposite groups share the work."""
    values = MASKED_NODES.values_at(OUTSIDE[1 : _HALF + 1])
    even, odd = np.empty((3, _HALF, _HALF)), np.empty((3, _HALF, _HALF))
    for q, prime in enumerate(PRIMES):
        half = pow(2, -1, prime)
        upper, lower = values[q, :, 1 : _HALF + 1], values[q, :, _HALF + 1 :]
        even[q] = _centred(reduced(reduced(upper + lower, prime) * half, prime), prime)
        odd[q] = _centred(reduced(reduced(upper - lower, prime) * half, prime), prime)
    return even, odd


def _centred(values: Floats, prime: int) -> Floats:
    return np.where(values > prime // 2, values - prime, values)


def add_crossed(
    weighted: Floats,
    first: int,
    arranged: tuple[Floats, Floats],
    scale: float,
    primes: tuple[int, ...],
    crossed: Floats,
) -> None:
    """Add what masks, weighted, give with entries that `arrange` has put into sums and differences.

    `weighted` has shape (primes, 4, columns, rows of a group), and those rows from `first` on are met; `crossed` has
    shape (primes, 4, groups), as `spread` takes it, and stays reduced.
    """
    _, columns, step = arranged[0].shape
    some = weighted[:, :, :, first : first + step]
    here = np.zeros((4 * len(primes), columns, step))
    here[:, :, : some.shape[3]] = some.reshape(len(here), columns, -1)
    products = np.empty((len(here), GROUPS))
    for at, part in zip((0, _HALF), arranged, strict=True):
        np.matmul(here.reshape(len(here), -1), part.reshape(_HALF, -1).T, out=products[:, at : at + _HALF])
    shape = (len(primes), -1)
    loops().add_reduced(products.reshape(shape), scale, np.array(primes), crossed.reshape(shape))


def spread(crossed: Floats, q: int, prime: int) -> Floats:
    """Σ_g L_g(x) t_g at 33, …, 64 and −33, …, −64, from sums and differences of opposite groups."""
    even, odd = halves()
    upper = reduced(crossed[:, :_HALF] @ even[q].T, prime)
    lower = reduced(crossed[:, _HALF:] @ odd[q].T, prime)
    return reduced(np.concatenate([upper + lower, upper - lower], axis=1), prime)


@cache
def outside() -> tuple[Floats, Floats, Floats]:
    """Where the quotient is given: the weight of the mask, of each group's target, and 1/Z."""
    masked = MASKED_NODES.values_at(OUTSIDE[1:])[:, :, 0]
    known = ROW_NODES.values_at(OUTSIDE)
    inverse = [
        [pow(value, -1, prime) for value in row]
        for row, prime in zip(ROW_NODES.vanishing(OUTSIDE), PRIMES, strict=True)
    ]
    return masked, known, np.array(inverse, dtype=np.float64)
