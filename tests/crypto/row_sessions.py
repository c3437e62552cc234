"""One dealer and two verifiers around a block of rows, with every message in reach of whoever wants to change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from colonnade.crypto.row_proofs import RowClaim, RowClaims, RowProof, accepts, answer
from colonnade.numbers.field import FIELD63, FieldArray
from colonnade.randomness import SystemRandomness

SOURCE = SystemRandomness()


def short_rows(rows: int, columns: int, bound: int, seed: int = 0) -> np.ndarray:
    """Integer rows of many lengths within the bound, one of them at it where that is possible."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(rows, columns))
    lengths = np.sqrt(bound) * rng.uniform(0, 1, size=(rows, 1))
    most = np.linalg.norm(drawn, axis=1)[:, None]
    out: np.ndarray = np.trunc(drawn * lengths / most).astype(np.int64)
    out[0] = 0
    return out


def dealt(values: np.ndarray, points: Any) -> list[FieldArray]:
    """Shares of the computing parties at two points: f(x) = a + s·x."""
    secret = FIELD63.encode(values)
    base = FIELD63.uniform(secret.shape, SOURCE)
    return [base + secret.times(point) for point in points]


Change = Callable[["Session"], None]


@dataclass
class Session:
    """What dealer and verifiers hold; `run` goes through the steps and lets `changes` interfere after each."""

    claims: RowClaims
    rows: np.ndarray
    pads: np.ndarray | None = None
    changes: dict[str, Change] = field(default_factory=dict)
    held: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: np.ndarray, *claims: RowClaim, points: tuple[int, int] = (0, -1), **changes: Change
    ) -> Session:
        return cls(RowClaims(len(rows), claims, points), rows, changes=changes)

    def _now(self, step: str) -> None:
        if step in self.changes:
            self.changes[step](self)

    def run(self) -> bool:
        held, claims = self.held, self.claims
        held["seeds"] = [SOURCE.bytes(32), SOURCE.bytes(32)]
        held.setdefault("keys", [SOURCE.bytes(32) for _ in range(3)])
        seeds = (held["seeds"][0], held["seeds"][1])
        if self.pads is None:
            proof = RowProof(claims, self.rows, seeds=seeds)
        else:
            proof = Lying(claims, self.rows, self.pads, seeds=seeds)
        pads = proof.pads if self.pads is None else self.pads
        columns, filled = dealt(self.rows, claims.points), dealt(pads, claims.points)
        held["shares"] = [[columns[i], filled[i]] for i in range(2)]
        self._now("dealt")
        first, second, third = held["keys"]
        held["bits"] = proof.bits(first).copy()
        self._now("bits")
        held["proof"] = proof.proof(first, second)
        self._now("proved")
        held["answer"] = answer(
            claims,
            tuple(held["shares"][0]),
            seed=held["seeds"][0],
            challenge=first,
            second=second,
            third=third,
        )
        self._now("answered")
        return self.decide()

    def decide(self) -> bool:
        """What the second verifier finds with what it holds now."""
        held = self.held
        first, second, third = held["keys"]
        return accepts(
            self.claims,
            tuple(held["shares"][1]),
            seed=held["seeds"][1],
            bits=held["bits"],
            proof=held["proof"],
            challenge=held.get("other first", first),
            second=held.get("other second", second),
            third=third,
            answered=held["answer"],
        )


def one_more(words: FieldArray, place: int) -> FieldArray:
    """The same words with one residue changed."""
    changed = words.words.copy()
    flat = changed.reshape(-1)
    low = int(flat[place % flat.size]) & 0x1FFFFF
    flat[place % flat.size] = (int(flat[place % flat.size]) & ~0x1FFFFF) | ((low + 1) % FIELD63.primes[0])
    return FieldArray(FIELD63, changed)


class Lying(RowProof):
    """A dealer that proves as well as it can what is not so, with pads of its own choice.

    Bits are those of rows in which long entries are zero, so that they are in range; the rest is computed from
    residues, as the equations demand.
    """

    def __init__(
        self, claims: RowClaims, rows: np.ndarray, pads: np.ndarray, *, seeds: tuple[bytes, bytes]
    ) -> None:
        self.claims, self._seeds, self.pads = claims, seeds, pads
        self._exact = rows.astype(object)
        small = np.array([[abs(int(v)) < 1 << 20 for v in row] for row in self._exact])
        self._rows = np.where(small, self._exact, 0).astype(np.int64)

    def _quotient(self, beta: np.ndarray) -> np.ndarray:
        kept, parts = self._rows, []
        for q, prime in enumerate(FIELD63.primes):
            self._rows = np.array([[int(v) % prime for v in row] for row in self._exact], dtype=np.int64)
            parts.append(super()._quotient(beta)[q])
        self._rows = kept
        return np.stack(parts)
