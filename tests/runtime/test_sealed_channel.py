"""Sealed lines over a channel that somebody else relays, and everything that somebody may try."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from certificates import DAY, NOW, Root
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from colonnade.errors import InputError, LocalProtocolError, RemoteProtocolError
from colonnade.runtime import identity
from colonnade.runtime.channel import Channel, Frame, memory_network
from colonnade.runtime.identity import HELLO, Identity, NotTrusted, SealedChannel, Trust, fingerprint, seal
from colonnade.runtime.wire import Envelope, Message, decode, encode

ROOT = Root.make()
TRUST = Trust(ROOT.certificate)
BANK, SHOP = ROOT.issue("bank"), ROOT.issue("shop")
MEMBERS = ("bank", "shop")
Meddle = Callable[[str, Frame], list[Frame]]


@dataclass
class Relay:
    """One end of a channel in the hands of a relay that may do to arriving frames what it likes."""

    inner: Channel
    meddle: Meddle = lambda step, frame: [frame]
    passed: list[bytes] = field(default_factory=list)
    waiting: list[Frame] = field(default_factory=list)

    async def send(self, to: str, step: str, frame: bytes) -> None:
        self.passed.append(frame)
        await self.inner.send(to, step, frame)

    async def receive(self, peer: str, step: str, timeout: float) -> Frame:
        while not self.waiting:
            frame = await self.inner.receive(peer, step, timeout)
            self.waiting += self.meddle(step, frame)
        return self.waiting.pop(0)

    def stop(self, reason: str | None) -> None:
        self.inner.stop(reason)


def run(work: Awaitable[Any]) -> Any:
    async def main() -> Any:
        return await work

    return asyncio.run(main())


async def met(
    *,
    meddle: Meddle | None = None,
    bank: Identity = BANK,
    shop: Identity = SHOP,
    trust: Trust = TRUST,
    jobs: tuple[str, str] = ("job", "job"),
    members: tuple[tuple[str, ...], tuple[str, ...]] = (MEMBERS, MEMBERS),
    certified: dict[str, str] | None = None,
) -> tuple[SealedChannel, SealedChannel, Relay]:
    """Bank and shop behind sealed lines; the relay sits before the shop."""
    network = memory_network(MEMBERS)
    relay = Relay(network["shop"]) if meddle is None else Relay(network["shop"], meddle)
    ends = await asyncio.gather(
        seal(
            network["bank"], "bank", members[0], job=jobs[0], identity=bank, trust=trust, certified=certified
        ),
        seal(relay, "shop", members[1], job=jobs[1], identity=shop, trust=TRUST, certified=certified),
    )
    return ends[0], ends[1], relay


async def announced(frames: list[bytes], meddle: Meddle | None = None) -> list[bytes]:
    bank, shop, _ = await met(meddle=meddle)
    for frame in frames:
        await bank.send("shop", "numbers", frame)
    return [bytes(await shop.receive("bank", "numbers", 0.2)) for _ in frames]


def test_the_relay_sees_nothing_of_what_is_sent() -> None:
    async def talk() -> bytes:
        bank, shop, relay = await met()
        secret = b"a share that nobody else may read"
        await shop.send("bank", "s", secret)
        assert await bank.receive("shop", "s", 1) == secret
        return b"".join(relay.passed)

    seen = run(talk())
    assert b"a share" not in seen
    assert b"CLSE" in seen


def only_after_hellos(change: Callable[[list[Frame]], list[Frame]]) -> Meddle:
    """Pass on what is made of all frames that came so far."""
    seen: list[Frame] = []

    def meddle(step: str, frame: Frame) -> list[Frame]:
        if step == HELLO:
            return [frame]
        seen.append(frame)
        return change(seen)

    return meddle


CLEAR = encode(Envelope("run", "bank", "shop", "numbers", 0), Message({"n": 1}))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda seen: [seen[-1], seen[-1]], r"shop at step 'numbers'.*repeated or moved"),
        (lambda seen: seen[::-1] if len(seen) == 2 else [], "repeated or moved"),
        (lambda seen: seen[1:], "frame 1 where frame 0 was due"),
        (lambda seen: [CLEAR], "not a sealed frame"),
        (lambda seen: [seen[-1][12:]], "not a sealed frame"),
    ],
    ids=["repeated", "held back", "dropped", "in clear", "without its header"],
)
def test_what_a_relay_does_to_frames_is_caught(
    change: Callable[[list[Frame]], list[Frame]], found: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=found):
        run(announced([b"one", b"two"], only_after_hellos(change)))


def test_a_frame_sent_back_to_its_sender_is_caught() -> None:
    async def talk() -> None:
        bank, shop, relay = await met()
        await shop.send("bank", "s", b"mine")
        await bank.receive("shop", "s", 1)
        relay.waiting.append(relay.passed[-1])
        await shop.receive("bank", "s", 1)

    with pytest.raises(RemoteProtocolError, match="sealed for another receiver"):
        run(talk())


def test_a_frame_of_another_step_is_caught() -> None:
    async def talk() -> None:
        bank, shop, relay = await met()
        await bank.send("shop", "noise", b"x")
        relay.waiting.append(await relay.receive("bank", "noise", 1))
        await shop.receive("bank", "columns", 1)

    with pytest.raises(RemoteProtocolError, match="another receiver, step or run"):
        run(talk())


@pytest.mark.parametrize("hello", [True, False])
def test_a_frame_or_a_hello_of_an_earlier_run_of_the_same_job_gives_its_replayer_nothing(hello: bool) -> None:
    earlier: dict[bool, Frame] = {}

    def keep(step: str, frame: Frame) -> list[Frame]:
        earlier[step == HELLO] = frame
        return [frame]

    run(announced([b"old"], keep))

    def replay(step: str, frame: Frame) -> list[Frame]:
        return [earlier[hello] if (step == HELLO) is hello else frame]

    with pytest.raises(RemoteProtocolError, match="altered, or was sealed for another"):
        run(announced([b"new"], replay))


@pytest.mark.parametrize("at", range(0, 700, 37))
def test_no_changed_byte_of_a_hello_passes(at: int) -> None:
    """The envelope of a hello names nothing that is believed, so a change there may pass; keys never differ."""

    def change(step: str, frame: Frame) -> list[Frame]:
        changed = bytearray(frame)
        changed[at % len(changed)] ^= 1
        return [changed]

    try:
        assert run(announced([b"x"], only_hello(change))) == [b"x"]
    except RemoteProtocolError as error:
        assert "did not prove" in str(error) or "sealed" in str(error)


def only_hello(change: Meddle) -> Meddle:
    return lambda step, frame: change(step, frame) if step == HELLO else [frame]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"key": bytes(32)}, "did not sign"),
        ({"key": "text"}, "not the parts"),
        ({"signature": b"nothing"}, "did not sign"),
        ({"certificate": b"nothing"}, "no certificate"),
        ({"certificate": SHOP.to_bytes()}, "made out to 'shop', not to 'bank'"),
        ({"certificate": ROOT.issue("bank").to_bytes()}, "did not sign"),
    ],
)
def test_a_hello_with_anything_else_in_it_is_refused(fields: dict[str, object], found: str) -> None:
    def change(step: str, frame: Frame) -> list[Frame]:
        envelope, message = decode(frame)
        changed = replace(message, fields={**message.fields, **fields})
        return [encode(envelope, changed)]

    with pytest.raises(RemoteProtocolError, match="bank did not prove that it is bank") as caught:
        run(met(meddle=only_hello(change)))
    assert found in str(caught.value)


def test_a_hello_of_small_order_is_refused_even_if_its_owner_signed_it() -> None:
    public = bytes(32)
    signature = BANK.sign(identity._statement("job", "bank", MEMBERS, public, BANK.to_bytes()))
    fields = {"key": public, "certificate": BANK.to_bytes(), "signature": signature}

    async def talk() -> None:
        network = memory_network(MEMBERS)
        hello = encode(Envelope("job", "bank", "shop", HELLO, 0), Message(fields))
        await network["bank"].send("shop", HELLO, hello)
        await seal(network["shop"], "shop", MEMBERS, job="job", identity=SHOP, trust=TRUST)

    with pytest.raises(RemoteProtocolError, match="small order"):
        run(talk())


@pytest.mark.parametrize(
    ("bank", "found"),
    [
        (Root.make().issue("bank"), "not issued by this federation's root"),
        (ROOT.issue("bank", start=NOW - 20 * DAY, days=10), "is valid from"),
        (ROOT.issue("bank", start=NOW + 2 * DAY), "is valid from"),
        (ROOT.issue("bank", ca=True), "one that issues others"),
    ],
    ids=["a foreign root", "expired", "not valid yet", "an issuer"],
)
def test_a_member_without_a_good_certificate_is_refused(bank: Identity, found: str) -> None:
    with pytest.raises(RemoteProtocolError, match=found):
        run(met(bank=bank))


def test_what_a_member_issued_itself_is_not_the_roots_and_an_expired_root_issues_nothing() -> None:
    own = ROOT.issue("bank", ca=True)
    middle = Root(own.certificate, own._key)  # type: ignore[arg-type]
    with pytest.raises(RemoteProtocolError, match="not issued by this federation's root"):
        run(met(bank=middle.issue("bank")))
    root = Root.make(start=NOW - 20 * DAY, days=10)
    with pytest.raises(NotTrusted, match="federation's root is valid"):
        Trust(root.certificate).certificate(root.issue("bank").to_bytes(), "bank")


def test_members_must_name_the_same_job_and_the_same_members() -> None:
    with pytest.raises(RemoteProtocolError, match="did not sign"):
        run(met(jobs=("job", "another")))
    with pytest.raises(RemoteProtocolError, match="did not sign"):
        run(met(members=(MEMBERS, ("shop", "bank"))))


def test_nobody_starts_with_a_kit_of_somebody_else() -> None:
    with pytest.raises(LocalProtocolError, match="certificate of 'shop', but its peers want 'bank'"):
        run(met(bank=SHOP))


def test_a_server_may_be_certified_under_the_name_of_its_host() -> None:
    host = ROOT.issue("shop.example.org")
    bank, shop, _ = run(met(shop=host, certified={"shop": "shop.example.org"}))
    assert (bank.name, shop.name) == ("bank", "shop")


def test_a_pin_keeps_out_a_second_certificate_of_the_same_name() -> None:
    second = ROOT.issue("shop")
    pinned = Trust(ROOT.certificate, {"shop": fingerprint(SHOP.certificate)})
    run(met(trust=pinned))
    with pytest.raises(RemoteProtocolError, match="pinned"):
        run(met(trust=pinned, shop=second))
    run(met(shop=second))


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP384R1()),
        ed25519.Ed25519PrivateKey.generate(),
        rsa.generate_private_key(public_exponent=65537, key_size=2048),
    ],
    ids=["ec", "ed25519", "rsa"],
)
def test_identities_load_from_a_kits_files_and_sign(key: Any, tmp_path: Path) -> None:
    made = ROOT.issue("bank", key=key)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "client.key").write_bytes(pem)
    (tmp_path / "client.crt").write_bytes(made.certificate.public_bytes(Encoding.PEM))
    (tmp_path / "rootCA.pem").write_bytes(ROOT.certificate.public_bytes(Encoding.PEM))
    loaded = Identity.load(tmp_path / "client.crt", tmp_path / "client.key")
    trust = Trust.load(tmp_path / "rootCA.pem")
    trust.check_signature(loaded.certificate, b"this", loaded.sign(b"this"))
    with pytest.raises(NotTrusted, match="did not sign"):
        trust.check_signature(loaded.certificate, b"that", loaded.sign(b"this"))
    with pytest.raises(InputError, match="does not belong"):
        Identity(SHOP.certificate, key)
    (tmp_path / "client.key").write_bytes(b"no key")
    with pytest.raises(InputError, match="not a certificate and an unencrypted key"):
        Identity.load(tmp_path / "client.crt", tmp_path / "client.key")
    assert "private" not in repr(loaded).lower()


def test_short_keys_are_refused_and_a_pin_is_a_fingerprint() -> None:
    short = ROOT.issue("bank", key=rsa.generate_private_key(public_exponent=65537, key_size=1024))
    with pytest.raises(NotTrusted, match="1024 bits"):
        TRUST.check_signature(short.certificate, b"x", short.sign(b"x"))
    with pytest.raises(InputError, match="not a valid fingerprint"):
        identity.plain_fingerprint("bank")
