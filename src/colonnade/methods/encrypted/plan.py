"""What owners agree on before they descend a gradient together under Paillier encryption. It touches no data.

Three defences. "sound": every owner adds integer noise to its scores and clips them before encryption, keeps its
weights in a ball, and ε holds for every other owner. "paper": noise of the size that the paper's formulas give, which
is no guarantee. "none": the protocol as it is printed and deployed, which shows labels and features to whoever looks;
like "paper" it is for data that every owner declared public. Proof: docs/proofs/encrypted-gradient.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.packing import Fields
from colonnade.crypto.paillier_masks import SECURITY, BoundedMask
from colonnade.data.number_codes import Mode
from colonnade.errors import PlanError
from colonnade.methods.encrypted.sigmoid import Approximation
from colonnade.methods.moments.plan import DEFAULT_GAMMA
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.privacy.events import Approximated, Composed, Event, PerStep
from colonnade.privacy.guarantee import View
from colonnade.privacy.neighbours import OthersPart
from colonnade.privacy.observers import PartyView
from colonnade.privacy.paper.figure import PaperFigure
from colonnade.privacy.paper.vertical_logistic import active_sigma, passive_sigma
from colonnade.privacy.sensitivity.messages import (
    Schedule,
    StepSensitivities,
    encrypted_active_messages,
    encrypted_passive_messages,
)
from colonnade.protocols.layout import Layout
from colonnade.protocols.paillier import Keys, PaillierKeys
from colonnade.protocols.plans import Plan, Terms
from colonnade.randomness import public_permutation

Defence = Literal["none", "sound", "paper"]
Initialisation = Literal["zero", "xavier", "kaiming", "large"]
DEFAULT_BATCH = 256
STANDARD_KEYS = PaillierKeys()
# Scores that leave this range show that the weights run away; without a defence nothing else bounds a message.
LARGEST_SCORE = 1 << 10
# With the sound defence scores never leave that range: whether a run stops must not depend on data.
LARGEST_RADIUS = LARGEST_SCORE // 2
# The paper's experiments take G = 1 in its formulas.
PAPER_GRADIENT_BOUND = 1.0
# Rounding of floats may move a message by this part of the grid; the sensitivity counts it.
FLOAT_DRIFT = 2.0**-6
# A bounded mask is within 2^-80 of hiding; a draw of noise counts as 2^-100.
_DRAWS_PER_MASK = 1 << (100 - SECURITY)
_ASSUMPTION = (
    "everybody follows the protocol in what it sends (whatever it decrypts, solves for or keeps is counted)"
)


@dataclass(frozen=True)
class EncryptedTerms(Terms):
    """What the owners want. `declared_public`: whose data is declared public; without a sound defence, everybody's."""

    epsilon: float
    approximation: Approximation = "taylor"
    initialisation: Initialisation = "zero"
    epochs: int = 5
    batch: int | None = None
    learning_rate: float = 2.0
    defence: Defence = "sound"
    radius: float = 2.0
    encoding: Mode = "linear"
    gamma: int = DEFAULT_GAMMA
    keys: Keys = STANDARD_KEYS
    declared_public: tuple[str, ...] = ()

    method = "encrypted gradient"


@dataclass(frozen=True)
class EncryptedPlan(Plan, Layout):
    """Every batch of every epoch, how messages become integers, and what noise they carry. Made by `EncryptedRequest`.

    `noise` has σ² of each owner's messages in units of the grid; it is empty without a defence.
    """

    request: EncryptedTerms
    noise: tuple[tuple[str, Fraction], ...] = ()

    protocol = "encrypted gradient"
    charged_as = "encrypted gradient"
    published = False

    @property
    def mode(self) -> Mode:
        return self.request.encoding

    @property
    def gamma(self) -> int:  # type: ignore[override] # of a layout it is only read
        return self.request.gamma

    @property
    def active(self) -> str:
        return self.group.active or self.group.owners[0]

    def width(self, owner: str) -> int:
        return self.encoders[owner].width

    def cap(self, owner: str) -> float:
        """No row of this owner is longer, as numbers on the grid 1/γ; rounded up."""
        bound = self.quantizers[owner].norm_squared_bound if self.width(owner) else 0
        return math.sqrt(bound) / self.request.gamma * (1 + 2.0**-50)

    @cached_property
    def schedule(self) -> Schedule:
        return Schedule(self.rows, self.request.batch or min(DEFAULT_BATCH, self.rows), self.request.epochs)

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """The rows of each batch: a public order, the same every epoch where sensitivities count on it."""
        order = public_permutation(self.rows, seed=0 if self.request.defence == "sound" else epoch)
        size = self.schedule.batch
        return [order[start : start + size] for start in range(0, self.rows, size)]

    @property
    def step_size(self) -> float:
        """η over the nominal size of a batch, the factor of every update."""
        return self.request.learning_rate / self.schedule.batch

    @property
    def fraction_bits(self) -> int:
        """Messages are multiples of 2^−f: fine without noise, coarse enough for exact accounting with it."""
        return 32 if self.request.defence == "none" else 16

    @property
    def splits(self) -> bool:
        """Whether scores stay sums under encryption: only what is linear in them can.

        The other approximations need a power or a comparison of a sum that nobody has; there the owner of the label
        reads the sum of the others' scores.
        """
        return self.request.approximation == "taylor"

    @cached_property
    def clips(self) -> dict[str, int]:
        """The largest message of each owner on the grid, where senders clip."""
        one = 1 << self.fraction_bits
        reach = {owner: self.request.radius * self.cap(owner) for owner in self.group.owners}
        reach[self.active] += 2.0
        return {owner: math.ceil(size * one) for owner, size in reach.items()}

    def reach(self, owner: str) -> int:
        """No message of this owner is larger on the grid."""
        if self.request.defence == "sound":
            return self.clips[owner]
        support = self.noise_of(owner).support if self.noise else 0
        return (LARGEST_SCORE << self.fraction_bits) + support

    def noise_of(self, owner: str) -> DiscreteGaussianNoise:
        """The noise on every message of an owner."""
        return DiscreteGaussianNoise(dict(self.noise)[owner])

    @property
    def key_holders(self) -> tuple[str, ...]:
        """Who makes a key and decrypts, in the owners' order."""
        if not self.splits:
            return (self.active,)
        first = {self.relay(receiver)[0] for receiver in self.group.owners}
        return tuple(owner for owner in self.group.owners if owner in first)

    def relay(self, receiver: str) -> tuple[str, ...]:
        """Who adds its scores for a receiver, in order; the first holds the key.

        Only sums arrive, so that a receiver cannot tell the others' scores apart.
        """
        if not self.splits and receiver != self.active:
            return (self.active,)
        return tuple(owner for owner in self.group.owners if owner != receiver)

    def largest_sum(self, receiver: str) -> int:
        """No sum that a receiver has decrypted is larger: s·Σ|m|·‖x̃‖."""
        entry = math.isqrt(self.quantizers[receiver].norm_squared_bound)
        return self.schedule.batch * sum(self.reach(owner) for owner in self.relay(receiver)) * max(1, entry)

    @property
    def bounded(self) -> bool:
        """Whether masks leave room above them, which lets the key's owner refuse what was not agreed.

        Without a defence they are uniform modulo N as the protocol is printed; they hide as well, and hide too much.
        """
        return self.request.defence == "sound"

    def packing(self, receiver: str) -> Fields:
        """How many of a receiver's sums travel in one ciphertext: one without a defence, else as many as fit."""
        width = self.largest_sum(receiver).bit_length() + 2
        room = Fields.most(width, self.request.keys.bits - (SECURITY + 4))
        if room < 1:
            raise PlanError(
                f"a sum over {self.schedule.batch} rows takes {width} bits, and a key of {self.request.keys.bits} "
                "bits has no room. Take a longer key, a smaller gamma or a smaller batch."
            )
        return Fields(width, min(room, max(1, self.width(receiver))) if self.bounded else 1)

    def questions(self, receiver: str) -> int:
        """How many ciphertexts a receiver may have decrypted for one batch, and no more."""
        return -(-self.width(receiver) // self.packing(receiver).count)

    def mask(self, receiver: str) -> BoundedMask:
        """What covers a receiver's sums, where masks are bounded."""
        return BoundedMask(self.packing(receiver).bits)

    def entry_bits(self, receiver: str) -> int:
        return math.isqrt(self.quantizers[receiver].norm_squared_bound).bit_length() + 1

    def sensitivities(self, owner: str) -> StepSensitivities:
        """How far one record moves each message of an owner, in units of the grid, given everything sent before."""
        one = 1 << self.fraction_bits
        peers = sum(clip for name, clip in self.clips.items() if name != owner) / one
        measure = encrypted_active_messages if owner == self.active else encrypted_passive_messages
        sensitivities = measure(
            self.schedule,
            radius=self.request.radius,
            peer_clip=peers,
            step_size=self.request.learning_rate,
            cap=self.cap(owner),
            grid=(1 + FLOAT_DRIFT) / one,
        )
        return StepSensitivities(tuple(step * one for step in sensitivities.per_step))

    @cached_property
    def views(self) -> tuple[View, ...]:
        if self.request.defence != "sound":
            return ()
        return tuple(
            View(PartyView(owner), OthersPart(owner), self.seen_by(owner), _ASSUMPTION)
            for owner in self.group.owners
        )

    def seen_by(self, observer: str) -> Event:
        """What one owner has of all others together."""
        others = [owner for owner in self.group.owners if owner != observer]
        steps = tuple(
            PerStep(self.sensitivities_by_owner[other], dict(self.noise)[other]) for other in others
        )
        masks = sum(self.questions(receiver) for receiver in others if self.relay(receiver)[0] == observer)
        draws = len(others) * self.rows * self.request.epochs + masks * self.schedule.steps * _DRAWS_PER_MASK
        return Approximated(steps[0] if len(steps) == 1 else Composed(steps), draws=draws)

    @cached_property
    def sensitivities_by_owner(self) -> dict[str, tuple[float, ...]]:
        """The sensitivities of all owners; noise does not change them."""
        return {owner: self.sensitivities(owner).per_step for owner in self.group.owners}

    @cached_property
    def figures(self) -> tuple[PaperFigure, ...]:
        """σ of the paper's formulas, in paper mode; they promise nothing."""
        return tuple(self.paper_sigmas.values()) if self.request.defence == "paper" else ()

    @cached_property
    def paper_sigmas(self) -> dict[str, PaperFigure]:
        """Equations (71) and (72) for every owner."""
        schedule, request = self.schedule, self.request
        return {
            owner: (active_sigma if owner == self.active else passive_sigma)(
                request.epsilon,
                self.delta,
                gradient_bound=PAPER_GRADIENT_BOUND,
                epochs=schedule.epochs,
                steps=schedule.steps,
                step_size=request.learning_rate,
                batch=schedule.batch,
            )
            for owner in self.group.owners
        }

    @property
    def what(self) -> str:
        return f"scores of {self.schedule.steps} batches, with noise"

    @property
    def shown_to(self) -> tuple[str, ...]:
        """Every owner."""
        return self.group.owners

    def receiver_for(self, party: str) -> str:
        """Every other owner."""
        return ", ".join(owner for owner in self.group.owners if owner != party)

    def own_data(self) -> dict[str, Any]:
        """The request, the schedule, and how messages are packed."""
        owners = self.group.owners
        return {
            "task": "classification",
            # Only the sound defence keeps a promise.
            "epsilon": self.request.epsilon if self.request.defence == "sound" else None,
            "request": self.request.to_data(),
            "batch": self.schedule.batch,
            **self.layout_data(),
            "widths": {owner: self.width(owner) for owner in owners},
            "reach": {owner: str(self.reach(owner)) for owner in owners},
            "fields": {owner: [self.packing(owner).width, self.packing(owner).count] for owner in owners},
            "noise": {owner: str(variance) for owner, variance in self.noise},
        }
