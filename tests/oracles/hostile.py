"""What a hostile peer may put on the wire, and the property that everybody else must keep.

Frames come from an honest run. They are damaged as bytes, as headers, as messages that are well formed but say
something else, and as a sequence: dropped, repeated, swapped. The seed of a mutation is in every failure.
"""

import random
import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import msgpack
import numpy as np
from typed import untyped

from colonnade.errors import PeerTimeout, RemoteProtocolError
from colonnade.runtime.party import Party
from colonnade.runtime.wire import MAGIC, VERSION, decode

PREFIX = struct.Struct("<4sBI")
DEEP: list[Any] = reduce(lambda deep, _: [deep], range(400), [])
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 255, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 0.0, -0.5, 1e308),
    *(
        float("nan"),
        float("inf"),
        "",
        "x",
        "0" * 64,
        "f" * 64,
        "é\x00\n\x1b[2J",
        "a" * 3000,
        b"",
        b"\x00" * 32,
    ),
    *(b"\xff" * 32, b"\x01" + bytes(31), b"k" * 31, [], [1], [[0]], {}, {"a": 1}, {"party": "bank"}, DEEP),
    *(msgpack.ExtType(7, b"code"), msgpack.Timestamp(5, 6)),
)
SHAPES: tuple[Any, ...] = (
    *([], [0], [1], [-1], [2**28, 2**28], [2**63], [0, 2**28, 2**28, 2**28], [1] * 9),
    *("3", b"\x01", {"1": 1}, [True]),
)
CODES = ("u1", "i4", "u4", "i8", "u8", "f8")


def packed(header: dict[str, Any], content: bytes) -> bytes:
    header_bytes = msgpack.packb(header, use_bin_type=True)
    return bytes(PREFIX.pack(MAGIC, VERSION, len(header_bytes)) + header_bytes + content)


def opened(frame: bytes) -> tuple[dict[str, Any], bytes]:
    _, _, length = PREFIX.unpack_from(frame)
    end = PREFIX.size + length
    return msgpack.unpackb(frame[PREFIX.size : end], raw=False, strict_map_key=False), bytes(frame[end:])


# --- damage to bytes
def truncated(frame: bytes, rng: random.Random) -> bytes:
    return frame[: rng.randrange(len(frame))]


def extended(frame: bytes, rng: random.Random) -> bytes:
    return frame + rng.randbytes(rng.randint(1, 40))


def flipped(frame: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def overwritten(frame: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(frame))
    piece = rng.randbytes(rng.randint(1, 24))
    return frame[:start] + piece + frame[start + len(piece) :]


def cut_out(frame: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(frame))
    return frame[:start] + frame[start + rng.randint(1, 16) :]


def arbitrary(frame: bytes, rng: random.Random) -> bytes:
    return rng.randbytes(rng.randint(0, 200))


def overlong(frame: bytes, rng: random.Random) -> bytes:
    return PREFIX.pack(MAGIC, VERSION, rng.choice([2**20, 2**31, 2**32 - 1])) + frame[PREFIX.size :]


# --- a right prefix around another header
def other_envelope(frame: bytes, rng: random.Random) -> bytes:
    header, content = opened(frame)
    place = rng.randrange(5)
    number = header["envelope"][4]
    other = [number + 1, number - 1, 2**63, "0", None]
    header["envelope"][place] = rng.choice(
        other if place == 4 else ["", "bank", "server", "0" * 32, "hello", 3, None, b"bank"]
    )
    return packed(header, content)


def other_header(frame: bytes, rng: random.Random) -> bytes:
    header, content = opened(frame)
    match rng.randrange(6):
        case 0:
            header[rng.choice(["envelope", "fields", "arrays"])] = rng.choice(VALUES)
        case 1:
            del header[rng.choice(["envelope", "fields", "arrays"])]
        case 2:
            header["more"] = rng.choice(VALUES)
        case 3:
            header["arrays"] = [["a", rng.choice(["O", "V9", "u1", "f8", 3, [], None]), rng.choice(SHAPES)]]
        case 4:
            header["arrays"] = header["arrays"] * 2
        case _:
            return PREFIX.pack(MAGIC, VERSION, 400) + b"\x91" * 400 + content
    return packed(header, content)


# --- well formed, right envelope, another content
def altered(value: object, rng: random.Random) -> object:
    """The value with one leaf or branch replaced, dropped or added."""
    if isinstance(value, dict | list) and value and rng.random() < 0.8:
        changed: Any = value.copy()
        keys: Any = list(value) if isinstance(value, dict) else range(len(value))
        key = rng.choice(keys)
        match rng.randrange(4):
            case 0:
                del changed[key]
            case 1 if isinstance(value, dict):
                changed[rng.choice(["x", "", "kind", "name", "label", "key"])] = rng.choice(VALUES)
            case 1:
                changed.append(changed[key])
            case _:
                changed[key] = altered(changed[key], rng)
        return changed
    if isinstance(value, int) and type(value) is int and rng.random() < 0.3:
        return rng.choice([value + 1, value - 1, -value, value * 2])
    return rng.choice(VALUES)


def other_fields(frame: bytes, rng: random.Random) -> bytes:
    header, content = opened(frame)
    header["fields"] = altered(header["fields"], rng)
    if not isinstance(header["fields"], dict):
        header["fields"] = {"x": header["fields"]}
    return packed(header, content)


def other_arrays(frame: bytes, rng: random.Random) -> bytes:
    header, _ = opened(frame)
    arrays = dict(decode(frame)[1].arrays)
    if not arrays:
        name, array = rng.choice(["key", "words", "share", "points", "matrix"]), np.zeros(3)
    else:
        name, array = rng.choice(list(arrays.items()))
    flat = array.reshape(-1)
    limits = np.iinfo(untyped(array.dtype)) if array.dtype.kind in "iu" else None
    changes: tuple[Callable[[], Any], ...] = (
        lambda: array.astype(rng.choice(CODES)),
        lambda: flat[: rng.randint(0, max(array.size - 1, 0))],
        lambda: np.concatenate([flat, flat[:1]]),
        lambda: array[None],
        lambda: flat,
        lambda: np.zeros_like(array),
        lambda: np.full_like(array, np.nan if limits is None else rng.choice([limits.max, limits.min])),
        lambda: np.frombuffer(rng.randbytes(array.nbytes), dtype=array.dtype).reshape(array.shape),
        lambda: array,
        lambda: np.array(rng.choice([0, 255, 1]), dtype=rng.choice(CODES)),
    )
    place = rng.randrange(10)
    if place == 8:
        arrays.pop(name, None)
        name = rng.choice([name, name + "x", ""])
    arrays[name] = changes[place]()
    if rng.random() < 0.1:
        del arrays[name]
    header["arrays"] = [[key, value.dtype.str[1:], list(value.shape)] for key, value in arrays.items()]
    return packed(header, b"".join(np.ascontiguousarray(value).tobytes() for value in arrays.values()))


def swapped_places(frame: bytes, rng: random.Random) -> bytes:
    header, content = opened(frame)
    if header["arrays"]:
        header["fields"] = {entry[0]: content[:64] for entry in header["arrays"]}
        header["arrays"], content = [], b""
    else:
        header["arrays"] = [[name, "u1", [4]] for name in header["fields"]]
        content, header["fields"] = bytes(4 * len(header["arrays"])), {}
    return packed(header, content)


BYTES = (truncated, extended, flipped, overwritten, cut_out, arbitrary, overlong)
HEADERS = (other_envelope, other_header)
CONTENTS = (other_fields, other_arrays, swapped_places)
DAMAGES = (*BYTES, *HEADERS, *CONTENTS, *CONTENTS)


@dataclass
class Script:
    """A channel on which a recorded run comes in, and what goes out is dropped."""

    name: str
    frames: dict[str, list[tuple[str, bytes]]] = field(default_factory=lambda: defaultdict(list))

    async def send(self, to: str, step: str, frame: bytes) -> None:
        return None

    async def receive(self, peer: str, step: str, timeout: float) -> bytes:
        if not self.frames[peer]:
            raise PeerTimeout(f"{self.name} waited at step {step!r} for {peer}, which sent nothing.")
        sent, frame = self.frames[peer].pop(0)
        if sent != step:
            raise RemoteProtocolError(f"{self.name} is at step {step!r} but {peer} sent {sent!r}")
        return frame

    def stop(self, reason: str | None) -> None:
        return None


def reshuffled(seen: list[Any], at: int, rng: random.Random, damage: Any = None) -> tuple[str, list[Any]]:
    """A recorded run with one thing wrong at one place: what was done, and (sender, step, frame) in order."""
    frames = [(one.sender, one.step, bytes(one.frame)) for one in seen]
    sender, step, frame = frames[at]
    if damage is None:
        damage = rng.choice((*DAMAGES, "drop", "repeat", "swap", "relabel"))
    match damage:
        case "drop":
            del frames[at]
        case "repeat":
            frames.insert(at, frames[at])
        case "swap":
            same = [i for i, other in enumerate(frames) if other[0] == sender and i != at]
            if same:
                other = rng.choice(same)
                frames[at], frames[other] = frames[other], frames[at]
        case "relabel":
            frames[at] = (sender, rng.choice([other[1] for other in frames]), frame)
        case _:
            frames[at] = (sender, step, damage(frame, rng))
    return getattr(damage, "__name__", damage), frames


def scripted(party: Party, frames: list[Any]) -> Party:
    channel = Script(party.name)
    for sender, step, frame in frames:
        channel.frames[sender].append((step, frame))
    party.channel = channel
    return party
