"""What a check sends, altered at random: nothing that was altered is accepted."""

from collections.abc import Callable

import numpy as np
import pytest
from row_sessions import SOURCE, Session, dealt, short_rows

from colonnade.crypto import product_proof
from colonnade.crypto.product_proof import ProductClaim, ProductProof
from colonnade.crypto.row_proofs import RowClaim
from colonnade.numbers.field import FIELD63, FieldArray

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
    assert tried(frames, decide, 150, seed=0) == 0


@pytest.mark.slow
@pytest.mark.parametrize("which", CHECKS)
def test_none_of_a_hundred_thousand_altered_frames_is_accepted(which: str) -> None:
    assert sum(tried(*CHECKS[which](), 5000, seed) for seed in range(1, 11)) == 0
