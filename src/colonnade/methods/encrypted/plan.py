"""What owners agree on before they descend a gradient together under Paillier encryption."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Number

from colonnade.crypto.paillier import KEY_BITS
from colonnade.crypto.paillier_vectors import SECURITY, BoundedMask, Fields
from colonnade.data.coding import Mode
from colonnade.errors import LabelMismatch, OnlyForPublicData, PlanError
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Approximated, Composed, Event, PerStep
from colonnade.privacy.guarantee import View
from colonnade.privacy.observers import OthersPart, PartyView
from colonnade.privacy.paper import PaperFigure, active_sigma, passive_sigma
from colonnade.privacy.sensitivity.messages import Schedule, StepSensitivities, encrypted_messages
from colonnade.protocols.paillier import PaillierKeys
from colonnade.protocols.plans import Options, Schemas, TrainingPlan, TrainingSpec, agreed, options_of
from colonnade.protocols.shared_plan import Layout
from colonnade.randomness import public_permutation
from colonnade.runtime.party import Group

Approximation = Literal["taylor", "minimax", "piecewise"]
Array = NDArray[np.float64]

SLOPES: dict[Approximation, float] = {"taylor": 0.25, "minimax": 0.197, "piecewise": 1.0}
"""The largest slope of each coefficient in z: gradient descent converges for step sizes up to 2/(slope·‖x‖²)."""

HARMLESS_SCORES: dict[Approximation, float] = {"taylor": 2.0, "minimax": 3.2, "piecewise": 0.5}
"""While every |z| is smaller, the sign of a coefficient is the opposite of the label."""


def coefficients(approximation: Approximation, scores: Array, labels: Array) -> Array:
    match approximation:
        case "taylor":
            return 0.25 * scores - 0.5 * labels
        case "minimax":
            return -0.004 * scores**3 + 0.197 * scores - 0.5 * labels
        case "piecewise":
            # Clipping z to ±1/2 gives both outer branches: −y where y·z ≤ −1/2, and 0 where y·z ≥ 1/2.
            return np.clip(scores, -0.5, 0.5) - 0.5 * labels


Defence = Literal["none", "sound", "paper"]
Initialisation = Literal["zero", "xavier", "kaiming", "large"]
DEFAULT_BATCH = 256
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


class EncryptedOptions(Options):
    """How the descent goes. Left out, `batch` is 256 or all rows, and `learning_rate` 2, or 1: see `step_size`."""

    method = "encrypted"

    approximation: Approximation = "taylor"
    initialisation: Initialisation = "zero"
    epochs: Annotated[int, Number(ge=1)] = 5
    batch: Annotated[int, Number(ge=1)] | None = None
    learning_rate: Annotated[float, Number(gt=0)] | None = None
    radius: Annotated[float, Number(gt=0)] = 2.0
    encoding: Literal["linear", "circle"] = "linear"
    key_bits: int = min(KEY_BITS)
    defence: Defence = "sound"

    @property
    def step_size(self) -> float:
        """η. A paper's formula takes steps of at most 1; piecewise ones grow apart from just below 2."""
        short = self.defence == "paper" or self.approximation == "piecewise"
        return self.learning_rate if self.learning_rate is not None else (1.0 if short else 2.0)

    @property
    def keys(self) -> PaillierKeys:
        return PaillierKeys(self.key_bits)

    def check(self, spec: TrainingSpec) -> None:
        if self.defence != "sound" and not spec.public:
            raise OnlyForPublicData(
                f"defence = {self.defence!r} runs on public data in one process and promises nothing. "
                "Use defence = 'sound'."
            )

    def plan(self, spec: TrainingSpec, group: Group, schemas: Schemas, rows: int) -> EncryptedPlan:
        terms = agreed(spec, group, schemas, rows, task="classification")
        plan = EncryptedPlan(**terms)
        _check(plan)
        if self.defence == "sound":
            plan = _calibrated(plan)
        elif self.defence == "paper":
            one = 1 << plan.fraction_bits
            sigmas = {owner: Fraction(figure.value) for owner, figure in plan.paper_sigmas.items()}
            plan = replace(plan, noise=tuple((owner, (sigma * one) ** 2) for owner, sigma in sigmas.items()))
        for owner in group.owners:
            # Refused here, before any data is touched: what could wrap around, and noise that no sampler draws.
            _ = plan.packing(owner)
            if plan.noise:
                _ = plan.noise_of(owner)
        return plan


@dataclass(frozen=True)
class EncryptedPlan(TrainingPlan, Layout):
    """Made by `EncryptedOptions`; `noise` has σ² of each owner's messages in units of the grid."""

    noise: tuple[tuple[str, Fraction], ...] = ()

    charged_as = "encrypted gradient"
    published = False

    @property
    def options(self) -> EncryptedOptions:
        return options_of(self.spec, EncryptedOptions)

    @property
    def mode(self) -> Mode:
        return self.options.encoding

    @property
    def gamma(self) -> int:  # type: ignore[override] # of a layout it is only read
        return self.spec.gamma

    @property
    def active(self) -> str:
        return self.group.active or self.group.owners[0]

    def width(self, owner: str) -> int:
        return self.encoders[owner].width

    def cap(self, owner: str) -> float:
        """No row of this owner is longer, as numbers on the grid 1/γ; rounded up."""
        bound = self.quantizers[owner].norm_squared_bound if self.width(owner) else 0
        return math.sqrt(bound) / self.spec.gamma * (1 + 2.0**-50)

    @cached_property
    def schedule(self) -> Schedule:
        return Schedule(self.rows, self.options.batch or min(DEFAULT_BATCH, self.rows), self.options.epochs)

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """The rows of each batch: a public order, the same every epoch where sensitivities count on it."""
        order = public_permutation(self.rows, seed=0 if self.options.defence == "sound" else epoch)
        size = self.schedule.batch
        return [order[start : start + size] for start in range(0, self.rows, size)]

    @property
    def step_size(self) -> float:
        """η over the nominal size of a batch, the factor of every update."""
        return self.options.step_size / self.schedule.batch

    @property
    def fraction_bits(self) -> int:
        """Messages are multiples of 2^−f: fine without noise, coarse enough for exact accounting with it."""
        return 32 if self.options.defence == "none" else 16

    @property
    def splits(self) -> bool:
        """Whether scores stay sums under encryption, as only what is linear can; else the active party reads them."""
        return self.options.approximation == "taylor"

    @cached_property
    def clips(self) -> dict[str, int]:
        """The largest message of each owner on the grid, where senders clip."""
        one = 1 << self.fraction_bits
        extent = {owner: self.options.radius * self.cap(owner) for owner in self.group.owners}
        extent[self.active] += 2.0
        return {owner: math.ceil(size * one) for owner, size in extent.items()}

    def extent(self, owner: str) -> int:
        if self.options.defence == "sound":
            return self.clips[owner]
        support = self.noise_of(owner).support if self.noise else 0
        return (LARGEST_SCORE << self.fraction_bits) + support

    def noise_of(self, owner: str) -> DiscreteGaussianNoise:
        return DiscreteGaussianNoise(dict(self.noise)[owner])

    @property
    def key_holders(self) -> tuple[str, ...]:
        if not self.splits:
            return (self.active,)
        first = {self.relay(receiver)[0] for receiver in self.group.owners}
        return tuple(owner for owner in self.group.owners if owner in first)

    def relay(self, receiver: str) -> tuple[str, ...]:
        """Who adds its scores for a receiver, in order; the first holds the key. Only sums arrive."""
        if not self.splits and receiver != self.active:
            return (self.active,)
        return tuple(owner for owner in self.group.owners if owner != receiver)

    def largest_sum(self, receiver: str) -> int:
        """No sum that a receiver has decrypted is larger: s·Σ|m|·‖x̃‖."""
        entry = math.isqrt(self.quantizers[receiver].norm_squared_bound)
        return self.schedule.batch * sum(self.extent(owner) for owner in self.relay(receiver)) * max(1, entry)

    @property
    def bounded(self) -> bool:
        """Whether masks leave room above them, which lets the key's owner refuse what was not agreed."""
        return self.options.defence == "sound"

    def packing(self, receiver: str) -> Fields:
        """How many of a receiver's sums travel in one ciphertext: one without a defence, else as many as fit."""
        width = self.largest_sum(receiver).bit_length() + 2
        room = Fields.most(width, self.options.keys.bits - (SECURITY + 4))
        if room < 1:
            raise PlanError(
                f"a sum over {self.schedule.batch} rows takes {width} bits, and a key of {self.options.keys.bits} "
                "bits has no room. Take a longer key, a smaller gamma or a smaller batch."
            )
        return Fields(width, min(room, max(1, self.width(receiver))) if self.bounded else 1)

    def questions(self, receiver: str) -> int:
        """How many ciphertexts a receiver may have decrypted for one batch, and no more."""
        return -(-self.width(receiver) // self.packing(receiver).count)

    def mask(self, receiver: str) -> BoundedMask:
        return BoundedMask(self.packing(receiver).bits)

    def sensitivities(self, owner: str) -> StepSensitivities:
        """How far one record moves each message of an owner, in units of the grid, given everything sent before."""
        one = 1 << self.fraction_bits
        peers = sum(clip for name, clip in self.clips.items() if name != owner) / one
        sensitivities = encrypted_messages(
            self.schedule,
            active=owner == self.active,
            radius=self.options.radius,
            peer_clip=peers,
            step_size=self.options.step_size,
            cap=self.cap(owner),
            grid=(1 + FLOAT_DRIFT) / one,
        )
        return StepSensitivities(tuple(step * one for step in sensitivities.per_step))

    @cached_property
    def views(self) -> tuple[View, ...]:
        if self.options.defence != "sound":
            return ()
        return tuple(
            View(PartyView(owner), OthersPart(owner), self.seen_by(owner), _ASSUMPTION)
            for owner in self.group.owners
        )

    def seen_by(self, observer: str) -> Event:
        others = [owner for owner in self.group.owners if owner != observer]
        steps = tuple(
            PerStep(self.sensitivities_by_owner[other], dict(self.noise)[other]) for other in others
        )
        masks = sum(self.questions(receiver) for receiver in others if self.relay(receiver)[0] == observer)
        draws = len(others) * self.rows * self.options.epochs + masks * self.schedule.steps * _DRAWS_PER_MASK
        return Approximated(steps[0] if len(steps) == 1 else Composed(steps), draws=draws)

    @cached_property
    def sensitivities_by_owner(self) -> dict[str, tuple[float, ...]]:
        return {owner: self.sensitivities(owner).per_step for owner in self.group.owners}

    @cached_property
    def figures(self) -> tuple[PaperFigure, ...]:
        return tuple(self.paper_sigmas.values()) if self.options.defence == "paper" else ()

    @cached_property
    def paper_sigmas(self) -> dict[str, PaperFigure]:
        """Equations (71) and (72) for every owner."""
        shared: dict[str, Any] = {
            "gradient_bound": PAPER_GRADIENT_BOUND,
            "epochs": self.schedule.epochs,
            "steps": self.schedule.steps,
            "step_size": self.options.step_size,
            "batch": self.schedule.batch,
        }
        formulas = dict.fromkeys(self.group.owners, passive_sigma) | {self.active: active_sigma}
        return {owner: sigma(self.spec.epsilon, self.delta, **shared) for owner, sigma in formulas.items()}

    @property
    def what(self) -> str:
        return f"scores of {self.schedule.steps} batches, with noise"

    @property
    def shown_to(self) -> tuple[str, ...]:
        return self.group.owners

    def receiver_for(self, party: str) -> str:
        return ", ".join(owner for owner in self.group.owners if owner != party)

    def own_data(self) -> dict[str, Any]:
        owners = self.group.owners
        return {
            "batch": self.schedule.batch,
            **self.layout_data(),
            "widths": {owner: self.width(owner) for owner in owners},
            "reach": {owner: str(self.extent(owner)) for owner in owners},
            "fields": {owner: [self.packing(owner).width, self.packing(owner).count] for owner in owners},
            "noise": {owner: str(variance) for owner, variance in self.noise},
        }


def _calibrated(plan: EncryptedPlan) -> EncryptedPlan:
    # Every owner's messages get noise in proportion to how far a record moves them, so that each costs the same.
    totals = {owner: plan.sensitivities(owner).total for owner in plan.group.owners}
    shares = {owner: Fraction(max(1, math.ceil(total**2))) for owner, total in totals.items()}

    def scaled(factor: Fraction) -> EncryptedPlan:
        noisy = replace(plan, noise=tuple((owner, factor * share) for owner, share in shares.items()))
        noisy.__dict__["sensitivities_by_owner"] = plan.sensitivities_by_owner
        return noisy

    def least(owner: str) -> Fraction:
        return calibrate(
            lambda factor: scaled(factor).seen_by(owner), epsilon=plan.spec.epsilon, delta=plan.delta
        )

    return scaled(max(map(least, plan.group.owners)))


def _check(plan: EncryptedPlan) -> None:
    options, rows, classes = plan.options, plan.rows, len(plan.label.classes)
    if classes != 2:
        raise LabelMismatch(
            f"the encrypted gradient tells two classes apart; this label has {classes}. Use moments."
        )
    private = [owner for owner in plan.group.owners if owner not in plan.spec.public]
    if options.defence != "sound" and private:
        raise OnlyForPublicData(
            f"defence = {options.defence!r} protects nobody and is for data that every party declared public; "
            f"{', '.join(private)} did not. Use defence = 'sound', or write public = true in each party's file."
        )
    if options.defence != "none" and not plan.splits:
        raise PlanError(
            f"defence = {options.defence!r} is worked out for approximation = 'taylor', not for "
            f"{options.approximation!r}, where no bound on the messages is proved."
        )
    if options.epochs < 1:
        raise PlanError(f"epochs = {options.epochs}, but there must be at least one.")
    if options.batch is not None and not 1 <= options.batch <= rows:
        raise PlanError(f"batch = {options.batch}, but it must be between 1 and the {rows} aligned rows.")
    joint = math.fsum(plan.cap(owner) ** 2 for owner in plan.group.owners)
    most = 1.0 if options.defence == "paper" else 2 / (SLOPES[options.approximation] * joint)
    if not 0 < options.step_size <= most:
        raise PlanError(
            f"learning_rate = {options.step_size:g}, but it must be above 0 and at most {most:.4g}: beyond it "
            "gradient steps spread weights apart instead of drawing them together."
        )
    if not 0 < options.radius <= LARGEST_RADIUS:
        raise PlanError(f"radius = {options.radius:g}, but it must be above 0 and at most {LARGEST_RADIUS}.")
    _check_drift(plan)


def _check_drift(plan: EncryptedPlan) -> None:
    """Refuse schedules over which the rounding of floats could move a message by more than was counted.

    Per update less than (s + d + 64)·(1 + η)·(k + 2 + ΣC)·2^−52, over all steps of two runs
    (docs/proofs/encrypted-gradient.md, "Floats").
    """
    if plan.options.defence != "sound":
        return
    widest = max(plan.width(owner) for owner in plan.group.owners)
    clips = sum(plan.clips.values()) / (1 << plan.fraction_bits)
    size = plan.options.radius + 2 + clips
    drift = (plan.schedule.batch + widest + 64) * (1 + plan.options.step_size) * size * 2.0**-51
    if drift * (plan.schedule.steps + 1) > FLOAT_DRIFT / (1 << plan.fraction_bits):
        raise PlanError(
            f"{plan.schedule.steps} steps of {plan.schedule.batch} rows are more than floating point can follow "
            "closely enough for ε to be exact. Use fewer epochs or larger batches."
        )
