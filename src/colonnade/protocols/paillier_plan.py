"""What two owners without a server agree on before they make a noisy moment matrix under encryption.

Noise, grid and bounds are those of `MomentsPlan` for two owners, each of whom draws one whole part. What differs is
who sees what (docs/proofs/paillier-moments.md), hence the views, and how wide a packed field must be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

from colonnade.crypto.packing import Fields
from colonnade.crypto.paillier_keys import KEY_BITS, PrivateKey, PublicKey, PublicKeyForTests
from colonnade.data.schema import PublicSchema
from colonnade.errors import PlanError
from colonnade.methods.moments.plan import MomentsPlan
from colonnade.methods.moments.session import MomentsRequest
from colonnade.privacy.guarantee import View
from colonnade.privacy.neighbours import ZERO_OUT, OthersPart
from colonnade.privacy.observers import PartyView, Reader
from colonnade.privacy.sensitivity.matrix import matrix_change_part_replaced, matrix_change_zero_out
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.plans import Request
from colonnade.randomness import Randomness
from colonnade.runtime.group import Group

# Rows encrypted at a time: a frame of some hundred kilobytes, and a second or so of the receiver's work.
_BLOCK_ROWS = 512


class Keys(Protocol):
    """Which Paillier keys a plan admits."""

    def __hash__(self) -> int: ...

    @property
    def bits(self) -> int:
        """The length of the modulus."""
        ...

    def generate(self, randomness: Randomness) -> PrivateKey:
        """A fresh key."""
        ...

    def received(self, modulus: int) -> PublicKey:
        """A peer's key; ValueError unless it is one of these."""
        ...

    def to_data(self) -> dict[str, Any]:
        """Plain values for the plan."""
        ...


@dataclass(frozen=True)
class PaillierKeys:
    """Keys of 2048 or 3072 bits.

    >>> PaillierKeys().to_data()
    {'scheme': 'paillier', 'bits': 2048}
    """

    bits: int = min(KEY_BITS)

    def __post_init__(self) -> None:
        if self.bits not in KEY_BITS:
            raise PlanError(f"Paillier keys have {' or '.join(map(str, KEY_BITS))} bits, not {self.bits}.")

    def generate(self, randomness: Randomness) -> PrivateKey:
        """A fresh key."""
        return PrivateKey.generate(randomness, self.bits)

    def received(self, modulus: int) -> PublicKey:
        """A peer's key; ValueError unless it has the length agreed."""
        return _of_length(PublicKey(modulus), self.bits)

    def to_data(self) -> dict[str, Any]:
        """Plain values for the plan."""
        return {"scheme": "paillier", "bits": self.bits}


@dataclass(frozen=True)
class PaillierKeysForTests:
    """Keys of any even length. They protect nothing.

    >>> PaillierKeysForTests(256).to_data()["scheme"]
    'paillier for tests, protects nothing'
    """

    bits: int

    def generate(self, randomness: Randomness) -> PrivateKey:
        """A fresh key."""
        return PrivateKey.generate_for_tests(randomness, self.bits)

    def received(self, modulus: int) -> PublicKey:
        """A peer's key; ValueError unless it has the length agreed."""
        return _of_length(PublicKeyForTests(modulus), self.bits)

    def to_data(self) -> dict[str, Any]:
        """Plain values for the plan."""
        return {"scheme": "paillier for tests, protects nothing", "bits": self.bits}


def _of_length(key: PublicKey, bits: int) -> PublicKey:
    if key.bits != bits:
        raise ValueError(f"a key of {bits} bits was agreed, this one has {key.bits}")
    return key


@dataclass(frozen=True)
class PaillierPlan(MomentsPlan):
    """One noisy moment matrix between two owners and nobody else. Made by `plan_paillier_moments`."""

    keys: Keys = PaillierKeys()

    protocol = "paillier moments"

    @property
    def share_holders(self) -> tuple[str, ...]:
        """Nobody: there are no shares."""
        return ()

    @property
    def asker(self) -> str:
        """Who holds the key, sends its columns encrypted, decrypts and publishes: the active owner."""
        return self.group.server

    @property
    def answerer(self) -> str:
        """Who multiplies the encrypted columns by its own."""
        return next(owner for owner in self.group.owners if owner != self.asker)

    @property
    def block(self) -> int:
        """Rows encrypted at a time."""
        return _BLOCK_ROWS

    @cached_property
    def largest(self) -> int:
        """No noisy entry between the two owners' columns is larger: n·‖x̃‖·‖ỹ‖ and one part of the noise."""
        product = self.shape_of(self.asker).bound * self.shape_of(self.answerer).bound
        reach: int = self.noise.part(self.group.honest_owners).support
        return self.rows * (math.isqrt(product) + 1) + reach

    @property
    def entry_bits(self) -> int:
        """The answerer's integers in two's complement."""
        return math.isqrt(self.shape_of(self.answerer).bound).bit_length() + 1

    @cached_property
    def packing(self) -> Fields:
        """The asker's columns, as many to a ciphertext as fit: every sum stays below half a field's limit."""
        width = self.largest.bit_length() + 2
        room = Fields.most(width, self.keys.bits)
        if room < 1:
            raise PlanError(
                f"a sum over {self.rows} rows takes {width} bits, and a key of {self.keys.bits} bits has no room. "
                "Take a longer key or a smaller gamma."
            )
        return Fields(width, room)

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What the release is to each observer; there is no server, and the assumptions are this path's own."""
        zero_out = self._event(matrix_change_zero_out(self.shape_of_all_but(None)))
        views = [View(Reader(), ZERO_OUT, zero_out, "neither owner discloses its noise")]
        for owner in self.group.owners:
            change = matrix_change_part_replaced(self.shape_of_all_but(owner), self.shape_of(owner))
            unbroken = "" if owner == self.asker else f" and cannot break Paillier at {self.keys.bits} bits"
            follows = f"it follows the protocol{unbroken} (its own columns and its own noise it knows)"
            views.append(View(PartyView(owner), OthersPart(owner), self._event(change), follows))
        return tuple(views)

    def own_data(self) -> dict[str, Any]:
        """As of a moment matrix with keepers, and how fields are packed."""
        return {
            **super().own_data(),
            "keys": self.keys.to_data(),
            "asker": self.asker,
            "fields": [self.packing.width, self.packing.count],
            "largest": self.largest,
            "entry_bits": self.entry_bits,
        }


def plan_paillier_moments(
    request: MomentsRequest, group: Group, schemas: tuple[PublicSchema, ...], rows: int, keys: Keys
) -> PaillierPlan:
    """The plan with the least noise that keeps ε for readers: the μ of two owners with three keepers.

    There as here, one whole part is what an observer who knows one owner's noise has against it.
    """
    if not group.is_pair:
        raise PlanError(
            f"{', '.join(group.members)} are not two owners alone. Use Group.pair, or secret sharing with keepers."
        )
    kept = request.plan(Group.of(group.owners, active=group.active), schemas, rows)
    values = {item.name: getattr(kept, item.name) for item in fields(MomentsPlan)}
    plan = PaillierPlan(**{**values, "group": group}, keys=keys)
    _ = plan.field, plan.packing  # refuses here, before any data is touched, what could wrap around
    return plan


@dataclass(frozen=True)
class PairRequest(Request[PaillierPlan]):
    """What two owners alone want, before anybody has said how many rows there are.

    >>> PairRequest(MomentsRequest(task="pca", epsilon=1.0), PaillierKeys()).to_data()["method"]
    'paillier moments'
    """

    moments: MomentsRequest
    keys: Keys

    method = "paillier moments"

    @property
    def alignment(self) -> Alignment:
        """How the two find the people they have in common."""
        return self.moments.alignment

    def to_data(self) -> dict[str, Any]:
        """The request as plain values, for the two to compare."""
        return {**self.moments.to_data(), "method": self.method, "keys": self.keys.to_data()}

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> PaillierPlan:
        """With the noise that two owners with keepers would have."""
        return plan_paillier_moments(self.moments, group, schemas, rows, self.keys)
