"""The codec: what goes in comes out, and nothing else comes in."""

import struct
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import LocalProtocolError, RemoteProtocolError
from colonnade.runtime.wire import MAGIC, VERSION, Envelope, Message, decode, encode

ENVELOPE = Envelope("run", "bank", "server", "columns 3", 7)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)


@given(st.dictionaries(st.text(), plain), st.sampled_from(["u1", "i4", "u4", "i8", "u8", "f8"]), shapes)
def test_decoding_an_encoded_message_gives_it_back(fields: Any, code: Any, shape: Any) -> None:
    array = np.arange(int(np.prod(shape))).astype(code).reshape(shape)
    envelope, message = decode(encode(ENVELOPE, Message(fields, {"a": array, "b": array.T})))
    assert envelope == ENVELOPE
    assert message.fields == fields
    assert message.arrays["a"].tolist() == array.tolist()
    assert message.arrays["b"].tolist() == array.T.tolist()


@given(st.data())
@settings(max_examples=200)
def test_a_damaged_frame_is_refused_or_differs_only_in_its_values(data: st.DataObject) -> None:
    """No damage crashes the decoder: it raises the protocol's error, or the frame still parses exactly."""
    frame = bytearray(encode(ENVELOPE, Message({"n": 1, "s": "x"}, {"a": np.arange(4)})))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        _, message = decode(bytes(frame))
    except RemoteProtocolError:
        return
    assert all(array.dtype != object for array in message.arrays.values())


@given(st.integers(0, 200), st.binary(max_size=200))
def test_truncated_and_arbitrary_bytes_are_refused(cut: int, noise: bytes) -> None:
    frame = encode(ENVELOPE, Message({"n": 1}, {"a": np.arange(30)}))
    with pytest.raises(RemoteProtocolError):
        decode(frame[: min(cut, len(frame) - 1)])
    with pytest.raises(RemoteProtocolError):
        decode(frame + b"x")
    with pytest.raises(RemoteProtocolError):
        decode(noise)


def test_frames_over_the_limit_are_refused_on_both_sides() -> None:
    message = Message(arrays={"a": np.zeros(1000)})
    with pytest.raises(LocalProtocolError, match="over the limit"):
        encode(ENVELOPE, message, limit=100)
    with pytest.raises(RemoteProtocolError, match="over the limit"):
        decode(encode(ENVELOPE, message), limit=100)


def framed(**change: Any) -> bytes:
    packed: bytes = msgpack.packb({"envelope": ["r", "a", "b", "s", 0], "fields": {}, "arrays": []} | change)
    return struct.pack("<4sBI", MAGIC, VERSION, len(packed)) + packed


@pytest.mark.parametrize(
    "change",
    [
        {"arrays": [["a", "f8", [2**20, 2**20]]]},
        {"arrays": [["a", "O", [1]]]},
        {"arrays": [["a", "f8", [-1]]]},
        {"arrays": [["a", "f8", [0]], ["a", "f8", [0]]]},
        {"envelope": ["r", "a", "b", "s", "0"]},
        {"envelope": ["r", "a", "b", 5, 0]},
        {"fields": [1]},
    ],
)
def test_a_header_of_another_shape_is_refused(change: dict[str, list[list[str | list[int]]]]) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(framed(**change))


def test_another_version_is_named_and_what_a_newer_release_adds_to_a_header_is_passed_over() -> None:
    frame = bytearray(encode(ENVELOPE, Message()))
    frame[4] = 9
    with pytest.raises(RemoteProtocolError, match="layout 9"):
        decode(bytes(frame))
    envelope, message = decode(framed(fields={"x": 1}, added={"later": 1}))
    assert envelope == Envelope("r", "a", "b", "s", 0) and message.fields == {"x": 1}


def test_what_cannot_be_serialised_fails_at_the_sender() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be serialised"):
        encode(ENVELOPE, Message({"x": object()}))
    with pytest.raises(LocalProtocolError, match="does not travel"):
        encode(ENVELOPE, Message(arrays={"x": np.array([object()])}))


def test_fields_and_arrays_are_typed_on_reading() -> None:
    message = Message({"n": 1, "s": "x", "flag": True}, {"a": np.arange(4)})
    assert message.integer("n") == 1
    assert message.text("s") == "x"
    assert message.array("a", dtype="i8", shape=(4,)).tolist() == [0, 1, 2, 3]
    for read, name in ((message.integer, "s"), (message.integer, "flag"), (message.text, "missing")):
        with pytest.raises(RemoteProtocolError):
            read(name)
    for dtype, shape in (("f8", (4,)), ("i8", (2, 2))):
        with pytest.raises(RemoteProtocolError, match="expected an array"):
            message.array("a", dtype=dtype, shape=shape)
