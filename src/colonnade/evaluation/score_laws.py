"""What noisy characteristic functions of scores say: AUC without bias, losses, and smooth laws of the scores by class.

With ω = π/(2B) and |s| ≤ B, sign(s₁ − s₀) = (4/π) Σ_{odd f} sin(fω(s₁ − s₀))/f, so that

    AUC = ½ + (2/π) Σ_{odd f} Im(φ₁(f)·conj φ₀(f))/f,

and the noises of the two classes are independent (docs/proofs/judging.md). For curves, the law of each class is the one
of greatest entropy, relative to a normal one, whose characteristic function is within the noise of what was opened: it
is positive, sums to one, and every curve made of it is monotone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ModelError
from colonnade.evaluation.figures import ScoreLaw, losses
from colonnade.protocols.evaluation_plan import Head, JudgePlan

Array = NDArray[np.float64]
POINTS = 401
_STEPS = 60
# A class that stands out of the noise by less than so many deviations is not judged.
CLEAR = 5.0
_WIDER = 1.5


@dataclass(frozen=True, eq=False)
class Phi:
    """Counts and characteristic functions by class, as they were opened; `centre` is added to every score.

    Of several classes they are of a `place` among heads: of everybody of another class, then of its own.
    """

    plan: JudgePlan
    place: int
    counts: Array
    values: NDArray[np.complex128]
    centre: float

    @classmethod
    def of(
        cls, coefficients: NDArray[np.int64] | Array, plan: JudgePlan, centre: float, head: int = 0
    ) -> Phi:
        """What integers that were opened stand for. How many people there are is known, which the counts take in."""
        m = plan.harmonics
        rows = plan.of_head(head, np.asarray(coefficients, dtype=np.float64))
        counts = rows[:, 0] / plan.scale
        counts = counts + (plan.rows - counts.sum()) / len(counts)
        scale = np.array(plan.heads[head].amplitudes, dtype=np.float64) / plan.gamma * plan.scale
        sums = (rows[:, 1 : m + 1] + 1j * rows[:, m + 1 :]) / scale
        if plan.scores > 1:
            counts, sums = (np.stack([of.sum(axis=0) - of[head], of[head]]) for of in (counts, sums))
        classes = plan.label.classes
        names = classes if plan.scores == 1 else (f"not {classes[head]}", classes[head])
        faint = [name for name, count in zip(names, counts, strict=True) if count < _clear(plan)]
        if faint:
            raise ModelError(
                f"among {plan.rows} people class {', '.join(repr(name) for name in faint)} does not stand out of the "
                f"noise of the judgement, {plan.deviation:.3g} on a count: there are nearly no such people, or too "
                "few of them. What was opened is charged: to refuse before would have told it exactly. Judge on more "
                "people, or at a larger ε."
            )
        return cls(plan, head, counts, sums / counts[:, None], centre)

    @property
    def head(self) -> Head:
        return self.plan.heads[self.place]

    @property
    def frequencies(self) -> Array:
        """f·ω for every frequency."""
        return np.array(self.head.frequencies, dtype=np.float64) * self.head.omega

    @property
    def variances(self) -> Array:
        scale = np.array(self.head.amplitudes, dtype=np.float64) / self.plan.gamma
        # The rest of several classes are sums of all the others.
        sums = np.array([[self.head.sums - 1.0], [1.0]])
        return np.asarray(sums * (self.plan.deviation / scale / self.counts[:, None]) ** 2)

    def auc(self) -> float:
        first, second = self.values
        odd = np.array(self.head.frequencies, dtype=np.float64)
        return float(0.5 + (2.0 / math.pi) * (np.imag(second * np.conj(first)) / odd).sum())

    def mean_losses(self) -> dict[str, float]:
        """Log-loss and Brier score: each loss as the combination of waves that is nearest to it where people are.

        Such a combination is linear in what was opened, so that noise does not move it on average.
        """
        grid, features = self._grid()
        design = np.concatenate([np.ones((len(grid), 1)), features], axis=1)
        means = dict.fromkeys(("log-loss", "Brier score"), 0.0)
        for number in (0, 1):
            near = np.exp(self._normal(number, grid, 1.0))
            weighed = (design * (near / near.sum())[:, None]).T
            ridge = np.diag(np.concatenate([[1e-12], np.tile(self.variances[number], 2) + 1e-12]))
            opened = np.concatenate([[1.0], self.values[number].real, self.values[number].imag])
            for name, loss in losses(grid + self.centre).items():
                wave = np.linalg.solve(weighed @ design + ridge, weighed @ loss[number])
                means[name] += float(wave @ opened) * self.counts[number] / self.plan.rows
        return {name: max(value, 0.0) for name, value in means.items()}

    def law(self) -> ScoreLaw:
        """Smooth laws of the scores of both classes."""
        grid, features = self._grid()
        people = []
        for number in (0, 1):
            target = np.concatenate([self.values[number].real, self.values[number].imag])
            doubt = np.tile(self.variances[number], 2) + 0.5 / self.counts[number]
            base = self._normal(number, grid, _WIDER)
            people.append(self.counts[number] * greatest_entropy(target, doubt, features, base))
        return ScoreLaw(grid + self.centre, np.stack(people))

    def opened_of(self, law: ScoreLaw) -> Array:
        """What would be opened, without noise, of people whose scores have this law: `of` reads it back."""
        _, features = self._grid()
        plan, m = self.plan, self.plan.harmonics
        scale = np.array(self.head.amplitudes, dtype=np.float64) / plan.gamma * plan.scale
        sums = law.people @ features
        rows = [law.counts[:, None] * plan.scale, sums[:, :m] * scale, sums[:, m:] * scale]
        opened = np.zeros(plan.coefficients)
        rest, own = np.concatenate(rows, axis=1)
        into = plan.of_head(self.place, opened)
        into[:] = rest / (len(into) - 1)
        into[self.place if plan.scores > 1 else 1] = own
        return opened

    def _grid(self) -> tuple[Array, Array]:
        grid = np.linspace(-self.head.bound, self.head.bound, POINTS)
        angles = np.outer(grid, self.frequencies)
        return grid, np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    def _normal(self, number: int, grid: Array, wider: float) -> Array:
        first = self.values[number, 0]
        middle = float(np.angle(first)) / self.head.omega
        length = min(max(abs(first), 1e-6), 0.9995)
        width = wider * math.sqrt(-2.0 * math.log(length)) / self.head.omega
        return np.asarray(-0.5 * ((grid - middle) / max(width, 4.0 * (grid[1] - grid[0]))) ** 2)


def _clear(plan: JudgePlan) -> float:
    return CLEAR * plan.deviation * math.sqrt(1.0 - 1.0 / plan.heads[0].sums)


def greatest_entropy(target: Array, doubt: Array, features: Array, base: Array) -> Array:
    """The law p ∝ e^(base + features·λ) whose λ minimises log Σ e^(base + features·λ) − λ·target + Σ doubt·λ²/2.

    A convex problem, by Newton steps that are halved until they descend.
    """
    weights = np.zeros(len(target))

    def at(weights: Array) -> tuple[float, Array]:
        exponent = base + features @ weights
        top = float(exponent.max())
        mass = np.exp(exponent - top)
        value = top + math.log(mass.sum()) - weights @ target + 0.5 * (doubt * weights**2).sum()
        return float(value), mass / mass.sum()

    value, law = at(weights)
    for _ in range(_STEPS):
        mean = law @ features
        slope = mean - target + doubt * weights
        curve = (features * law[:, None]).T @ features - np.outer(mean, mean) + np.diag(doubt)
        step = np.linalg.solve(curve, slope)
        size = 1.0
        while True:
            lower, trial = at(weights - size * step)
            if lower <= value - 1e-4 * size * float(slope @ step) or size < 1e-6:
                break
            size /= 2.0
        weights, gained = weights - size * step, value - lower
        value, law = lower, trial
        if gained < 1e-9:
            break
    return law
