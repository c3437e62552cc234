"""Logistic regression by gradient descent under Paillier encryption, and its twin in one place."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto import paillier_vectors as vectors
from colonnade.crypto.paillier import (
    Ciphertexts,
    Encryptor,
    InvalidCiphertext,
    PrivateKey,
    PublicKey,
    decrypt,
    decrypt_any_size,
)
from colonnade.data.table import Table
from colonnade.errors import LocalProtocolError
from colonnade.methods.encrypted.plan import LARGEST_SCORE, Array, EncryptedPlan, coefficients
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.protocols.agreement import agree_on_public, charge_first
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.paillier import ciphertext_message, hear_key, make_key, received_ciphertexts
from colonnade.protocols.plans import TrainingSpec
from colonnade.protocols.session import RowSource, SessionResult, confirm, own_rows, prepare
from colonnade.randomness import Randomness
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Integers = NDArray[np.int64]
Notify = dict[str, tuple[Array, Array]]


class Question(Protocol):
    """What a receiver asks of encrypted numbers, and how it reads the answer. An attack asks something else."""

    def ask(self, numbers: Ciphertexts, integers: Integers) -> Ciphertexts:
        """As many ciphertexts as were agreed, from one number a record and the receiver's own integers."""

    def read(self, answers: Sequence[int], records: int) -> tuple[int, ...]:
        """The sums, one for each of the receiver's columns."""


class AgreedQuestion:
    """Σ m·x̃ for each column, packed as planned: what an honest receiver asks."""

    def __init__(self, plan: EncryptedPlan, receiver: str) -> None:
        self._fields = plan.packing(receiver)
        self._bits = math.isqrt(plan.quantizers[receiver].norm_squared_bound).bit_length() + 1
        self._width, self._most = plan.width(receiver), plan.largest_sum(receiver)

    def ask(self, numbers: Ciphertexts, integers: Integers) -> Ciphertexts:
        return vectors.packed(vectors.times_matrix(numbers, integers, bits=self._bits), self._fields)

    def read(self, answers: Sequence[int], records: int) -> tuple[int, ...]:
        """ValueError if a sum is larger than any can be."""
        sums = [value for answer in answers for value in self._fields.unpack(answer)]
        if any(sums[self._width :]) or any(abs(value) > self._most for value in sums):
            raise ValueError("an answer is not a sum over these rows")
        return tuple(sums[: self._width])


class Exchange:
    """One owner's keys and its part in every sum of one run."""

    def __init__(self, party: Party, plan: EncryptedPlan, question: Question | None = None) -> None:
        self._party, self._plan = party, plan
        self._question = question or AgreedQuestion(plan, party.name)
        self._private: PrivateKey | None = None
        self._keys: dict[str, PublicKey] = {}
        self._encryptors: dict[str, Encryptor] = {}

    async def begin(self) -> None:
        party, plan = self._party, self._plan
        others = [owner for owner in plan.group.owners if owner != party.name]
        relays = [plan.relay(receiver) for receiver in plan.group.owners]
        for holder in plan.key_holders:
            if holder == party.name:
                self._private = await make_key(party, plan.options.keys, others)
                self._keys[holder] = self._private.public
                own = await asyncio.to_thread(Encryptor.for_owner, self._private, party.randomness)
                self._encryptors[holder] = own
                continue
            self._keys[holder] = key = await hear_key(party, holder, plan.options.keys)
            if not plan.splits or any(relay[0] == holder and party.name in relay for relay in relays):
                adding = await asyncio.to_thread(Encryptor.for_key, key, party.randomness)
                self._encryptors[holder] = adding
        if len(others) > 1:
            # One owner adds to what another encrypted, so all must hold the same keys.
            keys = [self._keys[holder] for holder in plan.key_holders]
            contents = [key.modulus.to_bytes(-(-key.bits // 8), "little") for key in keys]
            arrays = [np.frombuffer(content, dtype=np.uint8) for content in contents]
            await agree_on_public(party, "keys", plan.group.owners, *arrays)

    async def contribute(self, receiver: str, mine: Integers, step: str) -> None:
        chain, holder = self._plan.relay(receiver), self._holder(receiver)
        place = chain.index(self._party.name)
        numbers = await asyncio.to_thread(self._encryptors[holder].encrypt, mine.tolist())
        if place:
            said = await hear(self._party, chain[place - 1], f"{step} for {receiver}")
            numbers = vectors.added(await received_ciphertexts(said, self._keys[holder], len(mine)), numbers)
        following = chain[place + 1] if place + 1 < len(chain) else receiver
        await tell(self._party, following, f"{step} for {receiver}", ciphertext_message(numbers))

    async def read_sums(self, count: int, step: str) -> tuple[int, ...]:
        """What everybody added up under this owner's own key, each number within what was agreed."""
        if self._private is None:
            raise ValueError(f"{self._party.name} holds no key and reads nothing")
        said, numbers = await self.collect(count, step)
        most = sum(self._plan.extent(owner) for owner in self._plan.relay(self._party.name))
        try:
            return await asyncio.to_thread(decrypt, self._private, numbers, at_most=most)
        except InvalidCiphertext as error:
            raise said.wrong(error) from None

    async def collect(self, count: int, step: str) -> tuple[Message, Ciphertexts]:
        """What everybody added up for this owner, encrypted, with the message that brought it."""
        name = self._party.name
        said = await hear(self._party, self._plan.relay(name)[-1], f"{step} for {name}")
        return said, await received_ciphertexts(said, self._keys[self._holder(name)], count)

    async def ask(self, numbers: Ciphertexts, integers: Integers, step: str) -> list[int]:
        """Multiply, mask, make fresh, send to the key's owner; returns the masks."""
        party, plan = self._party, self._plan
        requested = await asyncio.to_thread(self._question.ask, numbers, integers)
        if plan.bounded:
            masks = plan.mask(party.name).draw(len(requested), party.randomness)
        else:
            masks = vectors.UniformMask(numbers.key.modulus).draw(len(requested), party.randomness)
        leaving = await asyncio.to_thread(vectors.masked, requested, masks, party.randomness)
        await tell(party, self._holder(party.name), f"{step} asked", ciphertext_message(leaving))
        return list(masks)

    async def answer(self, receiver: str, step: str) -> None:
        """Decrypt what a receiver asks: so many ciphertexts as were agreed, and with bounded masks no larger."""
        party, plan, private = self._party, self._plan, self._private
        if private is None:
            raise ValueError(f"{party.name} holds no key and answers nobody")
        said = await hear(party, receiver, f"{step} asked")
        requested = await received_ciphertexts(said, private.public, plan.questions(receiver))
        try:
            if plan.bounded:
                values = await asyncio.to_thread(plan.mask(receiver).answer, private, requested)
            else:
                # As the protocol is printed: whatever the receiver packed into a plaintext is read out to it.
                signed = await asyncio.to_thread(decrypt_any_size, private, requested)
                values = tuple(value % private.public.modulus for value in signed)
        except InvalidCiphertext as error:
            raise said.wrong(error) from None
        width = self._answer_bytes(receiver, private.public)
        numbers = np.frombuffer(b"".join(value.to_bytes(width, "little") for value in values), dtype=np.uint8)
        answer = Message(arrays={"answers": numbers.reshape(len(values), width)})
        await tell(party, receiver, f"{step} answered", answer)

    async def read(self, masks: Sequence[int], records: int, step: str) -> tuple[int, ...]:
        party, plan = self._party, self._plan
        holder = self._holder(party.name)
        said = await hear(party, holder, f"{step} answered")
        width = self._answer_bytes(party.name, self._keys[holder])
        rows = said.array("answers", dtype="u1", shape=(len(masks), width))
        answers = [int.from_bytes(row.tobytes(), "little") for row in rows]
        try:
            if plan.bounded:
                values = plan.mask(party.name).unmask(answers, masks)
            else:
                values = vectors.UniformMask(self._keys[holder].modulus).unmask(answers, masks)
            return self._question.read(values, records)
        except ValueError as error:
            raise said.wrong(error) from None

    def _holder(self, receiver: str) -> str:
        return self._plan.relay(receiver)[0] if self._plan.splits else self._plan.active

    def _answer_bytes(self, receiver: str, key: PublicKey) -> int:
        bits = self._plan.mask(receiver).value_bits if self._plan.bounded else key.bits
        return -(-bits // 8)


@dataclass(frozen=True, eq=False)
class OwnerTranscript:
    """What an owner can write down, batch by batch; `weights` are its own before the batch.

    `sums` are Σ f·x as they came to it: f times 4 with the Taylor approximation, whose coefficients are (θᵀx − 2y)/4.
    `scores` are the others' summed scores, where it reads them.
    """

    batches: tuple[Integers, ...]
    weights: tuple[Array, ...]
    sums: tuple[Array, ...]
    scores: tuple[Array, ...]


def _transcript(pages: Sequence[tuple[Integers, Array, Array, Array]]) -> OwnerTranscript:
    return OwnerTranscript(*map(tuple, zip(*pages, strict=True)))


# Random starting weights are multiples of this.
_WEIGHT_BITS = 20


class OwnerState:
    """One owner's rows as integers, its labels if it has them, and its weights, which only it knows."""

    def __init__(
        self, owner: str, table: RowSource | None, plan: EncryptedPlan, randomness: Randomness
    ) -> None:
        self.owner, self.plan, self._randomness = owner, plan, randomness
        blocks = list(own_rows(owner, table, plan.rows).blocks(plan.rows))
        quantizer = plan.quantizers[owner]
        self.integers = np.concatenate([quantizer.quantize(block) for block in blocks])
        self.features: Array = self.integers / plan.spec.gamma
        labels = [block.label for block in blocks if block.label is not None]
        self.labels: Array | None = None
        if owner == plan.active:
            self.labels = 2.0 * np.concatenate(labels) - 1.0
        self.weights = self._projected(initial_weights(plan, owner, randomness))

    def scores(self, rows: Integers) -> Array:
        scores: Array = self.features[rows] @ self.weights
        return scores

    def message(self, rows: Integers) -> Integers:
        """Scores, less 2y at the owner of the label, with noise and clipped: who receives only sums cannot clip."""
        sent = self.on_grid(self._terms(rows))
        if self.plan.noise:
            sent = sent + self.plan.noise_of(self.owner).draw(len(sent), self._randomness)
        if self.plan.options.defence == "sound":
            sent = np.clip(sent, -self.plan.clips[self.owner], self.plan.clips[self.owner])
        return sent

    def _terms(self, rows: Integers) -> Array:
        return self.scores(rows) if self.labels is None else self.scores(rows) - 2.0 * self.labels[rows]

    def on_grid(self, values: Array) -> Integers:
        """The nearest multiples of the grid; refused if weights have run away."""
        if not (np.isfinite(values).all() and np.all(np.abs(values) <= LARGEST_SCORE)):
            raise LocalProtocolError(
                f"{self.owner}: a score is not a finite number of at most {LARGEST_SCORE}; the weights run away. "
                "Choose a smaller learning_rate or another initialisation."
            )
        return vectors.to_fixed(values, self.plan.fraction_bits)

    def coefficients(self, rows: Integers, others: Array) -> Array:
        """f of every record at the owner of the label, who has read the sum of the others' scores."""
        if self.labels is None:
            raise LocalProtocolError(f"{self.owner} has no labels and computes no coefficients")
        return coefficients(self.plan.options.approximation, self.scores(rows) + others, self.labels[rows])

    def descend_split(self, rows: Integers, received: Sequence[int]) -> Array:
        """Own scores enter without noise and rounding: the contraction that sensitivities rest on is theirs."""
        total: Array = self.features[rows].T @ self._terms(rows) + self.real(received)
        self.descend(0.25 * total)
        return total

    def descend(self, total: Array) -> Array:
        self.weights = self._projected(self.weights - self.plan.step_size * total)
        return total

    def real(self, received: Sequence[int]) -> Array:
        return vectors.from_fixed(received, self.plan.fraction_bits) / self.plan.spec.gamma

    def _projected(self, weights: Array) -> Array:
        if not np.isfinite(weights).all():
            raise LocalProtocolError(
                f"{self.owner}: a weight is not a finite number. Choose a smaller learning_rate."
            )
        if self.plan.options.defence != "sound":
            return weights
        norm = float(np.linalg.norm(weights))
        return weights if norm <= self.plan.options.radius else weights * (self.plan.options.radius / norm)


def initial_weights(plan: EncryptedPlan, owner: str, randomness: Randomness) -> Array:
    """Xavier: uniform on ±√(6/(d + 1)). Kaiming: normal with variance 2/d. Large: normal with variance 1."""
    width = plan.width(owner)
    joint = sum(plan.width(name) for name in plan.group.owners)
    match plan.options.initialisation:
        case "zero":
            return np.zeros(width)
        case "xavier":
            unit = (randomness.words(width) >> np.uint64(11)).astype(np.float64) * 2.0**-53
            return math.sqrt(6 / (joint + 1)) * (2.0 * unit - 1.0)
        case "kaiming":
            return math.sqrt(2 / joint) * _normal(width, randomness)
        case "large":
            return _normal(width, randomness)


def _normal(count: int, randomness: Randomness) -> Array:
    draws = DiscreteGaussianNoise(Fraction(1 << (2 * _WEIGHT_BITS))).draw(count, randomness)
    return draws.astype(np.float64) * 2.0**-_WEIGHT_BITS


@dataclass(frozen=True, eq=False)
class Descended(SessionResult[EncryptedPlan]):
    weights: Array
    diary: OwnerTranscript | None = None


async def encrypted_session(
    party: Party, table: Table | None, spec: TrainingSpec, question: Question | None = None
) -> Descended:
    """`question` is for attacks: what a receiver asks instead of what was agreed."""
    aligned, plan = await prepare(party, table, spec, EncryptedPlan)
    weights, diary = await encrypted_gradient(party, aligned, plan, question)
    await confirm(party, "")
    return Descended(plan, party.run, party.seeded, aligned, weights, diary)


async def encrypted_gradient(
    party: Party, table: RowSource | None, plan: EncryptedPlan, question: Question | None = None
) -> tuple[Array, OwnerTranscript | None]:
    """This owner's weights after all epochs, and, where the run is recorded, what it could write down."""
    await charge_first(party, plan.release(party.name, run=party.run, reproducible=party.seeded))
    if not party.owns_columns:
        return np.zeros(0), None
    holding = OwnerState(party.name, table, plan, party.randomness)
    exchange = Exchange(party, plan, question)
    await exchange.begin()
    descend = _split_batch if plan.splits else _coefficient_batch
    pages: list[tuple[Integers, Array, Array, Array]] = []
    batches = [rows for epoch in range(plan.schedule.epochs) for rows in plan.batches(epoch)]
    for number, rows in enumerate(batches):
        before = holding.weights
        total, others = await descend(party, plan, holding, exchange, rows, f"batch {number}")
        party.progress("batches", number + 1, plan.schedule.steps)
        if party.seen is not None:
            pages.append((rows, before, total, others))
    return holding.weights, _transcript(pages) if party.seen is not None else None


async def _split_batch(
    party: Party, plan: EncryptedPlan, holding: OwnerState, exchange: Exchange, rows: Integers, step: str
) -> tuple[Array, Array]:
    """One batch: Σ f·x as this owner sees it, and the others' scores where it reads them."""
    receivers = [owner for owner in plan.group.owners if plan.width(owner)]
    # One message for all: with fresh noise for each receiver, receivers could average.
    mine = holding.message(rows)
    # Whoever is first sends without waiting; those in between follow in one order everywhere, so that nobody waits
    # for somebody who waits for it.
    others = [receiver for receiver in receivers if receiver != party.name]
    for receiver in sorted(others, key=lambda name: plan.relay(name)[0] != party.name):
        await exchange.contribute(receiver, mine, step)
    masks = []
    if party.name in receivers:
        _, numbers = await exchange.collect(len(rows), step)
        masks = await exchange.ask(numbers, holding.integers[rows], step)
    for receiver in others:
        if plan.relay(receiver)[0] == party.name:
            await exchange.answer(receiver, step)
    received: tuple[int, ...] = ()
    if party.name in receivers:
        received = await exchange.read(masks, len(rows), step)
    return holding.descend_split(rows, received), np.zeros(0)


async def _coefficient_batch(
    party: Party, plan: EncryptedPlan, holding: OwnerState, exchange: Exchange, rows: Integers, step: str
) -> tuple[Array, Array]:
    passives = [owner for owner in plan.group.owners if owner != plan.active]
    if party.name != plan.active:
        await exchange.contribute(plan.active, holding.on_grid(holding.scores(rows)), step)
        _, numbers = await exchange.collect(len(rows), step)
        masks = await exchange.ask(numbers, holding.integers[rows], step)
        return holding.descend(holding.real(await exchange.read(masks, len(rows), step))), np.zeros(0)
    summed = await exchange.read_sums(len(rows), step)
    others = vectors.from_fixed(summed, plan.fraction_bits)
    coefficients = holding.coefficients(rows, others)
    for passive in passives:
        await exchange.contribute(passive, holding.on_grid(coefficients), step)
    for passive in passives:
        await exchange.answer(passive, step)
    return holding.descend(holding.features[rows].T @ coefficients), others


@dataclass(frozen=True, eq=False)
class IdealDescent:
    """What every owner could write down, and every message in the clear: what breaking the encryption shows."""

    weights: dict[str, Array]
    diaries: dict[str, OwnerTranscript]
    messages: dict[str, tuple[Integers, ...]]


def ideal_descent(
    plan: EncryptedPlan, tables: Mapping[str, RowSource], randomness: Mapping[str, Randomness]
) -> IdealDescent:
    holdings = {
        owner: OwnerState(owner, tables[owner], plan, randomness[owner]) for owner in plan.group.owners
    }
    pages: dict[str, list[tuple[Integers, Array, Array, Array]]] = {owner: [] for owner in holdings}
    messages: dict[str, list[Integers]] = {owner: [] for owner in holdings}
    for epoch in range(plan.schedule.epochs):
        for rows in plan.batches(epoch):
            before = {owner: holding.weights for owner, holding in holdings.items()}
            revealed, sent = _split(holdings, rows) if plan.splits else _coefficients(plan, holdings, rows)
            for owner, message in sent.items():
                messages[owner].append(message)
            for owner, (total, scores) in revealed.items():
                pages[owner].append((rows, before[owner], total, scores))
    return IdealDescent(
        {owner: holding.weights for owner, holding in holdings.items()},
        {owner: _transcript(kept) for owner, kept in pages.items()},
        {owner: tuple(sent) for owner, sent in messages.items()},
    )


def _split(holdings: Mapping[str, OwnerState], rows: Integers) -> tuple[Notify, dict[str, Integers]]:
    messages = {owner: holding.message(rows) for owner, holding in holdings.items()}
    revealed = {}
    for owner, holding in holdings.items():
        others = sum(
            (messages[name] for name in messages if name != owner), np.zeros(len(rows), dtype=np.int64)
        )
        revealed[owner] = holding.descend_split(rows, _products(holding, rows, others)), np.zeros(0)
    return revealed, messages


def _coefficients(
    plan: EncryptedPlan, holdings: Mapping[str, OwnerState], rows: Integers
) -> tuple[Notify, dict[str, Integers]]:
    passives = {owner: holding for owner, holding in holdings.items() if owner != plan.active}
    messages = {owner: holding.on_grid(holding.scores(rows)) for owner, holding in passives.items()}
    summed = sum(messages.values(), np.zeros(len(rows), dtype=np.int64))
    active = holdings[plan.active]
    others = vectors.from_fixed(summed.tolist(), plan.fraction_bits)
    coefficients = active.coefficients(rows, others)
    messages[plan.active] = sent = active.on_grid(coefficients)
    revealed = {
        owner: (holding.descend(holding.real(_products(holding, rows, sent))), np.zeros(0))
        for owner, holding in passives.items()
    }
    revealed[plan.active] = active.descend(active.features[rows].T @ coefficients), others
    return revealed, messages


def _products(holding: OwnerState, rows: Integers, numbers: Integers) -> list[int]:
    """Σ m·x̃ for each column, exactly: in two halves of a message, each of which leaves room in 64 bits."""
    high, low = numbers >> 24, numbers & ((1 << 24) - 1)
    columns = holding.integers[rows].T
    return [(int(top) << 24) + int(rest) for top, rest in zip(columns @ high, columns @ low, strict=True)]
