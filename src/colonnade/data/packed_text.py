"""Many texts in one piece of memory: a text of its own in Python takes fifty bytes more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
# Up to so many bytes, texts are compared as a few machine words; up to so many different ones, one after the other.
_SHORT, _FEW = 64, 32
# Odd and irregular, so that different words hardly ever add up to the same; where they do, it is noticed.
_FACTORS = np.array(
    [0x9E3779B97F4A7C15 * (2 * place + 1) % (1 << 64) for place in range(_SHORT // 8 + 1)], dtype=np.uint64
)
_TAKEN = 1 << 16


@dataclass(frozen=True, eq=False)
class Text:
    """Texts in order, UTF-8 one after another, with where each begins and ends; some may be missing."""

    ends: NDArray[Any]
    store: NDArray[np.uint8]
    missing: Mask | None = None

    @classmethod
    def of(cls, texts: Sequence[str | None]) -> Text:
        packed = [b"" if one is None else one.encode("utf-8", "surrogatepass") for one in texts]
        ends = np.zeros(len(packed) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in packed], out=ends[1:])
        absent = np.fromiter((one is None for one in texts), dtype=bool, count=len(packed))
        return cls(ends, np.frombuffer(b"".join(packed), dtype=np.uint8), absent if absent.any() else None)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def part(self, start: int, stop: int) -> Text:
        """Some of them in order, without copying."""
        missing = None if self.missing is None else self.missing[start:stop]
        return Text(self.ends[start : stop + 1], self.store, missing)

    @staticmethod
    def joined(parts: Sequence[Text]) -> Text:
        """All texts of these parts, in order."""
        lengths = np.concatenate([np.diff(part.ends) for part in parts])
        ends = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=ends[1:])
        missing = None
        if any(part.missing is not None for part in parts):
            missing = np.concatenate(
                [np.zeros(len(part), dtype=bool) if part.missing is None else part.missing for part in parts]
            )
        return Text(ends, np.concatenate([part.bytes() for part in parts]), missing)

    def take(self, places: NDArray[Any]) -> Text:
        """Those at these places, in that order."""
        lengths = np.diff(self.ends)[places]
        ends = np.zeros(len(places) + 1, dtype=np.int64)
        np.cumsum(lengths, out=ends[1:])
        store = np.empty(int(ends[-1]), dtype=np.uint8)
        # A few at a time: an address for every byte takes eight times the bytes.
        for start in range(0, len(places), _TAKEN):
            some = slice(start, start + _TAKEN)
            first, last = int(ends[start]), int(ends[min(start + _TAKEN, len(places))])
            shifts = self.ends[places[some]] - ends[:-1][some]
            store[first:last] = self.store[np.repeat(shifts, lengths[some]) + np.arange(first, last)]
        return Text(ends, store, None if self.missing is None else self.missing[places])

    def lengths(self) -> NDArray[np.int64]:
        """How many bytes each has."""
        return np.diff(self.ends).astype(np.int64, copy=False)

    def texts(self) -> list[str | None]:
        """As Python's own texts, None for what is missing."""
        content = self.bytes().tobytes()
        ends = (self.ends - self.ends[0]).tolist()
        texts: list[str | None]
        if content.isascii():
            whole = content.decode("ascii")
            texts = [whole[start:end] for start, end in pairwise(ends)]
        else:
            texts = [content[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends)]
        if self.missing is not None:
            for place in np.flatnonzero(self.missing):
                texts[place] = None
        return texts

    def distinct(self) -> tuple[list[str], NDArray[np.intp]]:
        """The different texts, and which of them stands where; one more than there are stands for none."""
        codes, firsts = self._coded()
        # One that is missing is the empty text here, whether or not it is also written somewhere.
        texts = [str(one) for one in Text(self.ends, self.store).take(firsts).texts()]
        if self.missing is not None:
            codes = np.where(self.missing, len(texts), codes)
        return texts, codes

    def beyond(self, letters: bytes) -> Mask:
        """Which of them have a byte that is none of these."""
        strange = np.ones(256, dtype=bool)
        strange[list(letters)] = False
        beyond = strange[self.bytes()]
        if not beyond.any():
            return np.zeros(len(self), dtype=bool)
        before = np.concatenate(([0], np.cumsum(beyond)))
        ends = self.ends - self.ends[0]
        return np.asarray(before[ends[1:]] > before[ends[:-1]])

    def _coded(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """A number for each text, the same for the same, and where each number stands first."""
        lengths = np.diff(self.ends)
        longest = int(lengths.max()) if len(lengths) else 0
        if longest > _SHORT:
            return self._coded_singly()
        words = self._words(lengths, max(8, -(-longest // 8) * 8))
        # Sums of products, modulo 2^64.
        keys = words @ _FACTORS[: words.shape[1]] + lengths.astype(np.uint64) * _FACTORS[-1]
        codes = np.full(len(self), -1, dtype=np.intp)
        firsts: list[int] = []
        left = len(self)
        while left and len(firsts) < _FEW:
            place = int(np.argmax(codes < 0))
            same = keys == keys[place]
            codes[same] = len(firsts)
            firsts.append(place)
            left -= int(np.count_nonzero(same))
        first = np.array(firsts, dtype=np.intp)
        if left:
            _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
        alike = (words == words[first][codes]).all() and (lengths == lengths[first][codes]).all()
        return (codes, first) if alike else self._coded_singly()

    def _words(self, lengths: NDArray[Any], width: int) -> NDArray[np.uint64]:
        """Every text in so many bytes, with zeros after its end, as machine words."""
        across = np.arange(width)
        places = np.minimum(self.ends[:-1, None] + across, max(len(self.store) - 1, 0))
        padded = self.store[places] if len(self.store) else np.zeros((len(self), width), dtype=np.uint8)
        padded[across >= lengths[:, None]] = 0
        return padded.view(np.uint64)

    def _coded_singly(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        content, seen = self.store.tobytes(), dict[bytes, int]()
        ends, firsts = self.ends.tolist(), []
        codes = np.empty(len(self), dtype=np.intp)
        for place, (start, end) in enumerate(pairwise(ends)):
            one = content[start:end]
            if one not in seen:
                seen[one] = len(seen)
                firsts.append(place)
            codes[place] = seen[one]
        return codes, np.array(firsts, dtype=np.intp)

    def bytes(self) -> NDArray[np.uint8]:
        """All texts, one after another."""
        return self.store[int(self.ends[0]) : int(self.ends[-1])]
