"""What was sealed opens once, at its place, at its receiver; nothing else opens."""

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.crypto.sealing import OVERHEAD, Opener, SealBroken, Sealer, unambiguous

SECRET = bytes(range(32))
ROUTE = ("job", "bank", "insurer")
frames = st.lists(st.binary(max_size=64), min_size=1, max_size=5)


def line() -> tuple[Sealer, Opener]:
    return Sealer(SECRET, ROUTE), Opener(SECRET, ROUTE)


@settings(max_examples=40, deadline=None)
@given(frames, st.text(max_size=10))
def test_opening_undoes_sealing_in_order(sent: list[bytes], step: str) -> None:
    sealer, opener = line()
    sealed = [sealer.seal(frame, step=step) for frame in sent]
    assert [opener.open(frame, step=step) for frame in sealed] == sent
    assert [len(frame) for frame in sealed] == [len(frame) + OVERHEAD for frame in sent]


@given(st.binary(min_size=1, max_size=40), st.data())
def test_no_changed_bit_passes(frame: bytes, data: st.DataObject) -> None:
    sealer, opener = line()
    sealed = bytearray(sealer.seal(frame, step="s"))
    at = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sealed[at // 8] ^= 1 << at % 8
    with pytest.raises(SealBroken):
        opener.open(sealed, step="s")


@given(st.binary(max_size=120))
def test_no_bytes_but_the_sealers_open(noise: bytes) -> None:
    with pytest.raises(SealBroken):
        line()[1].open(noise, step="s")


@given(st.binary(max_size=40), st.integers(0, 67))
def test_no_frame_opens_that_was_cut_or_lengthened(frame: bytes, length: int) -> None:
    sealer, opener = line()
    sealed = sealer.seal(frame, step="s")
    changed = sealed[:length] if length < len(sealed) else sealed + b"\0"
    with pytest.raises(SealBroken):
        opener.open(changed, step="s")


@given(st.permutations(range(4)))
def test_only_the_order_of_sending_opens(order: list[int]) -> None:
    sealer, opener = line()
    sealed = [sealer.seal(bytes([number]), step="s") for number in range(4)]
    opened = 0
    for position, number in enumerate(order):
        if number != position:
            with pytest.raises(SealBroken, match="repeated or moved"):
                opener.open(sealed[number], step="s")
            break
        assert opener.open(sealed[number], step="s") == bytes([number])
        opened += 1
    assert opened == 4 or order[opened] != opened


def test_a_frame_that_comes_twice_is_refused_and_after_a_bad_one_even_the_right_one() -> None:
    sealer, opener = line()
    sealed = sealer.seal(b"x", step="s")
    opener.open(sealed, step="s")
    with pytest.raises(SealBroken, match="repeated or moved"):
        opener.open(sealed, step="s")
    sealer, opener = line()
    sealed = sealer.seal(b"x", step="s")
    with pytest.raises(SealBroken):
        opener.open(b"noise", step="s")
    with pytest.raises(SealBroken, match="nothing more is taken"):
        opener.open(sealed, step="s")


@pytest.mark.parametrize(
    ("route", "step"),
    [
        (("other job", "bank", "insurer"), "s"),
        (("job", "shop", "insurer"), "s"),
        (("job", "bank", "shop"), "s"),
        (("job", "insurer", "bank"), "s"),
        (("jobbank", "", "insurer"), "s"),
        (ROUTE, "another step"),
    ],
)
def test_a_frame_opens_for_its_job_sender_receiver_and_step_only(route: tuple[str, ...], step: str) -> None:
    sealed = Sealer(SECRET, ROUTE).seal(b"x", step="s")
    with pytest.raises(SealBroken, match="altered, or was sealed for another"):
        Opener(SECRET, route).open(sealed, step=step)


def test_equal_frames_look_different_and_other_secrets_open_nothing() -> None:
    sealer, _ = line()
    assert len({sealer.seal(b"the same", step="s")[12:] for _ in range(20)}) == 20
    with pytest.raises(SealBroken):
        Opener(bytes(32), ROUTE).open(Sealer(SECRET, ROUTE).seal(b"x", step="s"), step="s")
    with pytest.raises(ValueError, match="32 bytes"):
        Sealer(b"short", ROUTE)


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_different_texts_have_different_bytes(one: list[str], other: list[str]) -> None:
    assert (unambiguous(tuple(one)) == unambiguous(tuple(other))) == (one == other)


def test_a_sealed_frame_is_what_aes_gcm_says_it_is() -> None:
    """Built from the definition with the primitives alone: HKDF-Expand by its two lines, then GCM."""

    def texts(*parts: str) -> bytes:
        counted = [len(part.encode()).to_bytes(8, "little") + part.encode() for part in parts]
        return len(parts).to_bytes(8, "little") + b"".join(counted)

    key = hmac.new(SECRET, b"colonnade sealed line 1" + texts(*ROUTE) + b"\x01", hashlib.sha256).digest()
    header = b"CLSE" + (0).to_bytes(8, "little")
    expected = header + AESGCM(key).encrypt(bytes(12), b"x", header + texts(*ROUTE, "s"))
    assert Sealer(SECRET, ROUTE).seal(b"x", step="s") == expected
