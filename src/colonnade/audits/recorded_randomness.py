"""What an observer that takes part knows of itself: the coins it drew, so that its own noise is no noise to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.randomness import Randomness


class RecordedRandomness:
    """A party's own source of randomness, which also keeps what came out of it since the last mark."""

    def __init__(self, inner: Randomness) -> None:
        self._inner = inner
        self._bytes: list[bytes] = []
        self._words: list[NDArray[np.uint64]] = []

    @property
    def reproducible(self) -> bool:
        return self._inner.reproducible

    def mark(self) -> None:
        self._bytes.clear()
        self._words.clear()

    def bytes(self, count: int) -> bytes:
        """Fresh bytes, kept."""
        drawn = self._inner.bytes(count)
        self._bytes.append(drawn)
        return drawn

    def words(self, count: int) -> NDArray[np.uint64]:
        drawn = self._inner.words(count)
        self._words.append(drawn.copy())
        return drawn

    def again(self) -> Randomness:
        """The draws since the mark, in the same order."""
        return _Again(list(self._bytes), list(self._words))


class _Again:
    reproducible = True

    def __init__(self, pieces: list[bytes], words: list[NDArray[np.uint64]]) -> None:
        self._pieces, self._words = iter(pieces), iter(words)

    def bytes(self, count: int) -> bytes:
        drawn = next(self._pieces)
        if len(drawn) != count:
            raise ValueError(f"{len(drawn)} bytes were drawn here, not {count}")
        return drawn

    def words(self, count: int) -> NDArray[np.uint64]:
        drawn = next(self._words)
        if len(drawn) != count:
            raise ValueError(f"{len(drawn)} words were drawn here, not {count}")
        return drawn.copy()
