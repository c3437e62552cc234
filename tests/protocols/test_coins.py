"""Coins that matter: who draws at which place, and that other coins there are other bytes on the wire.

Masks come off and proofs hold whatever is drawn, so a constant in place of a draw leaves every result right. Here each
place that draws has a stream of its own. It has to be among those that are known, and where its stream alone is
another one, every frame of the step that carries it has to be another one too.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from draws import ALIGNMENT, Coins, CoinsFederation
from encrypted_runs import request_of, tables_of
from scipy import stats
from training_specs import requested as spec_of

from colonnade.crypto.curve import POINT_BYTES, BlindedSet, Blinding, hash_to_curve
from colonnade.crypto.paillier import Ciphertexts, Encryptor, PrivateKey, rerandomised
from colonnade.crypto.paillier_vectors import BoundedMask, UniformMask
from colonnade.crypto.sealing import AgreementKey, SigningKey
from colonnade.crypto.sharing import Shamir
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import RemoteProtocolError
from colonnade.methods.encrypted.protocol import encrypted_session
from colonnade.methods.functional.plan import FunctionalOptions
from colonnade.methods.functional.protocol import functional_session
from colonnade.methods.local.protocol import LocalOptions, local_session
from colonnade.methods.margin.plan import MarginOptions
from colonnade.methods.margin.protocol import margin_session
from colonnade.methods.messages.plan import PrivateMessagesOptions
from colonnade.methods.messages.protocol import private_messages_session
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import moments_session
from colonnade.methods.one_shot.protocol import OneShotOptions, noisy_columns_session
from colonnade.methods.slr.plan import SlrOptions
from colonnade.methods.slr.protocol import gradient_session
from colonnade.numbers.field import FIELD63
from colonnade.protocols import alignment
from colonnade.protocols import intersection as server_intersection
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.evaluation import EvaluationSpec, evaluation_session
from colonnade.protocols.joint_scores import ScoresSpec, scores_session
from colonnade.randomness import Randomness, SeededRandomness, SystemRandomness
from colonnade.runtime.party import Party
from colonnade.runtime.wire import decode

FALSE_ALARM = 1e-9
RANDOMNESS = SystemRandomness()
TERMS: dict[str, Any] = {"delta": 1e-5, "alignment": "equal"}
# Places that draw, and beside each a step whose every frame carries what is drawn there.
MEETING = {"protocols/agreement.py:meet": "introduction"}
DEALING = {"crypto/sharing.py:Shamir.deal": "columns"}
ROWS_CHECKED = {
    "protocols/verified_rows.py:RowCheck.begin": "columns, seed",
    "protocols/verified_rows.py:RowCheck._second_challenges": "columns, second challenge",
    "protocols/verified_rows.py:Checking.challenges": "columns, challenge",
    "protocols/verified_rows.py:Checking.last_challenges": "columns, third challenge",
}
ENCRYPTING = {
    "crypto/paillier.py:_prime": "key",
    "crypto/paillier.py:Encryptor._randomisers": "batch for a",
    "crypto/paillier.py:_unit": "batch asked",
}
MASKING = {"crypto/sealing.py:AgreementKey.generate": "scores"}


def of_model(session: Callable[..., Any], width: int) -> Callable[..., Any]:
    """A session on what a model makes of every person, here the same of all."""

    async def run(party: Any, table: Any, request: Any) -> Any:
        terms = None if table is None else lambda aligned: np.full((aligned.rows, width), 0.25)
        return await session(party, table, request, terms)

    return run


# Of each protocol what owners run, where somebody draws, and how many owners it has here.
Case = tuple[Callable[..., Any], Any, dict[str, str], int]


def case(session: Callable[..., Any], request: Any, places: dict[str, str], owners: int = 2) -> Case:
    return session, request, MEETING | places, owners


CASES: dict[str, Case] = {
    "moments, rows checked": case(
        moments_session,
        spec_of(MomentsOptions, "classification", 1.0, **TERMS),
        DEALING | ROWS_CHECKED | {"methods/moments/protocol.py:noise_part": "release"},
    ),
    "moments of five": case(
        moments_session,
        spec_of(MomentsOptions, "classification", 1.0, **TERMS),
        DEALING | {"methods/moments/protocol.py:noise_part": "release"},
        owners=5,
    ),
    "moments by class": case(
        moments_session,
        spec_of(MomentsOptions, "classification", 1.0, conditional=True, **TERMS),
        DEALING | {"methods/moments/protocol.py:noise_by_class": "release"},
    ),
    "margin, all checked": case(
        margin_session,
        spec_of(MarginOptions, steps=1, harmonics=3, verify="all", **TERMS),
        DEALING
        | ROWS_CHECKED
        | {
            "protocols/verified_products.py:_check": "slopes, seed",
            "methods/margin/protocol.py:_moments": "model",
            "methods/margin/protocol.py:noise_part": "model",
            "methods/margin/protocol.py:OwnRows.read": "columns, bits",
        },
    ),
    "functional": case(
        functional_session,
        spec_of(FunctionalOptions, "classification", 1.0, **TERMS),
        DEALING | ROWS_CHECKED | {"methods/functional/protocol.py:noise_part": "release"},
    ),
    "slr": case(
        gradient_session,
        spec_of(SlrOptions, epsilon=8.0, epochs=1, rate=0.5, **TERMS),
        {
            "crypto/sharing.py:Shamir.deal": "batch",
            "methods/slr/protocol.py:share_batch_key": "batch key",
            "methods/slr/protocol.py:integer_rows": "gradient",
            "methods/slr/protocol.py:noise_part": "model",
        },
    ),
    "local": case(
        local_session,
        spec_of(LocalOptions, "classification", 1.0, **TERMS),
        {"methods/local/protocol.py:perturbed_moments": "release"},
    ),
    "one-shot": case(
        noisy_columns_session,
        spec_of(OneShotOptions, "classification", 1.0, **TERMS),
        {"methods/one_shot/protocol.py:noisy_columns": "columns"},
    ),
    "encrypted": case(
        encrypted_session,
        request_of("ab", epochs=1),
        ENCRYPTING | {"crypto/paillier_vectors.py:UniformMask.draw": "batch answered"},
    ),
    "encrypted, with noise": case(
        encrypted_session,
        request_of("ab", epochs=1, defence="sound"),
        ENCRYPTING
        | {
            "crypto/paillier_vectors.py:BoundedMask.draw": "batch answered",
            "methods/encrypted/protocol.py:OwnerState.message": "batch answered",
        },
    ),
    "judgement": case(
        of_model(evaluation_session, 1),
        EvaluationSpec("5f0c", ((2.0, 1.0),), epsilon=1.0, **TERMS),
        {"crypto/sharing.py:Shamir.deal": "phases", "protocols/evaluation.py:open_sums": "release"},
    ),
    "joint scores": case(
        of_model(scores_session, 2), ScoresSpec("a", 2, 3.0, "released", **TERMS), MASKING, owners=3
    ),
    "joint scores, with noise": case(
        of_model(scores_session, 2),
        ScoresSpec("a", 2, 3.0, "released", 1.0, **TERMS),
        MASKING | {"protocols/joint_scores.py:_counts": "scores"},
    ),
    "private messages": case(
        private_messages_session,
        spec_of(PrivateMessagesOptions, penalty="none", epochs=2, **TERMS),
        {"methods/messages/protocol.py:NoiseStream.take": "scores"},
    ),
}


def finished(case: str, other: str = "") -> CoinsFederation:
    """A finished run, in which one place has other coins."""
    session, request, _, owners = CASES[case]
    tables = tables_of(dict.fromkeys("abcde"[:owners], 2), 24)
    federation = CoinsFederation(tables, budget=(1e6, 1e-3), other=other, public=True)
    federation.run(session, request)
    return federation


usual = functools.cache(finished)


def of_step(federation: CoinsFederation, step: str) -> list[bytes]:
    """Everything that arrived at one kind of step."""
    return [frame for key in sorted(federation.frames) if key[0] == step for frame in federation.frames[key]]


@pytest.mark.parametrize("case", CASES)
def test_it_is_known_who_draws_and_the_same_coins_are_the_same_bytes(case: str) -> None:
    """A place at which nobody draws any more, or one that is new, is seen here."""
    places = CASES[case][2]
    assert set(usual(case).lines) - {ALIGNMENT} == set(places)
    # The control: what the next test finds, other coins have made.
    again = finished(case)
    for step in CASES[case][2].values():
        assert of_step(again, step) == of_step(usual(case), step) != []


# A place and a step that several protocols have are tried in the last of them.
PAIRS = {pair: case for case in CASES for pair in CASES[case][2].items()}


@pytest.mark.parametrize(("place", "step"), PAIRS)
def test_other_coins_at_one_place_are_other_bytes_in_every_frame_that_carries_them(
    place: str, step: str
) -> None:
    case = PAIRS[place, step]
    before, after = of_step(usual(case), step), of_step(finished(case, place), step)
    assert len(before) == len(after) > 0
    assert all(one != other for one, other in zip(before, after, strict=True))


def test_residuals_have_noise_of_their_own() -> None:
    """Without it they would still be other ones when scores have other noise."""
    drawn = [usual("private messages").draws[owner].drawn for owner in "ab"]
    first, second = (b"".join(found["methods/messages/protocol.py:NoiseStream.take"]) for found in drawn)
    assert len(first) > 0 < len(second) and first != second


@pytest.mark.parametrize(
    ("place", "steps"),
    [
        ("protocols/verified_rows.py:Checking.challenges", ("columns, challenge", "slopes, challenge")),
        (
            "protocols/verified_rows.py:Checking.last_challenges",
            ("columns, third challenge", "slopes, third challenge"),
        ),
        ("protocols/verified_rows.py:RowCheck._second_challenges", ("columns, second challenge",)),
        ("protocols/verified_rows.py:RowCheck.begin", ("columns, seed",)),
        ("protocols/verified_products.py:_check", ("slopes, seed",)),
    ],
)
def test_challenges_and_seeds_are_32_bytes_as_they_were_drawn_and_none_comes_twice(
    place: str, steps: tuple[str, ...]
) -> None:
    """Uniform and independent, as the proof asks: docs/proofs/verified-rows.md."""
    federation = usual("margin, all checked")
    drawn = [draws.drawn[place] for draws in federation.draws.values()]
    pieces = [value[at : at + 32] for values in drawn for value in values for at in range(0, len(value), 32)]
    assert len(set(pieces)) == len(pieces), "one seed or challenge for two uses"
    for step in steps:
        sent = [decode(frame)[1].fields["nonce"] for frame in of_step(federation, step)]
        assert sent
        assert set(sent) <= set(pieces)


# --- below the protocols: what each thing that hides draws, and its law
@functools.cache
def paillier_key() -> PrivateKey:
    return PrivateKey.generate_for_tests(SeededRandomness("key"), 256)


def blinded(draws: Any, padded: int) -> list[bytes]:
    ids = [b"ada", b"grace", b"emmy", b"sofia", b"hypatia", b"maria", b"rosalind", b"lise"]
    return list(BlindedSet.prepare(ids, domain=b"test", randomness=draws, padded=padded).blinded_blocks())


def ciphertexts() -> Ciphertexts:
    return Encryptor.for_owner(paillier_key(), SeededRandomness("c")).encrypt([5])


SECRET = FIELD63.encode(np.arange(4).reshape(2, 2))

DEAL, UNIT = "crypto/sharing.py:Shamir.deal", "crypto/paillier.py:_unit"
SET = ("crypto/curve.py:BlindedSet.prepare", "crypto/curve.py:Blinding.draw")
# What hides something, and the places that draw for it, at one line each.
HIDING: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "a blinded set": (lambda draws: blinded(draws, 8), SET),
    "a padded set": (lambda draws: blinded(draws, 12), (*SET, "crypto/curve.py:BlindedSet.blinded_blocks")),
    "a bounded mask": (
        lambda draws: BoundedMask(value_bits=12).draw(3, draws),
        ("crypto/paillier_vectors.py:BoundedMask.draw",),
    ),
    "a uniform mask": (
        lambda draws: UniformMask(10**30 + 57).draw(3, draws),
        ("crypto/paillier_vectors.py:UniformMask.draw",),
    ),
    "a fresh ciphertext": (lambda draws: rerandomised(ciphertexts(), draws).values, (UNIT,)),
    "an encryption": (
        lambda draws: Encryptor.for_key(paillier_key().public, draws).encrypt([5, 5]).values,
        (UNIT, "crypto/paillier.py:Encryptor._randomisers"),
    ),
    "a key of Paillier's": (
        lambda draws: PrivateKey.generate_for_tests(draws, 256).public.modulus,
        ("crypto/paillier.py:_prime",),
    ),
    "a key to agree": (
        lambda draws: AgreementKey.generate(draws).public,
        ("crypto/sealing.py:AgreementKey.generate",),
    ),
    "a key to sign": (
        lambda draws: SigningKey.generate(draws).public,
        ("crypto/sealing.py:SigningKey.generate",),
    ),
    "shares of degree 1": (lambda draws: shares(Shamir(3, FIELD63), 1, draws), (DEAL,)),
    "shares of degree 2": (lambda draws: shares(Shamir(3, FIELD63), 2, draws), (DEAL,)),
    "shares among five": (lambda draws: shares(Shamir(5, FIELD63), 4, draws), (DEAL,)),
}


def shares(scheme: Any, degree: int, draws: Any) -> list[bytes]:
    return [scheme.expand(piece).to_bytes() for piece in scheme.deal(SECRET, degree, draws)]


@pytest.mark.parametrize("name", HIDING)
def test_what_hides_something_draws_and_shows_other_coins(name: str) -> None:
    hide, places = HIDING[name]
    draws = Coins()
    first = hide(draws)
    assert {where: len(lines) for where, lines in draws.lines.items()} == dict.fromkeys(places, 1)
    assert hide(Coins()) == first
    for where in places:
        other = hide(Coins(other=where))
        whole = isinstance(first, int | bytes)
        assert other != first if whole else all(a != b for a, b in zip(other, first, strict=True)), where


def test_the_order_of_a_blinded_set_is_uniform_and_not_that_of_the_table() -> None:
    """Where the first id of the file stands in what is sent, and that the last is no follower of it."""
    ids = [b"%d" % number for number in range(6)]
    orders = [
        BlindedSet.prepare(ids, domain=b"test", randomness=RANDOMNESS).order.tolist() for _ in range(3000)
    ]
    for person in (0, 5):
        places = [order.index(person) for order in orders]
        assert stats.chisquare(np.bincount(places, minlength=6)).pvalue > FALSE_ALARM
    assert stats.chisquare(np.bincount([0] * 3000, minlength=6)).pvalue < FALSE_ALARM


@pytest.mark.parametrize("bits", [4, 75])
def test_a_bounded_mask_is_uniform_below_its_span(bits: int) -> None:
    """Uniform in [0, 2^(ℓ+λ)): its highest bits and its lowest, and one mask does not follow from another."""
    mask = BoundedMask(value_bits=bits)
    span = mask.value_bits + mask.security
    drawn = mask.draw(8000, RANDOMNESS)
    assert all(0 <= value < 1 << span for value in drawn)
    pairs = zip(drawn[:-1:2], drawn[1::2], strict=True)
    for seen in (
        [value >> (span - 4) for value in drawn],
        [value % 16 for value in drawn],
        [((one % 4) << 2) | other % 4 for one, other in pairs],
    ):
        assert stats.chisquare(np.bincount(seen, minlength=16)).pvalue > FALSE_ALARM
    shorter = [value >> 1 >> (span - 4) for value in drawn]
    assert stats.chisquare(np.bincount(shorter, minlength=16)).pvalue < FALSE_ALARM


# Coins that matter where people are matched: who draws, and that other coins there are other bytes on the wire.


IDS = {"a": [f"p{n}" for n in range(20)], "b": [f"p{n}" for n in range(25, 5, -1)]}
SPOILT = "protocols/alignment.py:_align_through_server"
MATCHING_MEETING = {"protocols/agreement.py:meet": (1, {("hello", "a"), ("hello", "b"), ("hello", "server")})}
# Of each way the places that draw, at how many lines, and which frames carry what is drawn there: step and sender.
Places = dict[str, tuple[int, set[tuple[str, str]]]]
PLACES: dict[Alignment, Places] = {
    "server": {
        **MATCHING_MEETING,
        "crypto/curve.py:Blinding.draw": (1, {("people", "a"), ("people", "b")}),
        "protocols/intersection.py:_common_key": (
            1,
            {(step, owner) for step in ("pseudonym key", "pseudonyms") for owner in IDS},
        ),
        "protocols/intersection.py:ask_through_server": (1, {("pseudonyms", "a"), ("pseudonyms", "b")}),
        SPOILT: (1, set()),
    },
    "curve": {
        **MATCHING_MEETING,
        "protocols/intersection.py:_ask_everybody": (2, {("blinded ids", "a"), ("common places", "a")}),
        "protocols/intersection.py:_answer": (1, {("blinded ids", "b")}),
    },
}


def matching(how: Alignment, other: str = "") -> CoinsFederation:
    """Tables that are to be matched, each of which shows more ids than it has."""
    schema = "id = 'n'\n[columns.{0}]\nkind = 'numeric'\nlow = 0\nhigh = 9\n"
    tables = [
        Table.from_arrays(party, {party: [1.0] * len(ids)}, Schema.parse(schema.format(party)), ids=ids)
        for party, ids in IDS.items()
    ]
    shown = dict.fromkeys(IDS, 24)
    return CoinsFederation(
        tables, budget=(1.0, 1e-5), alignment=how, shown_ids=shown, other=other, aligned=False
    )


@functools.cache
def matched(how: Alignment, other: str = "") -> CoinsFederation:
    federation = matching(how, other)
    federation.align()
    return federation


def first_frames(federation: CoinsFederation, step: str, sender: str) -> list[bytes]:
    """The first frame of a step to each receiver: what comes after compares what was found."""
    found = federation.frames
    return [found[key][0] for key in sorted(found) if key[:2] == (step, sender)]


@pytest.mark.parametrize("how", PLACES)
def test_it_is_known_who_draws_where_people_are_matched(how: Alignment) -> None:
    assert matched(how).lines == {place: lines for place, (lines, _) in PLACES[how].items()}


@pytest.mark.parametrize(
    ("how", "place"),
    [(how, place) for how in PLACES for place, (_, carried) in PLACES[how].items() if carried],
)
def test_other_coins_at_one_place_of_matching_are_other_bytes_in_every_frame_that_carries_them(
    how: Alignment, place: str
) -> None:
    other = matched(how, place)
    for step, sender in PLACES[how][place][1]:
        before, after = (first_frames(one, step, sender) for one in (matched(how), other))
        assert len(before) == len(after) > 0
        assert all(one != another for one, another in zip(before, after, strict=True)), (step, sender)


def test_the_key_of_pseudonyms_has_a_fresh_contribution_of_every_owner() -> None:
    """From constant ones and the name of the run, which the server knows, it would make everybody's pseudonyms."""
    place = "protocols/intersection.py:_common_key"
    drawn = [matched("server", other).draws[owner].drawn[place] for owner in IDS for other in ("", place)]
    assert [[len(one) for one in some] for some in drawn] == [[32]] * 4
    assert len({one for (one,) in drawn}) == 4
    for owner in IDS:
        (said,) = first_frames(matched("server"), "pseudonym key", owner)
        assert matched("server").draws[owner].drawn[place][0] in said


def test_whoever_was_named_what_cannot_be_brings_bytes_that_nobody_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A constant could be brought by a peer as well, which then learned whose places were bad."""
    honest, brought = alignment._holds, dict[str, bytes]()

    async def noting(party: Party, peer: str, digest: bytes) -> bool:
        brought[party.name] = digest
        return await honest(party, peer, digest)

    def everything(lists: list[Any]) -> list[Any]:
        return [np.ones(len(one), dtype=bool) for one in lists]

    monkeypatch.setattr(alignment, "_holds", noting)
    monkeypatch.setattr(server_intersection, "common", everything)
    federation = matching("server")
    with pytest.raises(RemoteProtocolError, match="do not hold the same people"):
        federation.align()
    assert len(set(brought.values())) == 2
    assert {name: [digest] for name, digest in brought.items()} == {
        owner: federation.draws[owner].drawn[SPOILT] for owner in IDS
    }


# No key, mask, order or dummy is the same twice, and no bit of one stands still: a uniform bit is the same in all of 64
# draws once in 2⁶³ times.


DRAWS = 64
PEER = AgreementKey.generate(SeededRandomness("peer"))
POINT = hash_to_curve([b"ada"], domain=b"coins")


def prime(draws: Randomness) -> bytes:
    """A prime of 64 bits without the two first and the two last, which are always set."""
    return (PrivateKey.generate_for_tests(draws, 128).p >> 2 & (1 << 60) - 1).to_bytes(8, "little")


UNIFORM: dict[str, tuple[int, Callable[[Randomness], bytes]]] = {
    "a signing key": (256, lambda draws: SigningKey.generate(draws).secret),
    "an agreed secret": (256, lambda draws: AgreementKey.generate(draws).agree(PEER.public, context=b"run")),
    "a blinded_points point": (255, lambda draws: Blinding.draw(draws).multiply(POINT)),
    "a prime": (60, prime),
    "a uniform mask": (64, lambda draws: UniformMask(1 << 64).draw(1, draws)[0].to_bytes(8, "little")),
    "a bounded mask": (60, lambda draws: BoundedMask(20, 40).draw(1, draws)[0].to_bytes(8, "little")),
}


@pytest.mark.parametrize(("bits", "drawn"), UNIFORM.values(), ids=UNIFORM)
def test_no_bit_of_a_secret_stands_still(bits: int, drawn: Callable[[Randomness], bytes]) -> None:
    seen = [int.from_bytes(drawn(SeededRandomness(f"coins {number}")), "little") for number in range(DRAWS)]
    whole = (1 << bits) - 1
    ever, always = 0, whole
    for value in seen:
        ever, always = ever | value, always & value
    assert ever == whole and always == 0
    assert len(set(seen)) == DRAWS


def test_neither_a_source_nor_a_call_gives_the_same_secret_twice() -> None:
    for bits, drawn in UNIFORM.values():
        draws = SeededRandomness("one source")
        assert len({drawn(draws) for _ in range(DRAWS)}) == DRAWS, bits
    for mask in (UniformMask(1 << 64), BoundedMask(20, 40)):
        assert len(set(mask.draw(DRAWS, SeededRandomness("many")))) == DRAWS


def blinded_points(draws: Randomness, *, padded: int) -> tuple[BlindedSet, list[bytes]]:
    mine = BlindedSet.prepare([b"ada", b"grace"], domain=b"coins", randomness=draws, padded=padded)
    whole = b"".join(mine.blinded_blocks())
    return mine, [whole[start : start + POINT_BYTES] for start in range(0, len(whole), POINT_BYTES)]


def test_dummies_and_runs_have_nothing_in_common() -> None:
    first, points = blinded_points(SeededRandomness("first"), padded=DRAWS)
    assert len(set(points)) == DRAWS
    second = BlindedSet(first.ids, first.domain, first.order, first.blinding, SeededRandomness("second"))
    again = b"".join(second.blinded_blocks())
    same = {again[start : start + POINT_BYTES] for start in range(0, len(again), POINT_BYTES)} & set(points)
    assert len(same) == 2, "the two people, under one scalar, and none of the dummies"
    (_, one), (_, two) = (blinded_points(SeededRandomness(name), padded=4) for name in ("one", "two"))
    assert not set(one) & set(two), "nor have two runs anything in common"
