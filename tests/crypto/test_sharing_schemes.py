"""Any t + 1 shares open, t shares are uniform, and sums and products of shares are those of the secrets."""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from colonnade.crypto.sharing import (
    InconsistentShares,
    Seed,
    Shamir,
    party_points,
    reshare,
    spread,
    total,
    value_weights,
)
from colonnade.errors import PlanError
from colonnade.numbers.field import FIELD63, FIELD126, Field, FieldArray, GramSum
from colonnade.randomness import SeededRandomness

FALSE_ALARM = 1e-9

SCHEMES: list[Shamir] = [Shamir(3, FIELD63), Shamir(3, FIELD126), Shamir(5, FIELD63), Shamir(7, FIELD63)]

schemes = st.sampled_from(SCHEMES)
seeds = st.integers(0, 2**32)


def dealt_shares(scheme: Shamir, secret: FieldArray, degree: int, seed: object) -> list[FieldArray]:
    pieces = scheme.deal(secret, degree, SeededRandomness(str(seed)))
    return [scheme.expand(piece) for piece in pieces]


def secret_of(field: Field, seed: object, shape: tuple[int, ...] = (2, 3)) -> FieldArray:
    return field.uniform(shape, SeededRandomness(f"secret {seed}"))


@given(schemes, seeds)
@settings(max_examples=30, deadline=None)
def test_t_plus_one_shares_open_degree_t_and_all_of_them_degree_2t(scheme: Shamir, seed: int) -> None:
    secret = secret_of(scheme.field, seed)
    shares = dealt_shares(scheme, secret, scheme.threshold, seed)
    for count in range(scheme.threshold + 1, scheme.computing_parties + 1):
        for chosen in combinations(range(scheme.computing_parties), count):
            some = [share if j in chosen else None for j, share in enumerate(shares)]
            assert scheme.reconstruct(some, scheme.threshold).equals(secret)
    degree = 2 * scheme.threshold
    shares = dealt_shares(scheme, secret, degree, seed)
    assert scheme.reconstruct(shares, degree).equals(secret)
    for missing in range(scheme.computing_parties):
        some = [None if j == missing else share for j, share in enumerate(shares)]
        with pytest.raises(ValueError, match=f"takes {degree + 1} shares"):
            scheme.reconstruct(some, degree)


@given(schemes, seeds)
@settings(max_examples=30, deadline=None)
def test_sums_and_products_of_shares_share_sums_and_products(scheme: Shamir, seed: int) -> None:
    t = scheme.threshold
    x, y = secret_of(scheme.field, seed), secret_of(scheme.field, f"{seed} other")
    noise = secret_of(scheme.field, f"{seed} noise", (3, 3))
    xs, ys = dealt_shares(scheme, x, t, seed), dealt_shares(scheme, y, t, f"{seed}y")
    zs = dealt_shares(scheme, noise, 2 * t, f"{seed}z")
    assert scheme.reconstruct([a + b for a, b in zip(xs, ys, strict=True)], t).equals(x + y)
    products = [a.transpose_times(b) + z for a, b, z in zip(xs, ys, zs, strict=True)]
    assert scheme.reconstruct(products, 2 * t).equals(x.transpose_times(y) + noise)


@given(schemes, seeds, st.integers(-(2**40), 2**40))
@settings(max_examples=30, deadline=None)
def test_public_values_and_raised_degrees_share_the_same_secret(
    scheme: Shamir, seed: int, value: int
) -> None:
    t = scheme.threshold
    public = scheme.field.encode(np.full((2, 3), value))
    for degree in (t, 2 * t):
        constant = [scheme.constant(public, j, degree) for j in range(scheme.computing_parties)]
        assert scheme.reconstruct(constant, degree).equals(public)
    secret = secret_of(scheme.field, seed)
    raised = [scheme.constant(share, j, t) for j, share in enumerate(dealt_shares(scheme, secret, t, seed))]
    assert scheme.reconstruct(raised, 2 * t).equals(secret)


@given(schemes, seeds)
@settings(max_examples=20, deadline=None)
def test_the_weights_open_what_all_keepers_hold_and_resharing_lowers_a_product(
    scheme: Shamir, seed: int
) -> None:
    secret = secret_of(scheme.field, seed)
    shares = dealt_shares(scheme, secret, 2 * scheme.threshold, seed)
    out = scheme.field.zeros(secret.shape)
    for weight, share in zip(scheme.weights, shares, strict=True):
        out = out.plus_times(weight, share)
    assert out.equals(secret)
    t = scheme.threshold
    x = secret_of(scheme.field, seed)
    squares = [share.multiply(share) for share in dealt_shares(scheme, x, t, seed)]
    dealt = [reshare(scheme, j, share, SeededRandomness(f"{seed} {j}")) for j, share in enumerate(squares)]
    lowered = [total(scheme, [pieces[j] for pieces in dealt]) for j in range(scheme.computing_parties)]
    assert scheme.reconstruct(lowered, t).equals(x.multiply(x))
    # A product of the lowered value opens again: circuits can go deeper.
    cubes = [
        low.multiply(share) for low, share in zip(lowered, dealt_shares(scheme, x, t, seed), strict=True)
    ]
    assert scheme.reconstruct(cubes, 2 * t).equals(x.multiply(x).multiply(x))


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_as_many_keepers_as_the_degree_receive_only_a_seed(scheme: Shamir) -> None:
    for degree in (scheme.threshold, 2 * scheme.threshold):
        pieces = scheme.deal(scheme.field.zeros((4, 5)), degree, SeededRandomness(1))
        assert [isinstance(piece, Seed) for piece in pieces] == [
            j < degree for j in range(scheme.computing_parties)
        ]
        keys = {piece.key for piece in pieces if isinstance(piece, Seed)}
        assert len(keys) == degree


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_a_wrong_share_is_noticed_where_there_is_one_to_spare(scheme: Shamir) -> None:
    t = scheme.threshold
    secret = secret_of(scheme.field, "wrong")
    for liar in range(scheme.computing_parties):
        shares = dealt_shares(scheme, secret, t, "wrong")
        shares[liar] += scheme.field.encode(np.array([[0, 0, 0], [0, 1, 0]]))
        with pytest.raises(InconsistentShares, match="wrong"):
            scheme.reconstruct(shares, t)
        # At degree 2t nothing is to spare: the error goes into the secret, as documented.
        shares = dealt_shares(scheme, secret, 2 * t, "wrong")
        shares[liar] += scheme.field.encode(np.array([[0, 0, 0], [0, 1, 0]]))
        assert not scheme.reconstruct(shares, 2 * t).equals(secret)


def _p_value(scheme: Shamir, chosen: tuple[int, ...], shares: list[FieldArray]) -> float:
    """The smallest p-value of two tests that these computing parties' shares are jointly uniform, in every residue.

    The first cuts every share into 4 bins and counts the cells. The second does what a coalition would do:
    it interpolates, and asks whether the result is uniform. The second is needed, because the cells are
    too coarse to see a relation with weights as large as 1, 4, 6, 4, 1.
    """
    places = [scheme.points[j] for j in chosen]
    opened = scheme.field.zeros(shares[0].shape)
    for at, j in enumerate(chosen):
        opened = opened.plus_times(scheme.field.inverse(spread(places, at)), shares[j])
    worst = 1.0
    for lane, prime in enumerate(scheme.field.primes):
        # Bins differ in width by less than one part in 10^4, far below what these samples resolve.
        cell = np.zeros(opened.shape, dtype=np.int64)
        for j in chosen:
            quarter = shares[j].residues[lane].astype(np.uint64) // np.uint64(-(-prime // 4))
            cell = cell * 4 + quarter.astype(np.int64)
        result = opened.residues[lane].astype(np.uint64) // np.uint64(-(-prime // 64))
        for counts in (
            np.bincount(cell, minlength=4 ** len(chosen)),
            np.bincount(result.astype(np.int64), minlength=64),
        ):
            worst = min(worst, float(stats.chisquare(counts).pvalue))
    return worst


@pytest.mark.parametrize("scheme", [Shamir(3, FIELD63), Shamir(5, FIELD63)], ids=repr)
@pytest.mark.parametrize("value", [0, -123456])
def test_shares_up_to_the_degree_are_jointly_uniform_and_one_more_is_not(scheme: Shamir, value: int) -> None:
    secret = scheme.field.encode(np.full(40_000, value))
    for degree in (scheme.threshold, 2 * scheme.threshold):
        shares = dealt_shares(scheme, secret, degree, f"uniform {degree}")
        for chosen in combinations(range(scheme.computing_parties), degree):
            assert _p_value(scheme, chosen, shares) > FALSE_ALARM
    for degree in (scheme.threshold, 2 * scheme.threshold):
        shares = dealt_shares(scheme, secret, degree, f"uniform {degree}")
        for chosen in combinations(range(scheme.computing_parties), degree + 1):
            assert _p_value(scheme, chosen, shares) < FALSE_ALARM


@pytest.mark.parametrize("scheme", [Shamir(3, FIELD63), Shamir(5, FIELD63)], ids=repr)
def test_these_tests_see_shares_that_lack_one_bit(scheme: Shamir) -> None:
    # The top bit of every residue is cleared: the values are half of what they should be.
    secret = scheme.field.encode(np.full(40_000, 1))
    shares = dealt_shares(scheme, secret, scheme.threshold, "lacking")
    for share in shares:
        share.words[...] &= ~np.uint64(1 << 20 | 1 << 41 | 1 << 62)
    for chosen in combinations(range(scheme.computing_parties), scheme.threshold):
        assert _p_value(scheme, chosen, shares) < FALSE_ALARM


@pytest.mark.parametrize("computing_parties", [3, 5])
@pytest.mark.parametrize("field", [FIELD63, FIELD126])
def test_a_gram_streamed_by_row_blocks_opens_to_the_integers(computing_parties: int, field: Field) -> None:
    rng = np.random.default_rng(3)
    scheme = Shamir(computing_parties, field)
    tables = [rng.integers(-(2**15), 2**15, (700, columns)) for columns in (3, 2)]
    sums = [GramSum(field, 5) for _ in range(computing_parties)]
    for start in range(0, 700, 256):
        pieces = [
            scheme.deal(
                field.encode(table[start : start + 256]), scheme.threshold, SeededRandomness(f"{start}{k}")
            )
            for k, table in enumerate(tables)
        ]
        for j, running in enumerate(sums):
            running.add(*(scheme.expand(owner[j]) for owner in pieces))
    whole = np.hstack(tables)
    opened = scheme.reconstruct([running.value() for running in sums], 2 * scheme.threshold)
    assert opened.decode().tolist() == (whole.T @ whole).tolist()


@pytest.mark.parametrize("computing_parties", [-1, 0, 1, 2, 4, 6])
def test_a_number_of_keepers_that_is_not_2t_plus_1_is_refused(computing_parties: int) -> None:
    with pytest.raises(PlanError, match="odd"):
        Shamir(computing_parties, FIELD63)


@pytest.mark.parametrize("scheme", [Shamir(3, FIELD63), Shamir(7, FIELD63)], ids=repr)
def test_a_degree_other_than_t_and_2t_is_refused(scheme: Shamir) -> None:
    secret = scheme.field.zeros((1,))
    for degree in (0, scheme.threshold + (1 if scheme.threshold > 1 else 2), 2 * scheme.threshold + 1):
        with pytest.raises(ValueError, match="degree"):
            scheme.deal(secret, degree, SeededRandomness(1))
        with pytest.raises(ValueError, match="degree"):
            scheme.reconstruct([secret] * scheme.computing_parties, degree)
    with pytest.raises(ValueError, match="computing parties"):
        scheme.reconstruct([secret], scheme.threshold)


def test_weights_between_the_keepers_points_are_integers() -> None:
    # So that dealing multiplies by small numbers; the points are consecutive integers.
    for computing_parties in (3, 5, 7, 9):
        points = party_points(computing_parties)
        assert sorted(points) == list(range(-(computing_parties // 2), computing_parties // 2 + 1))
        for degree in range(1, computing_parties):
            for point in points[degree:]:
                assert all(abs(weight) < 2**20 for weight in value_weights(points[:degree], point, FIELD63))


def test_seeds_hide_their_key_and_a_total_is_an_array_of_its_own() -> None:
    assert "41" not in repr(Seed(b"A" * 32, (1,)))
    with pytest.raises(ValueError, match="32 bytes"):
        Seed(bytes(31), (1,))
    with pytest.raises(ValueError, match="shape"):
        Seed(bytes(32), (-1,))
    scheme = Shamir(3, FIELD63)
    piece = FIELD63.encode(np.array([5]))
    out = total(scheme, [piece])
    out += piece
    assert piece.decode().tolist() == [5]


# Why noise is dealt at degree 2t: the attack on noise dealt at degree t, run on both (docs/proofs/noise-degree.md).
#
# The wrong protocol deals the noise at degree t and raises it to 2t, so that the sum opens to the right noisy secret.
# The receiver, with t computing parties' shares (its own among them), still computes exact equations in the data.


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


def table_neighbour_noise() -> tuple[Matrix, Matrix, Matrix]:
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
    table, neighbour, noise = table_neighbour_noise()
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
    table, _, noise = table_neighbour_noise()
    run = Opening(Shamir(3, FIELD63), fresh=False, seed=1, secret=table, noise=noise)
    share = plain(run.data[1])
    bare = plain(run.shown[0])
    assert ((bare - (table - share).T @ (table - share)) % MODULUS == 0).all()
    table, _, noise = table_neighbour_noise()
    run = Opening(Shamir(3, FIELD63), fresh=False, seed=2, secret=table, noise=noise)
    known, equations = run.attack((0,))
    a = plain(run.data[0])
    assert (known[0] == a).all()
    assert ((equations[0] - a.T @ table - table.T @ a) % MODULUS == 0).all()


def _misfits(fresh: bool) -> np.ndarray:
    """Residues of what is left of the server's equation when the true table is put in, over many runs."""
    table, _, noise = table_neighbour_noise()
    scheme = Shamir(3, FIELD63)
    runs = [Opening(scheme, fresh=fresh, seed=k, secret=table, noise=noise) for k in range(500)]
    return (
        np.array([run.misfit((0,), table)[0] % FIELD63.primes[0] for run in runs])
        .reshape(-1)
        .astype(np.int64)
    )


def _misfit_p_value(residues: np.ndarray) -> float:
    return float(stats.chisquare(np.bincount(residues * 16 // FIELD63.primes[0], minlength=16)).pvalue)


def test_at_degree_2t_what_is_left_of_the_equation_is_uniform_and_at_degree_t_nothing_is_left() -> None:
    assert _misfit_p_value(_misfits(fresh=True)) > FALSE_ALARM
    assert _misfit_p_value(_misfits(fresh=False)) < FALSE_ALARM


def test_noise_added_at_degree_t_without_raising_it_vanishes_from_the_sum() -> None:
    # The other way to get the degree wrong: the leading coefficient of the sum is the bare product.
    scheme = Shamir(3, FIELD63)
    table, _, noise = table_neighbour_noise()
    source = SeededRandomness("unraised")
    data = [scheme.expand(p) for p in scheme.deal(FIELD63.encode(table), 1, source)]
    low = [scheme.expand(p) for p in scheme.deal(FIELD63.encode(noise), 1, source)]
    shown = [share.gram() + z for share, z in zip(data, low, strict=True)]
    assert scheme.reconstruct(shown, 2).decode().tolist() == (table.T @ table).tolist()
