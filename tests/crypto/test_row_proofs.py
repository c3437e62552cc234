"""Two computing parties check the norms of rows of which they hold shares: what is true passes, and nothing else."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import plain_check_loops
import pytest
from row_sessions import SOURCE, Session, dealt, one_more, short_rows

from colonnade.crypto import product_proof
from colonnade.crypto.product_proof import ProductClaim, ProductProof, derived, point_of
from colonnade.crypto.row_proofs import PROJECTIONS, RowClaim, RowClaims
from colonnade.errors import FieldTooSmall
from colonnade.numbers import quartic
from colonnade.numbers.field import FIELD63, FieldArray
from colonnade.randomness import SeededRandomness

BOUND = 3 << 20
POINTS = [(0, -1), (0, 1), (1, -1), (1, 0)]


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (63, 2), (64, 3), (65, 1), (500, 4)])
def test_rows_within_their_bound_pass(rows: int, columns: int, points: tuple[int, int]) -> None:
    assert Session.of(short_rows(rows, columns, BOUND), RowClaim(columns, BOUND), points=points).run()


def test_several_claims_about_one_block_pass_together_and_rows_too_long_are_told_to_their_dealer() -> None:
    rows = np.concatenate([short_rows(90, 2, BOUND), np.full((90, 1), 7), short_rows(90, 3, 10)], axis=1)
    assert Session.of(rows, RowClaim(2, BOUND), RowClaim(1, 49), RowClaim(3, 10)).run()
    with pytest.raises(ValueError, match="1 of 5 rows are longer than the bound"):
        Session.of(np.array([[1], [2], [3], [4], [9]]), RowClaim(1, 80)).run()


def test_shares_of_a_longer_row_than_was_proved_are_not_accepted() -> None:
    def lengthen(session: Session) -> None:
        """Both verifiers hold shares of another entry than was proved."""
        added = np.zeros(session.rows.shape, dtype=np.int64)
        added[3, 0] = 1 << 33
        first, second = session.claims.points
        shares = session.held["shares"]
        shares[1][0] = shares[1][0] + FIELD63.encode(added).times(second - first)

    assert not Session.of(short_rows(70, 2, BOUND), RowClaim(2, BOUND), dealt=lengthen).run()


def _every_message(session: Session, which: str, place: int) -> None:
    held = session.held
    if which == "bits":
        used = np.argwhere(session.claims.used)
        held["bits"][tuple(used[place % len(used)])] ^= 1
    else:
        held[which] = one_more(held[which], place)


@pytest.mark.parametrize("which", ["bits", "proof", "answer"])
@pytest.mark.parametrize("place", [0, 1, 5, 17, 63, 64, 65, 66, 90, 121, 255, 1001, 4242])
def test_an_altered_bit_proof_or_answer_is_not_accepted(which: str, place: int) -> None:
    step = {"bits": "bits", "proof": "proved", "answer": "answered"}[which]
    session = Session.of(short_rows(80, 2, BOUND), RowClaim(2, BOUND))
    session.changes[step] = lambda s: _every_message(s, which, place)
    assert not session.run()


@pytest.mark.parametrize("verifier", [0, 1])
@pytest.mark.parametrize("part", [0, 1], ids=["rows", "pads"])
def test_shares_that_are_not_of_what_was_proved_are_not_accepted(verifier: int, part: int) -> None:
    def change(session: Session) -> None:
        shares = session.held["shares"]
        shares[verifier][part] = one_more(shares[verifier][part], 7)

    assert not Session.of(short_rows(80, 2, BOUND), RowClaim(2, BOUND), dealt=change).run()


def test_a_bit_where_none_belongs_is_not_accepted() -> None:
    session = Session.of(short_rows(80, 2, BOUND), RowClaim(2, BOUND))
    places = np.argwhere(session.claims.used == 0)
    assert len(places)
    session.changes["bits"] = lambda s: s.held["bits"].__setitem__(tuple(places[0]), 1)
    assert not session.run()


@pytest.mark.parametrize("which", ["other first", "other second"])
def test_a_proof_for_other_challenges_is_not_accepted(which: str) -> None:
    session = Session.of(short_rows(80, 2, BOUND), RowClaim(2, BOUND))
    session.changes["answered"] = lambda s: s.held.__setitem__(which, bytes(32))
    assert not session.run()


def _power(field: quartic.Quartic, base: np.ndarray, exponent: int) -> np.ndarray:
    out = np.tile(np.array([[1.0], [0.0], [0.0], [0.0]]), base.shape[1])
    for bit in bin(exponent)[2:]:
        out = field.times(out, out)
        if bit == "1":
            out = field.times(out, base)
    return out


@pytest.mark.parametrize("field", quartic.QUARTICS)
def test_the_extensions_are_fields(field: quartic.Quartic) -> None:
    """Rabin's test: X^(p⁴) = X, and X^(p²) − X, which is 0 modulo any factor of a lower degree, is a unit."""
    p, x, one = field.prime, np.array([[0.0], [1], [0], [0]]), np.array([[1.0], [0], [0], [0]])
    assert (_power(field, x, p**4) == x).all()
    assert (_power(field, quartic.reduced(_power(field, x, p**2) - x, p), p**4 - 1) == one).all()
    # A control: X⁴ − 1 has zeros in every field.
    wrong = quartic.Quartic(p, 0, 1)
    assert not (_power(wrong, quartic.reduced(_power(wrong, x, p**2) - x, p), p**4 - 1) == one).all()


def test_polynomials_are_what_they_are_at_their_nodes_and_points_of_checks_in_no_prime_field() -> None:
    nodes = quartic.Nodes((0, 1, -1, 4))
    for q in range(3):
        assert (nodes.values_at(nodes.points)[q] == np.eye(4)).all()
    claims = RowClaims(8, (RowClaim(1, 9),), (0, 1))
    for seed in range(50):
        powers = point_of(bytes([seed]) * 32, claims.degree)
        assert powers[:, 1:, 1].any(axis=1).all()
    assert len({derived(bytes(32), *labels) for labels in ((), ("a",), ("a", ""), ("", "a"), ("aa",))}) == 5
    assert sum(x * x for x in quartic._searched(4 * 12345 + 1)) == 4 * 12345 + 1


@pytest.mark.parametrize(
    "name", ["coin_weights", "project_integers", "combine", "three_squares", "arrange", "pairs", "ring"]
)
def test_compiled_loops_give_the_integers_of_the_plain_ones(name: str) -> None:
    def results(inner: ModuleType) -> list[np.ndarray]:
        rng = np.random.default_rng(3)
        rows = rng.integers(-(1 << 20), 1 << 20, size=(1001, 5))
        words = FIELD63.encode(rows).words[0]
        signs, subsets = (
            rng.integers(0, 256, 1001).astype(np.uint8),
            rng.integers(0, 256, (126, 7)).astype(np.uint8),
        )
        if name == "coin_weights":
            weights, moduli = rng.integers(0, quartic.PRIMES[2], (12, 7)), np.repeat(quartic.PRIMES, 4)
            out: list[Any] = [np.zeros((1001, 12))]
            inner.coin_weights(weights, signs, subsets, moduli, out[0])
            chosen = [k for k in range(7) if subsets[11, k] >> 1 & 1]
            assert out[0][89, 5] == int(weights[5, chosen].sum()) % quartic.PRIMES[1] * (
                1 - 2 * int(signs[89] & 1)
            )
        elif name == "pairs":
            even, odd, more, less = rng.integers(-(1 << 42), 1 << 42, (4, 4, 3, 10)).astype(np.float64)
            out = [np.ones((8, 25)), np.ones((8, 25)), np.ones((3, 20))]
            inner.add_pair_squares(even, odd, 4.0, quartic.PRIMES[0], 17, out[0])
            inner.add_pair_products(even, odd, more, less, quartic.PRIMES[1], 5, out[1])
            inner.add_reduced(even.reshape(3, -1)[:, :20].copy(), 4.0, np.array(quartic.PRIMES), out[2])
            expected = 1 + 4 * sum(int(even[2, j, 7] - odd[2, j, 7]) ** 2 for j in range(3))
            assert out[0][6, 24] == expected % quartic.PRIMES[0] and out[0][6, 16] == 1
        elif name == "ring":
            left, right = rng.integers(0, quartic.PRIMES[0], (2, 4, 30)).astype(np.float64)
            out = [np.empty((4, 30)), np.ones((4, 6))]
            inner.multiply(left, right, quartic.PRIMES[0], 2, 1, out[0])
            inner.add_ring_squares(left.reshape(4, 6, 5), 4.0, quartic.PRIMES[0], 2, 1, out[1])
        elif name == "project_integers":
            out = [np.zeros((7, 8), np.int64)]
            inner.project_integers(rows, rows[:, :3].copy(), signs, subsets, out[0])
        elif name == "combine":
            out = [np.zeros((3, 4, 80))]
            inner.combine(
                words.reshape(-1),
                80,
                rng.integers(0, quartic.PRIMES[2], (3, 64, 4)),
                np.array(quartic.PRIMES),
                out[0],
            )
        elif name == "three_squares":
            numbers, found = 4 * rng.integers(0, 1 << 30, 300) + 1, np.zeros((300, 3), np.int64)
            table = inner.two_squares_table(1 << 18)
            out = [table, found, inner.three_squares(numbers, table, found)]
            held = np.setdiff1d(np.arange(300), out[2])
            assert ((found**2).sum(axis=1) == numbers)[held].all()
        else:
            # From the middle of groups to past their end, the last of which is not whole.
            out = [np.full((8, 5, 40), 7.0) for _ in range(4)]
            inner.arrange(rows, 63, 30, *out[:2])
            inner.arrange_words(words, 63, 30, 1, *out[2:])
            assert out[0][2, 3, 4] == rows[2 * 63 + 34, 3] + rows[10 * 63 + 34, 3]
            assert not out[0][:, :, 33:].any()
        return out

    pairs = zip(results(quartic.loops()), results(plain_check_loops), strict=True)
    assert all(np.array_equal(compiled, plain) for compiled, plain in pairs)


def test_projections_are_the_sums_they_say() -> None:
    rows = np.random.default_rng(1).integers(-99, 99, size=(100, 3))
    draws = quartic.Projections.from_key(bytes(32), rows=100, count=4)
    expected = np.zeros((4, 3), dtype=np.int64)
    for i in range(100):
        for k in range(4):
            if draws.subsets[i // 8, k] >> (i % 8) & 1:
                expected[k] += (1 - 2 * int(draws.signs[i] & 1)) * rows[i]
    found = draws.of_integers(rows[:, :2].copy(), rows[:, 2:].copy())
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("count", [100, 1024, 1500])
def test_weighted_projections_of_shares_are_those_of_the_integers(count: int) -> None:
    """Σ_k ρ_k·projection k, computed from shares without a projection by itself, and from the projections."""
    rows = np.random.default_rng(1).integers(-(1 << 20), 1 << 20, size=(count, 12))
    draws, rho = (
        quartic.Projections.from_key(bytes(32), rows=count, count=40),
        quartic.uniform(40, SeededRandomness(3)),
    )
    parts = rows[:, :9].copy(), rows[:, 9:].copy()
    found = draws.of_shares(FIELD63.encode(parts[0]), FIELD63.encode(parts[1]), rho)
    projected = draws.of_integers(*parts).astype(object)
    for q, prime in enumerate(quartic.PRIMES):
        assert np.array_equal(found[q], (rho[q].astype(np.int64).astype(object) @ projected) % prime)


@pytest.mark.parametrize("bound", [0, 1, 2, 3, 7, 48, 2**16, 3 << 29, 1 << 36])
def test_every_slack_is_three_squares(bound: int) -> None:
    root = int(bound**0.5)
    lengths = np.unique(
        np.concatenate([np.arange(min(root, 30) + 1), np.linspace(0, root, 20).astype(np.int64)])
    )
    rows = lengths[:, None].astype(np.int64)
    filled = quartic.slack(rows, bound)
    assert (4 * rows[:, 0] ** 2 + (filled**2).sum(axis=1) == 4 * bound + 1).all()


def test_soundness_is_counted_in_integers_and_what_could_wrap_around_is_refused() -> None:
    claims = RowClaims(16384, (RowClaim(21, 3 << 28),), (0, -1))
    wrong = 2 * 64 + 2 * claims.bits + 3
    assert (
        wrong << claims.algebraic_bits
        <= quartic.ORDER - max(quartic.PRIMES)
        < wrong << (claims.algebraic_bits + 1)
    )
    assert claims.algebraic_bits >= 76 and PROJECTIONS == 40
    with pytest.raises(FieldTooSmall, match="smaller gamma, or verify = 'none'"):
        RowClaims(16384, (RowClaim(21, 1 << 35),), (0, 1))


def test_what_passes_the_projections_cannot_wrap_around() -> None:
    """4d(2T)² + 3(4T)² + 4R + 1 < M for whatever is accepted as claims."""
    for columns in (1, 21, 300):
        for bits in range(2, 34):
            try:
                claims = RowClaims(4096, (RowClaim(columns, 1 << bits),), (0, 1))
            except FieldTooSmall:
                continue
            t = 1 << claims.window_bits[0]
            assert 4 * columns * (2 * t) ** 2 + 3 * (4 * t) ** 2 + (4 << bits) + 1 < FIELD63.modulus
            # ln 2^76·L·D, in whole numbers: T² is at least that times what honest squares can add up to.
            assert t * t >= 4096 * (1 << bits) * 0.693 * (76 + np.log2(PROJECTIONS * claims.lanes))


# What a check sends, altered at random: nothing that was altered is accepted.


Decide = Callable[[dict[str, np.ndarray]], bool]


def words_of(payload: np.ndarray, shape: tuple[int, ...]) -> FieldArray:
    """As a party reads them; what is no element of the field is refused here."""
    return FieldArray.from_bytes(FIELD63, shape, payload)


def rows_checked() -> tuple[dict[str, np.ndarray], Decide]:
    """The frames that the second verifier of a block of rows was sent, and what it decides on such frames."""
    session = Session.of(short_rows(70, 2, 1 << 20), RowClaim(2, 1 << 20))
    assert session.run()
    held, claims = dict(session.held), session.claims
    frames = {
        "bits": np.packbits(held["bits"]),
        "proof": held["proof"].as_bytes(),
        "answer": held["answer"].as_bytes(),
        "rows": held["shares"][1][0].as_bytes(),
        "pads": held["shares"][1][1].as_bytes(),
    }
    size = claims.bits * claims.projected

    def decide(given: dict[str, np.ndarray]) -> bool:
        flat = np.unpackbits(given["bits"])
        if len(flat) != len(np.unpackbits(frames["bits"])) or flat[size:].any():
            return False
        session.held["bits"] = flat[:size].reshape(claims.bits, claims.projected)
        for name in ("proof", "answer"):
            session.held[name] = words_of(given[name], held[name].shape)
        columns = [words_of(given["rows"], (70, 2)), words_of(given["pads"], (70, 3))]
        session.held["shares"] = [held["shares"][0], columns]
        return session.decide()

    return frames, decide


def products_checked() -> tuple[dict[str, np.ndarray], Decide]:
    """The same for a block of products."""
    points, count = (0, 1, -1), 70
    left, right = (dealt(short_rows(count, 2, 1 << 20, seed), points) for seed in (1, 2))
    claim = ProductClaim(count, 2, -1, 0, (1, -1))
    value = left[0].row_products(right[0]).times(-1)
    base = FIELD63.uniform(value.shape, SOURCE)
    pieces = [base + value.times(point) for point in points]
    seeds, first, third = (SOURCE.bytes(32), SOURCE.bytes(32)), SOURCE.bytes(32), SOURCE.bytes(32)
    proof = ProductProof(claim, left[0], right[0], value, seeds=seeds).proof(first)
    answered = product_proof.answer(
        claim, (left[1], right[1], pieces[1]), seed=seeds[0], challenge=first, third=third
    )
    frames = {
        "proof": proof.as_bytes(),
        "answer": answered.as_bytes(),
        "factors": left[2].as_bytes(),
        "products": pieces[2].as_bytes(),
    }

    def decide(given: dict[str, np.ndarray]) -> bool:
        held = (words_of(given["factors"], (count, 2)), right[2], words_of(given["products"], (count, 1)))
        return product_proof.accepts(
            claim,
            held,
            seed=seeds[1],
            proof=words_of(given["proof"], proof.shape),
            challenge=first,
            third=third,
            answered=words_of(given["answer"], answered.shape),
        )

    return frames, decide


def altered(frame: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A bit, a byte or a stretch of bytes is another, two places change theirs, the end is missing."""
    out = frame.copy()
    place, length = int(rng.integers(len(out))), int(rng.integers(1, 40))
    match int(rng.integers(5)):
        case 0:
            out[place] ^= np.uint8(1 << int(rng.integers(8)))
        case 1:
            out[place] ^= np.uint8(rng.integers(1, 256))
        case 2:
            out[place : place + length] = rng.integers(0, 256, len(out[place : place + length]))
        case 3:
            other = int(rng.integers(len(out)))
            out[place], out[other] = frame[other], frame[place]
        case _:
            return out[: len(out) - min(length, len(out) - 1)]
    return out


def tried(frames: dict[str, np.ndarray], decide: Decide, times: int, seed: int) -> int:
    """So many frames that are not what was sent; returns how many of them were accepted."""
    rng, accepted, count = np.random.default_rng(seed), 0, 0
    names = list(frames)
    while count < times:
        name = names[int(rng.integers(len(names)))]
        frame = altered(frames[name], rng)
        if np.array_equal(frame, frames[name]):
            continue
        count += 1
        try:
            accepted += decide(frames | {name: frame})
        except ValueError:
            continue
    return accepted


CHECKS = {"rows": rows_checked, "products": products_checked}


@pytest.mark.parametrize("which", CHECKS)
def test_no_altered_frame_is_accepted(which: str) -> None:
    frames, decide = CHECKS[which]()
    assert decide(frames), "a control: what was sent is accepted"
    assert tried(frames, decide, 100, seed=0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("which", CHECKS)
def test_none_of_a_hundred_thousand_altered_frames_is_accepted(which: str) -> None:
    assert sum(tried(*CHECKS[which](), 5000, seed) for seed in range(1, 11)) == 0


def test_where_a_proof_is_checked_depends_on_the_whole_key() -> None:
    points = {point_of(bytes([number]) + bytes(31), 1).tobytes() for number in range(16)}
    assert len(points) == 16
