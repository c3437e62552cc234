"""Columns from whatever speaks Arrow's C data interface: DuckDB's results, and a caller's Arrow arrays.

The interface is a few structures in memory (https://arrow.apache.org/docs/format/CDataInterface.html), so no package is
needed to read them. Numbers and text are not copied: a column holds on to the memory that its producer gave.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.data.packed_text import Text
from colonnade.data.values import Batch, Kind, Mask, Plain, Values, joined
from colonnade.errors import DataError

_NUMBERS: dict[str, tuple[Kind, Any]] = {
    "c": ("whole", np.int8),
    "C": ("whole", np.uint8),
    "s": ("whole", np.int16),
    "S": ("whole", np.uint16),
    "i": ("whole", np.int32),
    "I": ("whole", np.uint32),
    "l": ("whole", np.int64),
    "L": ("whole", np.uint64),
    "e": ("real", np.float16),
    "f": ("real", np.float32),
    "g": ("real", np.float64),
    "tdD": ("date", np.int32),
}
# Units of a moment in a microsecond, or microseconds in a unit.
_MOMENTS = {"tss": 1_000_000, "tsm": 1_000, "tsu": 1, "tsn": -1_000}
# Durations are read as seconds.
_SPANS = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000}
_DAY_MILLISECONDS = 86_400_000


class StreamFailed(Exception):
    """A producer stopped half way; its message may quote a row."""


class Streamable(Protocol):
    """Offers a stream of batches."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))),
    ("private_data", ctypes.c_void_p),
]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class _Owned:
    """A structure that its producer gave away: released when the last column that reads it is gone."""

    def __init__(self, structure: Any) -> None:
        self.structure = structure

    def __del__(self) -> None:
        if self.structure.release:
            self.structure.release(ctypes.byref(self.structure))


def batches(producer: Streamable) -> Iterator[Batch]:
    """A stream of tables, batch by batch as they are computed."""
    for array, schema in _arrays(producer):
        batch, kinds = array.structure, schema.structure
        yield Batch(
            tuple(
                _column(batch.children[place].contents, kinds.children[place].contents, array)
                for place in range(batch.n_children)
            ),
            int(batch.length),
        )


def columns_of(producer: Streamable) -> dict[str, Values]:
    """A whole stream of tables as columns by name; a name that stands twice is refused."""
    names: list[str] = []
    parts: list[list[Values]] = []
    for array, schema in _arrays(producer, names):
        parts = parts or [[] for _ in names]
        for place, column in enumerate(parts):
            content, kind = (
                array.structure.children[place].contents,
                schema.structure.children[place].contents,
            )
            column.append(_column(content, kind, array))
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"column {twice[0]!r} is there twice. Name each column once.")
    empty: Values = Plain("nothing", np.zeros(0))
    return {name: joined(parts[place]) if parts else empty for place, name in enumerate(names)}


def of_array(producer: Any) -> Values:
    """One Arrow array, as pyarrow and others have them."""
    kinds, content = producer.__arrow_c_array__()
    # What the capsules hold is theirs: they live as long as the column that reads it.
    schema = ctypes.cast(_pointer(kinds, b"arrow_schema"), ctypes.POINTER(_Schema)).contents
    array = ctypes.cast(_pointer(content, b"arrow_array"), ctypes.POINTER(_Array)).contents
    return _column(array, schema, (kinds, content))


def of_chunks(producer: Streamable) -> Values:
    parts = [_column(array.structure, schema.structure, array) for array, schema in _arrays(producer)]
    return joined(parts) if parts else Plain("nothing", np.zeros(0))


def _arrays(producer: Streamable, names: list[str] | None = None) -> Iterator[tuple[_Owned, _Owned]]:
    """Array by array with what it is; `names` takes the names of a table's columns, also where it has no rows."""
    capsule = producer.__arrow_c_stream__()
    stream = ctypes.cast(_pointer(capsule, b"arrow_array_stream"), ctypes.POINTER(_Stream))
    schema = _Owned(_Schema())
    _check(stream, stream.contents.get_schema(stream, ctypes.byref(schema.structure)))
    if names is not None:
        fields = schema.structure
        names += [fields.children[place].contents.name.decode() for place in range(fields.n_children)]
    while True:
        array = _Owned(_Array())
        _check(stream, stream.contents.get_next(stream, ctypes.byref(array.structure)))
        if not array.structure.release:
            return
        yield array, schema


def _check(stream: Any, code: int) -> None:
    if code:
        said = stream.contents.get_last_error(stream) or b""
        raise StreamFailed(said.decode(errors="replace"))


def _column(array: Any, schema: Any, owner: object) -> Values:
    kind = schema.format.decode()
    if schema.dictionary:
        return _looked_up(array, schema, owner)
    if kind == "n":
        return Plain("nothing", np.zeros(array.length))
    missing = _missing(array, owner)
    if kind in _NUMBERS:
        meaning, dtype = _NUMBERS[kind]
        return Plain(meaning, _buffer(array, 1, dtype, owner), missing)
    if kind == "b":
        return Plain("truth", _bits(array, 1, owner), missing)
    if kind in ("u", "U"):
        return _text(array, np.int32 if kind == "u" else np.int64, missing, owner)
    if kind == "vu":
        return _views(array, missing, owner)
    if kind[:2] == "tD" and kind[2:] in _SPANS:
        return Plain("real", _buffer(array, 1, np.int64, owner) / _SPANS[kind[2:]], missing)
    if kind == "tdm":
        return Plain("date", _buffer(array, 1, np.int64, owner) // _DAY_MILLISECONDS, missing)
    if kind[:3] in _MOMENTS and kind[3:4] == ":":
        unit, given = _MOMENTS[kind[:3]], _buffer(array, 1, np.int64, owner)
        exact = given * unit if unit > 0 else given // -unit
        return Plain("moment", exact, missing, zoned=len(kind) > 4)
    if kind.startswith("d:"):
        return _decimals(array, kind, missing, owner)
    # Whether such a column matters is known to whoever declares it.
    what: Kind = "binary" if kind[0] in "zZw" or kind == "vz" else "nested" if kind[0] == "+" else "unread"
    return Plain(what, np.zeros(array.length), missing)


def _buffer(array: Any, number: int, dtype: Any, owner: object, *, more: int = 0) -> NDArray[Any]:
    return _memory(array.buffers[number], array.offset + array.length + more, dtype, owner)[array.offset :]


def _memory(address: int | None, count: int, dtype: Any, owner: object) -> NDArray[Any]:
    size = count * np.dtype(dtype).itemsize
    if not address or not size:
        return np.zeros(count, dtype=dtype)
    view = (ctypes.c_char * size).from_address(address)
    view.owner = owner
    values: NDArray[Any] = np.frombuffer(view, dtype=dtype)
    values.flags.writeable = False
    return values


def _bits(array: Any, number: int, owner: object) -> Mask:
    end = array.offset + array.length
    packed = _memory(array.buffers[number], -(-end // 8), np.uint8, owner)
    return np.unpackbits(packed, count=end, bitorder="little")[array.offset :].astype(bool)


def _missing(array: Any, owner: object) -> Mask | None:
    if array.null_count == 0 or not array.n_buffers or not array.buffers[0]:
        return None
    gone = ~_bits(array, 0, owner)
    return gone if gone.any() else None


def _text(array: Any, dtype: Any, missing: Mask | None, owner: object) -> Text:
    ends = _buffer(array, 1, dtype, owner, more=1)
    size = int(ends[-1]) if len(ends) else 0
    return Text(ends, _memory(array.buffers[2], size, np.uint8, owner), missing)


def _views(array: Any, missing: Mask | None, owner: object) -> Text:
    views = _buffer(array, 1, np.dtype((np.void, 16)), owner).tobytes()
    gone = np.zeros(array.length, dtype=bool) if missing is None else missing
    texts: list[str | None] = []
    for place, out in enumerate(gone.tolist()):
        view = views[16 * place : 16 * place + 16]
        size = int.from_bytes(view[:4], "little")
        if out:
            texts.append(None)
        elif size <= 12:
            texts.append(view[4 : 4 + size].decode())
        else:
            number, start = int.from_bytes(view[8:12], "little"), int.from_bytes(view[12:], "little")
            texts.append(ctypes.string_at(array.buffers[2 + number] + start, size).decode())
    return Text.of(texts)


def _looked_up(array: Any, schema: Any, owner: object) -> Values:
    levels = _column(array.dictionary.contents, schema.dictionary.contents, owner)
    _, dtype = _NUMBERS[schema.format.decode()]
    missing = _missing(array, owner)
    places = _buffer(array, 1, dtype, owner).astype(np.intp)
    if missing is not None:
        places[missing] = 0
    if isinstance(levels, Text):
        texts = levels.take(places) if len(levels) else Text.of([None] * len(places))
        gone = _either(texts.missing, missing)
        return Text(texts.ends, texts.store, gone)
    if not isinstance(levels, Plain) or not len(levels):
        return Plain("nothing", np.zeros(len(places)))
    gone = _either(None if levels.missing is None else levels.missing[places], missing)
    return Plain(levels.kind, levels.data[places], gone, levels.zoned)


def _either(first: Mask | None, second: Mask | None) -> Mask | None:
    if first is None or second is None:
        return second if first is None else first
    return first | second


def _decimals(array: Any, kind: str, missing: Mask | None, owner: object) -> Text:
    """Exact decimals as the text of each."""
    _, scale, *width = map(int, kind[2:].split(","))
    size = (width[0] if width else 128) // 8
    whole = _memory(array.buffers[1], (array.offset + array.length) * size, np.uint8, owner).tobytes()
    gone = np.zeros(array.length, dtype=bool) if missing is None else missing
    texts: list[str | None] = []
    for place, out in enumerate(gone.tolist(), start=array.offset):
        number = int.from_bytes(whole[place * size : (place + 1) * size], "little", signed=True)
        texts.append(None if out else str(Decimal(f"{number}E{-scale}")))
    return Text.of(texts)
