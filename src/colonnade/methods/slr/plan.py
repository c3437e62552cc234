"""Everything the parties agree on before a logistic regression is trained on noisy gradients."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Number

from colonnade.crypto.row_proofs import RowClaim
from colonnade.data.encoder import LEAST_GAMMA, Rounding
from colonnade.errors import FieldTooSmall, PlanError, PrivacyError
from colonnade.noise.discrete_gaussian import DiscreteGaussianNoise
from colonnade.noise.skellam import SkellamNoise
from colonnade.numbers.field import FIELD63, Field, smallest_field
from colonnade.numbers.rounding import toward_zero
from colonnade.privacy.calibrate import as_draws, batch_capacity, binomial_tail, most_uses
from colonnade.privacy.events import COARSE_BITS, FINE_BITS, Approximated, Event, PoissonSampled, Repeated
from colonnade.privacy.guarantee import ROUNDING_VARIANCES
from colonnade.privacy.sensitivity.gradient import GradientShape, fused_replace, fused_zero_out
from colonnade.privacy.sensitivity.matrix import VectorChange
from colonnade.protocols import plans
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.dealt_noise import DealtNoise, Law, bits_for, least_noise, near_enough
from colonnade.protocols.shared_plan import Layout, SharedPlan
from colonnade.protocols.sharing import block_rows
from colonnade.protocols.verified_rows import chosen_verify
from colonnade.runtime.party import Group

Array = NDArray[np.float64]
OptimiserName = Literal["sgd", "momentum", "adam"]
_MOMENTUM, _SECOND, _TINY = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class Optimiser:
    """Features have norm at most 1 and the loss bends by less than ¼ of that, so learning rates are large.

    With `average` = ½ the model is the mean of the second half of the weights visited, 0 takes the last as they are.
    """

    name: OptimiserName = "momentum"
    learning_rate: float = 16.0
    average: float = 0.5

    def __post_init__(self) -> None:
        if self.name not in ("sgd", "momentum", "adam"):
            raise PlanError(f"optimiser {self.name!r} is not one of sgd, momentum, adam.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise PlanError(f"learning_rate = {self.learning_rate!r} is not a positive number. Try 16.")
        if not 0 <= self.average <= 1:
            raise PlanError(f"average = {self.average!r} is not a share between 0 and 1. Try 0.5.")


class SlrDescent:
    """Weights inside a ball, moved by gradients as they come."""

    def __init__(self, size: int, optimiser: Optimiser, *, cap: float, steps: int) -> None:
        self.weights = np.zeros(size)
        self._optimiser, self._cap = optimiser, cap
        self._first, self._second = np.zeros(size), np.zeros(size)
        self._used = 0
        self._from = steps - max(1, math.ceil(optimiser.average * steps))
        self._sum = np.zeros(size)

    def step(self, gradient: Array) -> None:
        """One move against the gradient, then back into the ball."""
        self._used += 1
        self.weights = self.weights - self._optimiser.learning_rate * self._direction(gradient)
        norm = float(np.linalg.norm(self.weights))
        if norm > self._cap:
            self.weights *= self._cap / norm
        if self._used > self._from:
            self._sum += self.weights

    def _direction(self, gradient: Array) -> Array:
        if self._optimiser.name == "sgd":
            return gradient
        if self._optimiser.name == "momentum":
            self._first = _MOMENTUM * self._first + gradient
            # So that a learning rate means as much as without momentum.
            return (1 - _MOMENTUM) * self._first
        self._first = _MOMENTUM * self._first + (1 - _MOMENTUM) * gradient
        self._second = _SECOND * self._second + (1 - _SECOND) * gradient**2
        mean = self._first / (1 - _MOMENTUM**self._used)
        square = self._second / (1 - _SECOND**self._used)
        return np.asarray(mean / (np.sqrt(square) + _TINY))

    @property
    def model(self) -> Array:
        return self._sum / max(1, self._used - self._from)

    def on_grid(self, gamma: int, norm_squared: int) -> NDArray[np.int64]:
        """The weights as integers, rounded toward zero: ‖w̃‖² ≤ norm_squared, decided on integers."""
        integers = toward_zero(gamma * self.weights)
        while sum(int(entry) ** 2 for entry in integers) > norm_squared:
            integers -= np.sign(integers)
        return integers


DEFAULT_GAMMA = 1 << 10
"""Coarser than for moments: noise on a cubic scale must stay inside the sampler's range."""
RATE_BITS = 32
MOST_STEPS = 10**6
_Positive = Annotated[float, Number(gt=0)]
_FINE = 1 << 20
_SECRET = "no owner tells it who is in a batch"
_DRAWN = "every owner draws the batches as agreed and tells it of none"


@dataclass(frozen=True)
class SlrSchedule:
    """`rate` is a multiple of 2⁻³²; `overflow` is taken out of δ; None: as much as takes a hundredth of δ."""

    steps: int
    rate: Fraction
    weight_cap: Fraction
    overflow: float | None
    optimiser: Optimiser

    def to_data(self) -> dict[str, Any]:
        return asdict(self) | {"rate": str(self.rate), "weight_cap": str(self.weight_cap)}


class SlrOptions(plans.Options):
    """Chosen without the data, because a choice made by looking would cost budget.

    Every record is used `epochs` times on average; batches are padded so that they are cut with probability at most
    `overflow` in all. Larger batches cost no more work and are far better for the parties, who know the batches.
    `weight_cap` bounds the weights on rows of norm 1; noise grows with ½ + cap/4.
    """

    method = "slr"
    in_shares = True

    epochs: _Positive = 10.0
    rate: Annotated[float, Number(gt=0, le=1)] = 0.1
    optimiser: OptimiserName = "momentum"
    learning_rate: _Positive = 16.0
    average: Annotated[float, Number(ge=0, le=1)] = 0.5
    weight_cap: _Positive = 8.0
    overflow: Annotated[float, Number(gt=0, lt=1)] | None = None
    gamma: Annotated[int, Number(ge=4)] = DEFAULT_GAMMA
    rounding: Rounding = "retry"
    calibration: Literal["sound", "paper"] = "sound"

    @property
    def schedule(self) -> SlrSchedule:
        """epochs/rate steps, each on a share `rate` of the records, with ‖w‖ ≤ weight_cap."""
        rate, overflow = self.rate, self.overflow
        for name, value in (("epochs", self.epochs), ("rate", rate), ("weight_cap", self.weight_cap)):
            if not (math.isfinite(value) and value > 0):
                raise PlanError(f"{name} = {value!r} is not a positive number.")
        if rate > 1:
            raise PlanError(f"rate = {rate!r} is more than 1: every record at every step is rate = 1.")
        if overflow is not None and not 0 < overflow < 1:
            raise PlanError(f"overflow = {overflow!r} is not a probability between 0 and 1. Try 1e-12.")
        exact = Fraction(max(1, round(rate * (1 << RATE_BITS))), 1 << RATE_BITS)
        steps = max(1, round(self.epochs / float(exact)))
        if steps > MOST_STEPS:
            raise PlanError(
                f"{self.epochs:g} epochs at rate {rate:g} are {steps} steps; {MOST_STEPS} is the most."
            )
        cap = Fraction(self.weight_cap).limit_denominator(1 << 20)
        optimiser = Optimiser(self.optimiser, self.learning_rate, self.average)
        return SlrSchedule(steps, exact, cap, None if overflow is None else float(overflow), optimiser)

    def check(self, spec: plans.TrainingSpec) -> None:
        plans.check_job_gamma(
            spec, "is the grid of a moment release; gradients have their own. Write it under [options]."
        )
        plans.refuse_paper_plan(self.calibration)

    def plan(self, spec: plans.TrainingSpec, group: Group, schemas: plans.Schemas, rows: int) -> GradientPlan:
        plans.check_computing_parties(group)
        terms = plans.agreed(spec, group, schemas, rows, task="classification")
        plan = GradientPlan(self.gamma, self.schedule, mu=Fraction(1), bits=bits_for(spec.epsilon), **terms)
        remedy = "Use the method 'moments' for more."
        plans.check_two_classes(plan.label, plan.label_holder, why="this trains on", remedy=remedy)
        # By default nothing: checks of every batch take more than two and a half times.
        verify = chosen_verify(spec.verify or "none", group, plan.claims, rows=min(rows, plan.block))
        blank = replace(plan, verify=verify)
        plan = plans.on_grid(
            lambda grid: _calibrated(replace(blank, gamma=grid)), self.gamma, least=LEAST_GAMMA[self.rounding]
        )
        try:
            _ = plan.guarantees
        except PrivacyError:
            raise PlanError(
                f"parties know the batches, and {plan.uses} uses of a record at this noise cost them more than can be "
                f"stated at δ = {plan.delta:g}. Take a rate above {float(self.schedule.rate):.3g}, fewer epochs or a "
                "smaller ε: larger batches need no more rows and are far better for the parties."
            ) from None
        return plan


@dataclass(frozen=True)
class GradientPlan(SharedPlan, plans.TrainingPlan, Layout):
    """Made by `SlrOptions`, which choose `law` and `mu`, half the variance of the whole noise of a step."""

    gamma: int
    schedule: SlrSchedule
    mu: Fraction
    bits: int = COARSE_BITS
    law: Law = "gaussian"
    verify: Verify = "none"

    charged_as = "gradients"
    constants = 1

    @property
    def rows_rounded(self) -> Rounding:
        return plans.options_of(self.spec, SlrOptions).rounding

    @property
    def dealt(self) -> dict[str, int]:
        return {party: width + int(party == self.label_holder) for party, width in self.widths.items()}

    @property
    def claims(self) -> dict[str, tuple[RowClaim, ...]]:
        claims = {}
        for owner, width in self.widths.items():
            holds = owner == self.label_holder
            bound = self.bounds[owner] + (self.constant**2 if holds else 0)
            listed = (RowClaim(width, bound),) if width else ()
            claims[owner] = (*listed, RowClaim(1, self.gamma**2)) if holds else listed
        return claims

    @property
    def size(self) -> int:
        return sum(self.widths.values())

    @property
    def weight_squared(self) -> int:
        """The largest ‖w̃‖² that a party accepts: ⌊γ²c_w²⌋."""
        return math.floor(self.gamma**2 * self.schedule.weight_cap**2)

    @cached_property
    def shape(self) -> GradientShape:
        norm_squared = sum(self.bounds.values()) + self.constant**2
        return GradientShape(self.gamma, self.size, norm_squared, self.weight_squared)

    @property
    def overflow(self) -> float:
        """The probability that a limit may bite: (1 + e^ε) times it is taken out of δ."""
        if self.schedule.overflow is not None:
            return self.schedule.overflow
        return self.delta / (100 * (1 + math.exp(min(self.spec.epsilon, 600.0))))

    @cached_property
    def capacity(self) -> int:
        half = self.overflow / 2
        return max(1, batch_capacity(self.rows, self.schedule.rate, steps=self.schedule.steps, overflow=half))

    @cached_property
    def uses(self) -> int:
        return max(1, most_uses(self.schedule.steps, self.schedule.rate, overflow=self.overflow / 2))

    @property
    def limits_cost(self) -> float:
        """ρ: how far the limited batches are from Poisson batches, in total variation (docs/proofs/batches.md)."""
        steps, rate = self.schedule.steps, self.schedule.rate
        return steps * binomial_tail(self.rows, rate, self.capacity) + binomial_tail(steps, rate, self.uses)

    @property
    def block(self) -> int:
        return min(self.capacity, block_rows(self.size))

    @property
    def dealt_noise(self) -> DealtNoise:
        return DealtNoise(self.law, 2 * self.mu, self.bits)

    @cached_property
    def noise(self) -> DiscreteGaussianNoise | SkellamNoise:
        return self.dealt_noise.vector

    @cached_property
    def field(self) -> Field:
        extent = self.noise.part(self.group.whole).support
        return smallest_field(
            rows=self.capacity,
            per_row=math.ceil(fused_zero_out(self.shape).l2),
            noise=len(self.group.dealers) * extent,
            what=f"a gradient at gamma = {self.gamma}",
        )

    def check_drawable(self) -> None:
        field = self.field
        if self.verify != "none" and field != FIELD63:
            raise FieldTooSmall(
                f"verify = {self.verify!r} was asked for; rows are checked in a field of {FIELD63.bits} bits, and a "
                f"gradient at gamma = {self.gamma} needs {field.bits}. Write verify = 'none', or take a smaller gamma."
            )

    @property
    def further(self) -> str:
        """Batches are secret; whoever draws them decides who is in them, which checks of what is dealt do not see."""
        return f", and {_SECRET if self.verify == 'none' else _DRAWN}"

    def zeroed(self, known: int) -> Event:
        return self.sampled(self.dealt_noise, known)

    def others_replaced(self, owner: str, known: int) -> Event:
        return self.all_replaced(known)

    def all_replaced(self, known: int) -> Event:
        """Sampling is proved to hide a zeroed record only, and from the server and readers only."""
        step = self.dealt_noise.vector_event(
            fused_replace(self.shape), self.group, entries=self.size, known=known
        )
        return Repeated(step, times=self.uses)

    def sampled(self, noise: DealtNoise, known: int | None = None) -> Event:
        release = noise.vector_event(fused_zero_out(self.shape), self.group, entries=self.size, known=known)
        return all_steps(self.schedule, release, as_draws(self.limits_cost, noise.bits))

    @property
    def what(self) -> str:
        return f"{self.schedule.steps} gradients of {self.size} weights"

    def own_data(self) -> dict[str, Any]:
        return {
            "mu": str(self.mu),
            "noise": self.dealt_noise.to_data(),
            **self.layout_data(),
            "schedule": self.schedule.to_data(),
            "capacity": self.capacity,
            "uses": self.uses,
            "primes": list(self.field.primes),
            "block": self.block,
            "verify": self.verify,
        }


def all_steps(schedule: SlrSchedule, step: Approximated, limits: int) -> Event:
    """All steps on secret batches, which limits move by so many draws from what sampling is proved for."""
    steps = Repeated(PoissonSampled(rate=schedule.rate, event=step), times=schedule.steps)
    return Approximated(steps, draws=limits, bits=step.bits)


def _calibrated(plan: GradientPlan) -> GradientPlan:
    """With the least noise that keeps ε; refuses, before any data is touched, what could wrap around."""
    noise = _least_noise(plan)
    plan = replace(plan, mu=noise.variance / 2, law=noise.law)
    return near_enough(plan, GradientPlan.accounted, lambda plan, bits: replace(plan, bits=bits))


def _least_noise(plan: GradientPlan) -> DealtNoise:
    change, limits = fused_zero_out(plan.shape), as_draws(plan.limits_cost, plan.bits)
    fine = _on_fine_grid(
        plan.schedule, plan.size, plan.group, limits, plan.spec.epsilon, plan.delta, plan.bits
    )
    scaled = fine.variance * Fraction(change.l2) ** 2 / _FINE**2 + 2 * ROUNDING_VARIANCES[FINE_BITS]
    if scaled >= _FINE:
        return replace(fine, variance=Fraction(math.ceil(scaled)))
    return least_noise(
        plan.sampled,
        epsilon=plan.spec.epsilon,
        delta=plan.delta,
        drawn=lambda noise: noise.vector.part(plan.group.whole),
        bits=plan.bits,
        digits=4,
    )


@lru_cache(maxsize=256)
def _on_fine_grid(
    schedule: SlrSchedule, size: int, group: Group, limits: int, epsilon: float, delta: float, bits: int
) -> DealtNoise:
    # Plans are made again and again, on many grids in search of one that fits; this part takes long and is the same.
    change = VectorChange(_FINE, Fraction(_FINE))
    return least_noise(
        lambda noise: all_steps(schedule, noise.vector_event(change, group, entries=size), limits),
        epsilon=epsilon,
        delta=delta,
        drawn=lambda _noise: None,
        distributions=("gaussian",),
        bits=bits,
        digits=4,
    )
