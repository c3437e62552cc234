"""Whom a model was trained on, as its own party remembers them: keyed digests of ids, in a file for nobody else.

A guarantee was given for these people, and an exact score of one of them would show more. Eight bytes of a keyed digest
take a stranger for one of n people with probability n/2⁶⁴.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ModelDamaged
from colonnade.learn.archives import DAMAGE
from colonnade.randomness import Randomness

KEY_BYTES = 32


@dataclass(frozen=True, eq=False)
class People:
    """A set of ids that can be asked, and not read.

    >>> from colonnade.randomness import SystemRandomness
    >>> people = People.of(["ann", "bob"], SystemRandomness())
    >>> "ann" in people, "eve" in people
    (True, False)
    """

    key: bytes
    digests: NDArray[np.uint64]

    @classmethod
    def of(cls, ids: Iterable[str], randomness: Randomness) -> People:
        """The set of these ids, under a key of its own."""
        key = randomness.bytes(KEY_BYTES)
        return cls(key, np.sort(np.fromiter(_digests(key, ids), dtype=np.uint64)))

    def __contains__(self, person: object) -> bool:
        (digest,) = _digests(self.key, (str(person),))
        place = int(np.searchsorted(self.digests, np.uint64(digest)))
        return place < len(self.digests) and int(self.digests[place]) == digest

    def __len__(self) -> int:
        return len(self.digests)

    def save(self, path: Path) -> None:
        """Write the set; the file is its party's own."""
        with path.open("wb") as file:
            np.savez(
                file, allow_pickle=False, key=np.frombuffer(self.key, dtype=np.uint8), digests=self.digests
            )

    @classmethod
    def load(cls, path: Path) -> People:
        """The set in a file that `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                key, digests = archive["key"].tobytes(), archive["digests"]
        except DAMAGE:
            raise ModelDamaged(f"{path} does not hold the people that a model was trained on.") from None
        if len(key) != KEY_BYTES or digests.dtype != np.uint64 or digests.ndim != 1:
            raise ModelDamaged(f"{path} does not hold the people that a model was trained on.")
        return cls(key, digests)


def _digests(key: bytes, ids: Iterable[str]) -> Iterator[int]:
    for person in ids:
        digest = hashlib.blake2b(person.encode(), digest_size=8, key=key).digest()
        yield int.from_bytes(digest, "little")
