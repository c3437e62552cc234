"""Shares of zero that computing parties make without talking, to mask what they are about to open.

Computing parties i and j hold a key that only they know. For every (run, step) it expands to an array r_ij that i adds
and j subtracts, so the sums d_i of all computing parties add up to zero. The values z_i = d_i · ∏(x_i − x_m) then have
Σ weights[i] · z_i = Σ d_i = 0: they are a sharing of zero at degree 2t.

Guarantee: to t computing parties, the zero shares of the other t + 1 are uniform among those with that sum
(docs/proofs/sharing.md), as long as HMAC-SHA-256 and AES-256 are pseudo-random. An opening of h + z then
shows the secret of h and nothing else about h.
"""

import hmac
from collections.abc import Mapping

from colonnade.crypto.sharing import Shamir, spread
from colonnade.numbers.field import FieldArray
from colonnade.randomness import KeyedRandomness


class ZeroShares:
    """One computing party's zero shares for one run.

    `keys` maps every other computing party to the 32-byte key held with it. `run` must be new for every run, a
    restarted one included: the same run and step expand to the same masks, and the difference of two
    openings under one mask shows what the mask hid. Within a run a step is served once.

    >>> from colonnade.crypto.sharing import Shamir
    >>> from colonnade.numbers.field import FIELD63
    >>> scheme = Shamir(3, FIELD63)
    >>> keys = {frozenset(pair): bytes([sum(pair)]) * 32 for pair in ((0, 1), (0, 2), (1, 2))}
    >>> computing_parties = [
    ...     ZeroShares(scheme, me, keys={j: keys[frozenset((me, j))] for j in range(3) if j != me}, run="a run")
    ...     for me in range(3)
    ... ]
    >>> shares = [one.share("moments", (2,)) for one in computing_parties]
    >>> scheme.reconstruct(shares, 2).decode()
    array([0, 0])
    """

    def __init__(self, scheme: Shamir, computing_party: int, *, keys: Mapping[int, bytes], run: str) -> None:
        others = set(range(scheme.computing_parties)) - {computing_party}
        if computing_party not in range(scheme.computing_parties) or set(keys) != others:
            raise ValueError(
                f"computing party {computing_party} of {scheme.computing_parties} needs a key with each of "
                f"{sorted(others)}"
            )
        if any(len(key) != 32 for key in keys.values()):
            raise ValueError("a key has 32 bytes")
        if not run:
            raise ValueError("zero shares need the name of their run")
        self._scheme = scheme
        self._computing_party = computing_party
        self._keys = dict(keys)
        self._run = run
        self._served: set[str] = set()

    def share(self, step: str, shape: tuple[int, ...]) -> FieldArray:
        """This computing party's share of zero at degree 2t for one step; a second request for it is refused."""
        if step in self._served:
            raise ValueError(f"step {step!r} already has its zero shares: one mask hides one opening")
        self._served.add(step)
        field = self._scheme.field
        out = field.zeros(shape)
        for other, key in sorted(self._keys.items()):
            drawn = field.uniform(shape, KeyedRandomness(_stream_key(key, self._run, step)))
            out = out + drawn if self._computing_party < other else out - drawn
        return out.times(spread(self._scheme.points, self._computing_party))


def _stream_key(key: bytes, run: str, step: str) -> bytes:
    # Lengths first: no two (run, step) pairs give the same message.
    parts = (b"colonnade zero shares", run.encode(), step.encode())
    message = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return hmac.digest(key, message, "sha256")
