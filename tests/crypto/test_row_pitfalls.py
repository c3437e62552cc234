"""What goes wrong with checks of rows that are nearly right, each shown on the wrong version and on ours."""

import numpy as np
import pytest
from row_sessions import Lying, Session, dealt, short_rows

from colonnade.crypto import row_proofs as row_check
from colonnade.crypto import row_proofs as row_claims
from colonnade.crypto import row_proofs as row_proof
from colonnade.crypto.product_proof import MASKED_NODES, ROW_NODES, derived, point_of, stretched
from colonnade.crypto.row_proofs import RowClaim, RowClaims, RowProof
from colonnade.numbers import quartic
from colonnade.numbers.field import FIELD63
from colonnade.randomness import SystemRandomness

M = FIELD63.modulus
BOUND = 1 << 20
SOURCE = SystemRandomness()


@pytest.fixture
def few_projections(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (row_claims, row_proof, row_check):
        monkeypatch.setattr(module, "PROJECTIONS", 2)


def wrapping(**held: object) -> Session:
    """A row of four halves modulo M: its square is 1 modulo M and about M² as integers."""
    rows = short_rows(16, 4, BOUND).astype(object)
    rows[3] = [(M + 1) // 2 - M] * 4
    claims = RowClaims(16, (RowClaim(4, BOUND),), (0, -1))
    as_if = np.where(np.arange(16)[:, None] == 3, [[1, 0, 0, 0]], rows).astype(np.int64)
    pads = quartic.slack(as_if, BOUND)
    session = Session(claims, rows, pads=pads)
    session.held.update(held)
    assert sum(4 * int(v) ** 2 for v in rows[3]) + int((pads[3] ** 2).sum()) - 4 * BOUND - 1 > M
    return session


def test_a_row_that_wraps_around_passes_one_projection_as_often_as_is_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A control: the equations hold modulo M, and only projections notice. False alarm 2^-31."""
    for module in (row_claims, row_proof, row_check):
        monkeypatch.setattr(module, "PROJECTIONS", 1)
    assert 1 <= sum(wrapping().run() for _ in range(32)) <= 31


def test_a_row_that_wraps_around_is_not_accepted_and_a_true_one_is() -> None:
    assert not any(wrapping().run() for _ in range(10))
    # A control of the liar that other tests use: about short rows its proof is the proof.
    rows = short_rows(16, 4, BOUND)
    claims = RowClaims(16, (RowClaim(4, BOUND),), (0, -1))
    session = Session(claims, rows, pads=quartic.slack(rows, BOUND))
    assert session.run() and Lying.__mro__[1] is RowProof


def test_a_dealer_that_knew_the_coins_would_hide_a_row_from_them(few_projections: None) -> None:
    """Why challenges are drawn after the dealing: with them known, every cheat passes."""

    def hidden(key: bytes) -> bool:
        draws = quartic.Projections.from_key(derived(key, "projections"), rows=16, count=2)
        return not (draws.subsets[0] >> 3 & 1).any()

    keys = [SOURCE.bytes(32) for _ in range(100)]
    known = [key for key in keys if hidden(key)][:5]
    assert len(known) == 5
    assert all(wrapping(keys=[key, SOURCE.bytes(32), SOURCE.bytes(32)]).run() for key in known)


def test_bits_in_the_ring_would_prove_nothing() -> None:
    """b² = b has eight solutions modulo three primes, so that any residue is a sum of such bits times powers of two."""
    solutions = set()
    for choice in range(8):
        value = sum(
            (M // p) * pow(M // p, -1, p) for place, p in enumerate(quartic.PRIMES) if choice >> place & 1
        )
        solutions.add(value % M)
    assert len(solutions) == 8 and all(b * b % M == b for b in solutions)


def shifted(session: Session, guess: int, known: list[bytes]) -> None:
    """A first verifier moves its answer by what passes if the one row is `guess`, given the masks of `known`."""
    claims, held = session.claims, session.held
    point, answered = point_of(held["keys"][2], claims.degree), quartic.unpacked(held["answer"])
    basis, vanishing = MASKED_NODES.at(point), ROW_NODES.vanishing_at(point)
    beta = stretched(held["keys"][0], "rows", claims.count)
    for q, field in enumerate(quartic.QUARTICS):
        masks = [stretched(seed, "row masks", claims.width)[q, :, :1] for seed in known]
        mask = quartic.reduced(np.sum(masks, axis=0), field.prime)
        value = field.times(basis[q, :, 1:2].copy(), np.array([[float(guess % field.prime)], [0], [0], [0]]))
        value = quartic.reduced(value + field.times(mask, basis[q, :, :1].copy()), field.prime)
        # Moved by 1, the squares move by 4β(2F + 1), and the quotient by that over Z.
        moved = quartic.reduced(2 * value + [[1], [0], [0], [0]], field.prime)
        wanted = field.scaled(field.times(moved, beta[q]), 4)
        inverse = _power(field, vanishing[q][:, None], field.prime**4 - 2)
        answered[q, :, -3] += field.times(wanted, inverse)[:, 0]
        answered[q, 0, 0] += 1
        answered[q] = quartic.reduced(answered[q], field.prime)
    held["answer"] = quartic.packed(answered)


def _power(field: quartic.Quartic, base: np.ndarray, exponent: int) -> np.ndarray:
    out = np.array([[1.0], [0.0], [0.0], [0.0]])
    for bit in bin(exponent)[2:]:
        out = field.times(out, out)
        if bit == "1":
            out = field.times(out, base)
    return out


@pytest.mark.parametrize("guess", [41, 42])
def test_a_verifier_that_knew_the_masks_would_test_a_guess_by_whether_the_run_stops(guess: int) -> None:
    """One row, whose entry is 42. With both seeds it reads the entry; with its own alone every change stops the run."""

    def run(knows_both: bool) -> bool:
        session = Session.of(np.array([[42]]), RowClaim(1, BOUND))
        session.changes["answered"] = lambda s: shifted(s, guess, s.held["seeds"][: 2 if knows_both else 1])
        return session.run()

    assert run(True) == (guess == 42)
    assert not any(run(False) for _ in range(3))


def test_an_answer_to_another_challenge_is_an_equation_in_the_rows() -> None:
    """A second verifier that told the first another second challenge than the dealer would learn which row it is.

    This is why a verifier answers only if the dealer says that it heard the same.
    """
    claims = RowClaims(1, (RowClaim(1, BOUND),), (0, -1))
    rows, other = np.array([[42]]), np.array([[43]])
    seeds, first = (SOURCE.bytes(32), SOURCE.bytes(32)), SOURCE.bytes(32)
    tau, tau_told, third = SOURCE.bytes(32), SOURCE.bytes(32), SOURCE.bytes(32)
    proof = RowProof(claims, rows, seeds=seeds)
    pads = proof.pads
    shares = [(a, b) for a, b in zip(dealt(rows, claims.points), dealt(pads, claims.points), strict=True)]
    bits = proof.bits(first)
    words = quartic.unpacked(proof.proof(first, tau))
    answered = quartic.unpacked(
        row_check.answer(claims, shares[0], seed=seeds[0], challenge=first, second=tau_told, third=third)
    )
    weights, announced = (row_claims.BitWeights.from_key(key, claims) for key in (tau, tau_told))
    given = words[:, :, 65 : 65 + claims.bits]
    own = row_check._bit_sum(claims, shares[1], first, bits, given, announced, first=False)
    draws = quartic.Projections.from_key(derived(first, "projections"), rows=1, count=row_claims.PROJECTIONS)

    def explains(guess: np.ndarray) -> bool:
        values = draws.of_integers(guess, pads).reshape(-1) + claims.offsets.astype(np.int64)
        whole = (values[None, :] >> np.arange(claims.bits)[:, None]) & 1
        both = ((whole.astype(np.uint8) ^ bits) * bits).astype(np.float64)
        for q, field in enumerate(quartic.QUARTICS):
            said = own[q] + answered[q, :, -1]
            apart = quartic.reduced(weights.whole[q] - announced.whole[q], field.prime)
            weighted = quartic.reduced(2.0 ** np.arange(1, claims.bits + 1) @ both, field.prime)
            if quartic.reduced(said - quartic.product(apart, weighted, field.prime), field.prime).any():
                return False
        return True

    assert explains(rows) and not explains(other)


def test_what_verifiers_hold_and_tell_is_uniform_whatever_the_rows_are() -> None:
    """What each verifier holds alone: the mean of bits and of residues, for two very different blocks. z below 6."""
    for rows in (np.zeros((64, 2), dtype=np.int64), np.full((64, 2), 700)):
        bits, values = [], []
        for _ in range(30):
            claims = RowClaims(64, (RowClaim(2, BOUND),), (0, -1))
            proof = RowProof(claims, rows, seeds=(SOURCE.bytes(32), SOURCE.bytes(32)))
            bits.append(proof.bits(bytes(32))[claims.used == 1])
            values.append(quartic.unpacked(proof.proof(bytes(32), bytes(32)))[0] / quartic.PRIMES[0])
        ones, drawn = np.concatenate(bits), np.concatenate(values, axis=None)
        assert abs(ones.mean() - 0.5) * 2 * len(ones) ** 0.5 < 6
        assert abs(drawn.mean() - 0.5) * (12 * len(drawn)) ** 0.5 < 6
    for rows in (np.zeros((64, 2), dtype=np.int64), np.full((64, 2), 700)):
        values = []
        for _ in range(10):
            session = Session.of(rows, RowClaim(2, BOUND))
            assert session.run()
            values.append(quartic.unpacked(session.held["answer"])[1] / quartic.PRIMES[1])
        drawn = np.concatenate(values, axis=None)
        assert abs(drawn.mean() - 0.5) * (12 * len(drawn)) ** 0.5 < 6
