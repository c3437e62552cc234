"""Poisson batches that the owners know and nobody else does.

Every owner sends every other owner a contribution; the digest of all of them is the key. From it each owner derives,
step by step, the same batch: who is in it and in which place (docs/proofs/batches.md).
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import RemoteProtocolError
from colonnade.methods.slr.plan import RATE_BITS, GradientPlan
from colonnade.protocols.agreement import agree_on_public
from colonnade.protocols.messages import exchange
from colonnade.randomness import KeyedRandomness
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

_BYTES = 32


async def share_batch_key(party: Party) -> bytes:
    """A key to which every owner contributed; only owners take part."""
    mine = Message({"contribution": party.randomness.bytes(_BYTES)})
    said = {party.name: mine, **await exchange(party, "batch key", mine, party.group.owners)}
    whole = hashlib.sha256(f"colonnade batches: {party.run}".encode())
    for owner in party.group.owners:
        contribution = said[owner].fields.get("contribution")
        if type(contribution) is not bytes or len(contribution) != _BYTES:
            raise RemoteProtocolError(
                f"{party.name} at step 'batch key', from {owner}: a contribution has {_BYTES} bytes"
            )
        whole.update(contribution)
    key = whole.digest()
    if len(party.group.owners) > 2:
        # An owner that told two others different contributions would mix different people's columns in one row.
        await agree_on_public(party, "batch key", party.group.owners, np.frombuffer(key, dtype=np.uint8))
    return key


class Batches:
    """The batches of a run, one after another; every owner who holds the key makes the same.

    Guarantee: a batch has `capacity` places, no record is in more than `uses` batches, and but for a probability of
    `limits_cost` over the run each record is in each batch with probability `rate`, independently.
    """

    def __init__(self, plan: GradientPlan, key: bytes) -> None:
        self._plan, self._key = plan, key
        self._used = np.zeros(plan.rows, dtype=np.int32)
        self._step = 0

    def next(self) -> NDArray[np.int64]:
        """The record in each place of the next batch; −1 where there is none."""
        plan = self._plan
        randomness = KeyedRandomness(hashlib.sha256(self._key + self._step.to_bytes(8, "little")).digest())
        self._step += 1
        words = randomness.words(-(-plan.rows // 2)).view(np.uint32)[: plan.rows]
        drawn = words < int(plan.schedule.rate * (1 << RATE_BITS)) if plan.schedule.rate < 1 else words >= 0
        drawn &= self._used < plan.uses
        self._used += drawn
        members = np.flatnonzero(drawn)
        places = np.full(max(plan.capacity, len(members)), -1, dtype=np.int64)
        places[: len(members)] = members
        # A random order; of more members than places, random ones are kept.
        order = np.argsort(randomness.words(len(places)), kind="stable")
        return places[order][: plan.capacity]
