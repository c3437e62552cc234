"""The noisy moment matrix of two owners without any server: packed Paillier inner products, a slower path.

Box of the protocol; the asker is the active owner (docs/proofs/paillier-moments.md):

1. both charge their ledgers for the whole release and exchange the ledgers' heads;
2. the asker sends a fresh public key with a proof, then its integer columns encrypted, several to a ciphertext;
3. the answerer raises them to its own integers and multiplies over rows: sums of products, under encryption;
4. it adds its part of the noise inside, makes the ciphertexts fresh, and returns them with its own noisy block;
5. the asker decrypts within the agreed size, adds its part, and publishes the matrix.

Entries among one owner's columns carry that owner's noise, entries between the two carry both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.ciphertext_matrix import added, masked, times_matrix
from colonnade.crypto.paillier import Ciphertexts, Encryptor, decrypt
from colonnade.crypto.paillier_keys import PrivateKey
from colonnade.data.table import Table
from colonnade.errors import PlanError
from colonnade.methods.moments.protocol import arranged, dealt_widths, integer_blocks, noise_part
from colonnade.methods.moments.session import MomentsRequest, OpenedMoments, checked_release
from colonnade.protocols.charging import charge_first
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.paillier_messages import ciphertext_message, hear_key, heard_ciphertexts, make_key
from colonnade.protocols.paillier_plan import Keys, PaillierKeys, PaillierPlan, PairRequest
from colonnade.protocols.session import RowSource, array_digest, confirm, prepare
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

Matrix = NDArray[np.int64]


async def paillier_moments_session(
    party: Party, table: Table | None, request: MomentsRequest, keys: Keys | None = None
) -> OpenedMoments:
    """Prepare, release once, end together.

    For a `Group.pair`; both owners come away with the matrix.
    """
    if not party.group.is_pair:
        raise PlanError("two owners without a server meet as Group.pair; other groups use moments_session.")
    aligned, plan = await prepare(party, table, PairRequest(request, keys or PaillierKeys()))
    matrix = await paillier_moments(party, aligned, plan)
    await confirm(party, array_digest(matrix))
    return OpenedMoments(matrix, plan, party.run, party.tainted, aligned)


async def paillier_moments(party: Party, table: RowSource | None, plan: PaillierPlan) -> Matrix:
    """The noisy matrix Σ z̃z̃ᵀ, at both owners."""
    await charge_first(party, plan.release(party.name, run=party.run, reproducible=party.tainted))
    if party.name == plan.asker:
        return await _ask(party, table, plan)
    return await _answer(party, table, plan)


async def _ask(party: Party, table: RowSource | None, plan: PaillierPlan) -> Matrix:
    peer, widths = plan.answerer, dealt_widths(plan)
    private = await make_key(party, plan.keys, (peer,))
    encryptor = await asyncio.to_thread(Encryptor.for_owner, private, party.randomness)
    own = np.zeros((widths[party.name],) * 2, dtype=np.int64)
    for number, (rows, mine) in enumerate(integer_blocks(party, table, plan)):
        if mine is None:
            continue
        own += mine.T @ mine
        encrypted = await asyncio.to_thread(encryptor.encrypt, _packed_rows(mine, plan))
        await tell(party, peer, f"columns {number}", ciphertext_message(encrypted))
        party.progress("columns", min(number * plan.block + rows, plan.rows), plan.rows)
    answer = await hear(party, peer, "moments")
    theirs = _own_block(answer, plan)
    cross = await _decrypted(answer, private, plan)
    noise = noise_part(party, plan)
    mine_at, theirs_at = _places(plan)
    matrix = np.zeros((plan.size, plan.size), dtype=np.int64)
    matrix[np.ix_(mine_at, mine_at)] = own + noise[np.ix_(mine_at, mine_at)]
    matrix[np.ix_(mine_at, theirs_at)] = cross + noise[np.ix_(mine_at, theirs_at)]
    matrix[np.ix_(theirs_at, mine_at)] = matrix[np.ix_(mine_at, theirs_at)].T
    matrix[np.ix_(theirs_at, theirs_at)] = theirs
    released = arranged(matrix, plan)
    await tell(party, peer, "release", Message(arrays={"matrix": released}))
    return released


async def _answer(party: Party, table: RowSource | None, plan: PaillierPlan) -> Matrix:
    peer, widths = plan.asker, dealt_widths(plan)
    key = await hear_key(party, peer, plan.keys)
    groups = _groups(plan)
    own = np.zeros((widths[party.name],) * 2, dtype=np.int64)
    sums: Ciphertexts | None = None
    for number, (rows, mine) in enumerate(integer_blocks(party, table, plan)):
        if mine is None:
            continue
        own += mine.T @ mine
        said = await hear(party, peer, f"columns {number}")
        encrypted = await heard_ciphertexts(said, key, rows * groups)
        block = await asyncio.to_thread(_products, encrypted, mine, groups, plan.entry_bits)
        sums = block if sums is None else added(sums, block)
        party.progress("columns", min(number * plan.block + rows, plan.rows), plan.rows)
    if sums is None:
        raise PlanError("there are no aligned rows to learn from.")
    noise = noise_part(party, plan)
    theirs_at, mine_at = _places(plan)
    masks = _packed_rows(noise[np.ix_(mine_at, theirs_at)], plan)
    fresh = await asyncio.to_thread(masked, sums, masks, party.randomness)
    noisy = own + noise[np.ix_(mine_at, mine_at)]
    message = ciphertext_message(fresh)
    await tell(party, peer, "moments", Message(arrays={**message.arrays, "own": noisy}))
    said = await hear(party, peer, "release")
    matrix = checked_release(said, plan)
    own_places = _published_places(party.name, plan)
    if not np.array_equal(matrix[np.ix_(own_places, own_places)], noisy):
        raise said.wrong(f"the published matrix has another block of {party.name}'s columns than it sent")
    return matrix


def _groups(plan: PaillierPlan) -> int:
    """How many ciphertexts one row of the asker takes."""
    return -(-dealt_widths(plan)[plan.asker] // plan.packing.count)


def _packed_rows(matrix: Matrix, plan: PaillierPlan) -> list[int]:
    """Each row of integers as one plaintext per group of fields, the last filled with zeros."""
    count = plan.packing.count
    padded = np.zeros((len(matrix), _groups(plan) * count), dtype=np.int64)
    padded[:, : matrix.shape[1]] = matrix
    return [plan.packing.pack(fields) for fields in padded.reshape(-1, count).tolist()]


def _unpacked_rows(plaintexts: Sequence[int], plan: PaillierPlan) -> Matrix:
    """The reverse; ValueError if a field is larger than any sum can be, or one that was left empty is not."""
    values = np.array([plan.packing.unpack(plaintext) for plaintext in plaintexts], dtype=object)
    rows = values.reshape(-1, _groups(plan) * plan.packing.count)
    width = dealt_widths(plan)[plan.asker]
    if np.any(rows[:, width:] != 0):
        raise ValueError("a field that was left empty holds something")
    if np.any(np.abs(rows) > plan.largest):
        raise ValueError("a field is larger than any sum over these rows")
    return rows[:, :width].astype(np.int64)


def _products(encrypted: Ciphertexts, mine: Matrix, groups: int, bits: int) -> Ciphertexts:
    """Encryptions of Σ_i x_i·y_il, for each own column l and each group: by column, then by group."""
    columns = [
        times_matrix(Ciphertexts(encrypted.key, encrypted.values[group::groups]), mine, bits=bits).values
        for group in range(groups)
    ]
    return Ciphertexts(encrypted.key, tuple(value for pair in zip(*columns, strict=True) for value in pair))


def _own_block(said: Message, plan: PaillierPlan) -> Matrix:
    width = dealt_widths(plan)[plan.answerer]
    block = said.array("own", dtype="i8", shape=(width, width))
    reach = plan.noise.part(plan.group.honest_owners).support
    most = plan.rows * plan.shape_of(plan.answerer).bound + reach
    if not np.array_equal(block, block.T) or max(int(block.max()), -int(block.min())) > most:
        raise said.wrong("its own moments are not symmetric, or larger than its rows can make them")
    return block


async def _decrypted(said: Message, private: PrivateKey, plan: PaillierPlan) -> Matrix:
    """The noisy moments between the asker's columns and the answerer's, as (asker's, answerer's)."""
    count = dealt_widths(plan)[plan.answerer] * _groups(plan)
    received = await heard_ciphertexts(said, private.public, count)
    fields = plan.packing
    most = plan.largest * (((1 << fields.bits) - 1) // ((1 << fields.width) - 1))
    try:
        plaintexts = await asyncio.to_thread(decrypt, private, received, at_most=most)
        return np.ascontiguousarray(_unpacked_rows(plaintexts, plan).T)
    except ValueError as error:
        raise said.wrong(error) from None


def _places(plan: PaillierPlan) -> tuple[list[int], list[int]]:
    """Where the asker's and the answerer's columns stand in the order in which columns are dealt."""
    starts, at = {}, 0
    for owner, width in dealt_widths(plan).items():
        starts[owner] = list(range(at, at + width))
        at += width
    return starts[plan.asker], starts[plan.answerer]


def _published_places(owner: str, plan: PaillierPlan) -> list[int]:
    """Where an owner's features stand in the published matrix, in which the label block is last."""
    start = 0
    for name, width in plan.widths.items():
        if name == owner:
            return list(range(start, start + width))
        start += width
    raise KeyError(owner)
