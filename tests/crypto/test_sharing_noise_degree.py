"""Why noise is dealt at degree 2t: the attack on noise dealt at degree t, run on both (docs/proofs/noise-degree.md).

The wrong protocol deals the noise at degree t and raises it to 2t, so that the sum opens to the right noisy
secret. The receiver, with t computing parties' shares (its own among them), still computes exact equations in the data.
"""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from scipy import stats

from colonnade.crypto.sharing import Shamir
from colonnade.numbers.field import FIELD63, FieldArray
from colonnade.randomness import SeededRandomness

FALSE_ALARM = 1e-9
MODULUS = FIELD63.modulus
ROWS, COLUMNS = 4, 2

Matrix = np.ndarray  # of Python integers modulo MODULUS
Polynomial = list[Matrix]  # coefficients, lowest first


def plain(array: FieldArray) -> Matrix:
    return array.decode().astype(object) % MODULUS


def interpolate(points: list[int], values: list[Matrix]) -> Polynomial:
    """The polynomial of degree below len(points) through these values, by Lagrange, in Python integers."""
    total = [values[0] * 0 for _ in points]
    for i, (x, value) in enumerate(zip(points, values, strict=True)):
        others = [point for m, point in enumerate(points) if m != i]
        scale = pow(prod(x - other for other in others), -1, MODULUS)
        for k, coefficient in enumerate(from_roots(others)):
            total[k] = (total[k] + value * coefficient * scale) % MODULUS
    return total


def from_roots(roots: list[int]) -> list[int]:
    """∏ (X − root), lowest coefficient first."""
    out = [1]
    for root in roots:
        out = [(out[k - 1] if k else 0) - root * (out[k] if k < len(out) else 0) for k in range(len(out) + 1)]
    return out


def divide(polynomial: Polynomial, divisor: list[int]) -> Polynomial:
    """The quotient by a polynomial with leading coefficient 1; the remainder must be zero."""
    rest, quotient = list(polynomial), []
    while len(rest) >= len(divisor):
        top = rest[-1]
        quotient.append(top)
        for k, coefficient in enumerate(divisor):
            at = len(rest) - len(divisor) + k
            rest[at] = (rest[at] - top * coefficient) % MODULUS
        rest.pop()
    assert all((part == 0).all() for part in rest)
    return quotient[::-1]


class Opening:
    """One run that opens SᵀS + noise, with all that the receiver and the computing parties see.

    With `fresh` the noise is dealt at degree 2t, else at degree t and raised.
    """

    def __init__(self, scheme: Shamir, *, fresh: bool, seed: object, secret: Matrix, noise: Matrix) -> None:
        t = scheme.threshold
        source = SeededRandomness(f"opening {seed}")
        self.scheme = scheme
        self.data = [scheme.expand(p) for p in scheme.deal(FIELD63.encode(secret), t, source)]
        self.noise = [
            scheme.expand(p) for p in scheme.deal(FIELD63.encode(noise), 2 * t if fresh else t, source)
        ]
        self.shift = 0 if fresh else t
        added = self.noise if fresh else [scheme.constant(share, j, t) for j, share in enumerate(self.noise)]
        self.shown = [share.gram() + z for share, z in zip(self.data, added, strict=True)]

    def opened(self) -> Matrix:
        return plain(self.scheme.reconstruct(self.shown, 2 * self.scheme.threshold))

    def attack(self, coalition: tuple[int, ...]) -> tuple[Polynomial, Polynomial]:
        """What the receiver h and t computing parties compute: G, and t matrices that should depend on S alone.

        With Q = ∏ (X − x_i) over the coalition, the data polynomial is G + S·Q, G known. Noise dealt at
        degree t and raised is X^t·(H + z·Q), H known, so
        (h − X^t·H − GᵀG) / Q = GᵀS + SᵀG + Q·SᵀS + z·X^t: below X^t it is free of noise. Noise dealt at
        degree 2t is H + Q·R with t unknown uniform coefficients in R, and the same steps give + R.
        """
        t, points = self.scheme.threshold, list(self.scheme.points)
        places = [points[j] for j in coalition]
        known = interpolate(places, [plain(self.data[j]) for j in coalition])
        rest = interpolate(points, [plain(share) for share in self.shown])
        for k, part in enumerate(interpolate(places, [plain(self.noise[j]) for j in coalition])):
            rest[k + self.shift] = (rest[k + self.shift] - part) % MODULUS
        for i, left in enumerate(known):
            for j, right in enumerate(known):
                rest[i + j] = (rest[i + j] - left.T @ right) % MODULUS
        return known, divide(rest, from_roots(places))[:t]

    def misfit(self, coalition: tuple[int, ...], guess: Matrix) -> Polynomial:
        """How far a guessed table is from the equations: all zero if it solves every one of them."""
        known, equations = self.attack(coalition)
        roots = from_roots([self.scheme.points[j] for j in coalition])
        return [
            (equations[k] - part.T @ guess - guess.T @ part - roots[k] * (guess.T @ guess)) % MODULUS
            for k, part in enumerate(known)
        ]


def solved(misfit: Polynomial) -> bool:
    return all((part == 0).all() for part in misfit)


def tables() -> tuple[Matrix, Matrix, Matrix]:
    """A table, its neighbour with one row zeroed out, and noise that drowns both."""
    rng = np.random.default_rng(5)
    table = rng.integers(-100, 100, (ROWS, COLUMNS)).astype(object)
    neighbour = table.copy()
    neighbour[2] = 0
    half = rng.integers(-(2**40), 2**40, (COLUMNS, COLUMNS)).astype(object)
    return table, neighbour, half + half.T


def coalitions(scheme: Shamir) -> list[tuple[int, ...]]:
    return list(combinations(range(scheme.computing_parties), scheme.threshold))


@pytest.mark.parametrize("computing_parties", [3, 5])
def test_the_receiver_and_t_keepers_tell_neighbours_apart_at_degree_t_and_not_at_2t(
    computing_parties: int,
) -> None:
    scheme = Shamir(computing_parties, FIELD63)
    table, neighbour, noise = tables()
    for coalition in coalitions(scheme):
        for truth, other in ((table, neighbour), (neighbour, table)):
            run = Opening(scheme, fresh=False, seed=coalition, secret=truth, noise=noise)
            assert ((run.opened() - truth.T @ truth - noise) % MODULUS == 0).all()
            assert solved(run.misfit(coalition, truth))
            assert not solved(run.misfit(coalition, other))
    for coalition in coalitions(scheme):
        run = Opening(scheme, fresh=True, seed=coalition, secret=table, noise=noise)
        assert ((run.opened() - table.T @ table - noise) % MODULUS == 0).all()
        assert not solved(run.misfit(coalition, table))
        assert not solved(run.misfit(coalition, neighbour))


def test_with_three_keepers_the_receiver_learns_exact_equations() -> None:
    table, _, noise = tables()
    run = Opening(Shamir(3, FIELD63), fresh=False, seed=1, secret=table, noise=noise)
    share = plain(run.data[1])
    bare = plain(run.shown[0])
    assert ((bare - (table - share).T @ (table - share)) % MODULUS == 0).all()
    table, _, noise = tables()
    run = Opening(Shamir(3, FIELD63), fresh=False, seed=2, secret=table, noise=noise)
    known, equations = run.attack((0,))
    a = plain(run.data[0])
    assert (known[0] == a).all()
    assert ((equations[0] - a.T @ table - table.T @ a) % MODULUS == 0).all()


def _misfits(fresh: bool) -> np.ndarray:
    """Residues of what is left of the server's equation when the true table is put in, over many runs."""
    table, _, noise = tables()
    scheme = Shamir(3, FIELD63)
    runs = [Opening(scheme, fresh=fresh, seed=k, secret=table, noise=noise) for k in range(500)]
    return (
        np.array([run.misfit((0,), table)[0] % FIELD63.primes[0] for run in runs])
        .reshape(-1)
        .astype(np.int64)
    )


def _p_value(residues: np.ndarray) -> float:
    return float(stats.chisquare(np.bincount(residues * 16 // FIELD63.primes[0], minlength=16)).pvalue)


def test_at_degree_2t_what_is_left_of_the_equation_is_uniform_and_at_degree_t_nothing_is_left() -> None:
    assert _p_value(_misfits(fresh=True)) > FALSE_ALARM
    assert _p_value(_misfits(fresh=False)) < FALSE_ALARM


def test_noise_added_at_degree_t_without_raising_it_vanishes_from_the_sum() -> None:
    # The other way to get the degree wrong: the leading coefficient of the sum is the bare product.
    scheme = Shamir(3, FIELD63)
    table, _, noise = tables()
    source = SeededRandomness("unraised")
    data = [scheme.expand(p) for p in scheme.deal(FIELD63.encode(table), 1, source)]
    low = [scheme.expand(p) for p in scheme.deal(FIELD63.encode(noise), 1, source)]
    shown = [share.gram() + z for share, z in zip(data, low, strict=True)]
    assert scheme.reconstruct(shown, 2).decode().tolist() == (table.T @ table).tolist()
