"""What an evaluation on private people opened, read: distributions of scores, labels and residuals, and figures.

Each noisy characteristic function is read as the distribution of greatest entropy, relative to a normal one, that is
within noise and sampling of it. How far noise moves figures is seen by evaluating people with just these distributions
again under fresh noise. All of it is post-processing (docs/proofs/judging.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import ModelError
from colonnade.evaluation import estimates
from colonnade.protocols.evaluation import EvaluationPlan, Head, Opened, Phasors

Array = NDArray[np.float64]
POINTS = 401
CLEAR = 5.0
"""A class that stands out of the noise by less than so many deviations is not evaluated."""
CLEAR_VARIANCE = 3.0
"""A label whose variance is not so many deviations of its noise away from 0 leaves no R²."""
RESIDUAL, LABEL, SCORE = range(3)
GROUPS = 10
"""In so many groups of people, by what is predicted of them, predictions are set against labels."""
# The normal distribution that others are relative to is this much wider than the one that fits.
_WIDER = 1.5
# What smoothing moves on average, and is moved back; accuracy it hardly moves, and the rest not at all.
_SMOOTHED = ("average precision",)
_SMOOTHED_REST = ("average precision", "accuracy", "Brier score")
_COARSE, _FINE = 201, 401
# How far a straight line may bend at one deviation of the score, in deviations.
_BENDS = 0.3
# So many deviations either way hold everybody who can be told from noise.
_WIDTHS = 12.0
_STEPS = 60


def estimate_opened(opened: Opened, centres: Array, *, threshold: float, chances: bool) -> estimates.Estimate:
    """`centres` are added to everybody's scores; `chances` says that scores are log-odds.

    Of several classes each is read against the rest: what is opened is the distribution of each score alone.
    """
    first, plan = float(centres[0]), opened.plan
    if plan.numbers:
        return estimate_opened_numbers(opened, centre=first)
    if len(centres) == 1:
        return estimate_opened_score(opened, centre=first, threshold=threshold, chances=chances)
    each = tuple(
        estimate_opened_score(opened, centre=float(centre), threshold=0.0, chances=True, place=place)
        for place, centre in enumerate(centres)
    )
    return estimates.ClassEstimate(plan.rows, tuple(plan.label.classes), each)


def redrawn(opened: Opened, clean: Array, what: str) -> Iterator[Array]:
    """What could as well have been opened of people of whom `clean` would be opened without noise."""
    for fresh in opened.plan.opened_noise.draw(
        (estimates.DRAWS, opened.plan.coefficients), estimates.keyed(what)
    ):
        yield clean + fresh


def fitted(values: Phasors, variances: Array, people: float, phasors: Array, base: Array) -> Array:
    """Shares of people, relative to e^base, whose means of waves are these within noise and sampling.

    The p ∝ e^(base + waves·λ) whose λ minimises log Σ e^(base + waves·λ) − λ·target + Σ doubt·λ²/2: a convex problem,
    by Newton steps that are halved until they descend.
    """
    target = np.concatenate([values.real.ravel(), values.imag.ravel()])
    doubt = np.tile((variances + 0.5 / people).ravel(), 2)
    weights = np.zeros(len(target))

    def at(weights: Array) -> tuple[float, Array]:
        exponent = base + phasors @ weights
        top = float(exponent.max())
        mass = np.exp(exponent - top)
        value = top + math.log(mass.sum()) - weights @ target + 0.5 * (doubt * weights**2).sum()
        return float(value), mass / mass.sum()

    value, shares = at(weights)
    for _ in range(_STEPS):
        mean = shares @ phasors
        slope = mean - target + doubt * weights
        curve = (phasors * shares[:, None]).T @ phasors - np.outer(mean, mean) + np.diag(doubt)
        step = np.linalg.solve(curve, slope)
        size = 1.0
        while True:
            lower, trial = at(weights - size * step)
            if lower <= value - 1e-4 * size * float(slope @ step) or size < 1e-6:
                break
            size /= 2.0
        weights, gained = weights - size * step, value - lower
        value, shares = lower, trial
        if gained < 1e-9:
            break
    return shares


# Classes: the score of two, or of one against the rest.


@dataclass(frozen=True, eq=False)
class OpenedScore:
    """Counts and characteristic functions by class; of several classes of everybody of another class, then its own."""

    plan: EvaluationPlan
    place: int
    counts: Array
    values: Phasors
    centre: float

    @classmethod
    def of(
        cls, coefficients: NDArray[Any], plan: EvaluationPlan, centre: float, place: int = 0
    ) -> OpenedScore:
        """How many people there are is known, which the counts take in."""
        counts, sums = plan.read_head(place, coefficients)
        counts = counts + (plan.rows - counts.sum()) / len(counts)
        if plan.scores > 1:
            counts, sums = (np.stack([of.sum(axis=0) - of[place], of[place]]) for of in (counts, sums))
        names = estimates.two_names(plan.label.classes, None if plan.scores == 1 else place)
        clear = CLEAR * plan.deviation * math.sqrt(1.0 - 1.0 / plan.heads[0].sums)
        faint = [name for name, count in zip(names, counts, strict=True) if count < clear]
        if faint:
            raise ModelError(
                f"among {plan.rows} people class {', '.join(repr(name) for name in faint)} does not stand out of the "
                f"noise of the evaluation, {plan.deviation:.3g} on a count: there are too few such people. What was "
                "opened is charged: an earlier refusal would disclose the exact count. Use more people, or a larger ε."
            )
        return cls(plan, place, counts, sums / counts[:, None], centre)

    @property
    def head(self) -> Head:
        return self.plan.heads[self.place]

    @property
    def variances(self) -> Array:
        # The rest of several classes are sums of all the others.
        sums = np.array([[self.head.sums - 1.0], [1.0]])
        deviations = self.plan.deviation / self.plan.sizes(self.place) / self.counts[:, None]
        return np.asarray(sums * deviations**2)

    @property
    def grid(self) -> Array:
        return np.linspace(-self.head.bound, self.head.bound, POINTS)

    def auc(self) -> float:
        """AUC without bias, because the noises of the two classes are independent.

        sign(s₁ − s₀) = (4/π) Σ_{odd f} sin(fω(s₁ − s₀))/f within the bounds of scores, so that
        AUC = ½ + (2/π) Σ_{odd f} Im(φ₁(f)·conj φ₀(f))/f.
        """
        first, second = self.values
        odd = np.array(self.head.frequencies, dtype=np.float64)
        return float(0.5 + (2.0 / math.pi) * (np.imag(second * np.conj(first)) / odd).sum())

    def mean_losses(self) -> dict[str, float]:
        """Each loss as the combination of waves nearest to it where people are: noise does not move it on average."""
        design = np.concatenate([np.ones((POINTS, 1)), self.head.phasors(self.grid)], axis=1)
        means = dict.fromkeys(("log-loss", "Brier score"), 0.0)
        for number in (0, 1):
            near = np.exp(self._normal(number, 1.0))
            weighed = (design * (near / near.sum())[:, None]).T
            ridge = np.diag(np.concatenate([[1e-12], np.tile(self.variances[number], 2) + 1e-12]))
            opened = np.concatenate([[1.0], self.values[number].real, self.values[number].imag])
            for name, loss in estimates.losses(self.grid + self.centre).items():
                phasor = np.linalg.solve(weighed @ design + ridge, weighed @ loss[number])
                means[name] += float(phasor @ opened) * self.counts[number] / self.plan.rows
        return {name: max(value, 0.0) for name, value in means.items()}

    def distribution(self) -> estimates.ScoreDistribution:
        phasors = self.head.phasors(self.grid)
        shares = [
            fitted(self.values[at], self.variances[at], self.counts[at], phasors, self._normal(at, _WIDER))
            for at in (0, 1)
        ]
        return estimates.ScoreDistribution(self.grid + self.centre, self.counts[:, None] * np.stack(shares))

    def read(self, threshold: float) -> tuple[estimates.ScoreDistribution, dict[str, float]]:
        """One class against the rest has no probability that is linear in scores: its score is recalibrated."""
        scored, unbiased = self.distribution(), {"AUC": min(max(self.auc(), 0.0), 1.0)}
        if self.plan.scores == 1:
            unbiased |= self.mean_losses()
        else:
            scored = scored.recalibrated()
        return scored, {**scored.figures(threshold), **unbiased}

    def opened_of(self, people: Array) -> Array:
        """What would be opened, without noise, of so many people of each class on the grid: `of` reads it back."""
        rest, own = np.column_stack([people.sum(axis=1), people @ self.head.phasors(self.grid)])
        rows = np.repeat(rest[None] / (self.head.sums - 1), self.head.sums, axis=0)
        rows[self.place if self.plan.scores > 1 else 1] = own
        opened = np.zeros(self.plan.coefficients)
        self.plan.write_head(self.place, opened, rows[:, 0], rows[:, 1:])
        return opened

    def _normal(self, number: int, wider: float) -> Array:
        first, grid = self.values[number, 0], self.grid
        middle = float(np.angle(first)) / self.head.omega
        length = min(max(abs(first), 1e-6), 0.9995)
        width = wider * math.sqrt(-2.0 * math.log(length)) / self.head.omega
        return np.asarray(-0.5 * ((grid - middle) / max(width, 4.0 * (grid[1] - grid[0]))) ** 2)


def estimate_opened_score(
    opened: Opened, *, centre: float, threshold: float, chances: bool, place: int = 0
) -> estimates.TwoClassEstimate:
    plan = opened.plan
    score = OpenedScore.of(opened.coefficients, plan, centre, place)
    scored, values = score.read(threshold)
    again = []
    for coefficients in redrawn(opened, score.opened_of(scored.people), f"judgement {opened.run} {place}"):
        try:
            again.append(OpenedScore.of(coefficients, plan, centre, place).read(threshold))
        except ModelError:
            continue
    truth, noise = scored.figures(threshold), {}
    smoothed = _SMOOTHED if plan.scores == 1 else _SMOOTHED_REST
    for name in values:
        drawn, shift = [one[name] for _, one in again], 0.0
        if drawn and name in smoothed:
            shift = float(np.mean(drawn)) - truth[name]
            values[name] = min(max(values[name] - shift, 0.0), 1.0)
        noise[name] = math.hypot(estimates.spread(drawn), shift)
    estimate = estimates.TwoClassEstimate.of(
        scored,
        values,
        people=plan.rows,
        names=estimates.two_names(plan.label.classes, None if plan.scores == 1 else place),
        threshold=threshold,
        chances=chances,
        noise=noise,
    )
    return replace(estimate, redrawn=tuple(one for one, _ in again))


# Numbers.


@dataclass(frozen=True, eq=False)
class NumberDistribution:
    """Values in ascending order, and the share of people who have each."""

    values: Array
    shares: Array

    @classmethod
    def of(cls, coefficients: NDArray[Any], plan: EvaluationPlan, place: int) -> NumberDistribution:
        """Residual, label or score, from the middle of its bounds, of everybody."""
        head, (_, sums) = plan.heads[place], plan.read_head(place, coefficients)
        noise = math.sqrt(len(sums)) * plan.deviation / plan.sizes(place) / plan.rows
        values = sums.sum(axis=0) / plan.rows
        middle, width = _normal(values, noise, np.array(head.frequencies) * head.omega)
        grid = np.linspace(-head.bound, head.bound, _COARSE)
        if _WIDTHS * width < head.bound:
            near = np.linspace(middle - _WIDTHS * width, middle + _WIDTHS * width, _FINE)
            grid = np.unique(np.concatenate([grid, near[np.abs(near) <= head.bound]]))
        base = -0.5 * ((grid - middle) / (_WIDER * width)) ** 2 + np.log(np.gradient(grid))
        return cls(grid, fitted(values, noise**2, plan.rows, head.phasors(grid), base))

    def mean(self, of: Array) -> float:
        return float(self.shares @ of)

    def deviation(self, of: Array) -> float:
        return math.sqrt(max(self.mean(of**2) - self.mean(of) ** 2, 0.0))


def _normal(values: Phasors, noise: Array, omegas: Array) -> tuple[float, float]:
    """Mean and deviation of a normal distribution, by the frequency whose length says most about the deviation.

    Noise e on |φ| = e^(−x²/2) is an error of e/(|φ| |log |φ||) of x², which is least where |φ| = 1/e.
    """
    squares = np.abs(values) ** 2 - 2.0 * noise**2
    lengths = np.sqrt(np.clip(squares, noise**2, (1.0 - np.minimum(noise, 0.5)) ** 2))
    best = int(np.argmax(lengths * -np.log(lengths) / noise))
    width = math.sqrt(-2.0 * math.log(lengths[best])) / omegas[best]
    middle = 0.0
    for omega, value in zip(omegas[: best + 1], values[: best + 1], strict=True):
        # Every frequency says where within a period; those before say in which.
        middle += float(np.angle(value * np.exp(-1j * omega * middle))) / omega
    return middle, float(width)


def estimate_opened_numbers(opened: Opened, *, centre: float) -> estimates.NumberEstimate:
    """Errors by the distributions of residual and label, and what is predicted against the mean label by score."""
    plan, label = opened.plan, opened.plan.label.label
    if label is None:
        raise ModelError("there is no label to evaluate by.")
    shift = float(plan.label.from_unit(0.0)) - centre

    def read(coefficients: NDArray[Any]) -> tuple[NumberDistribution, NumberDistribution]:
        wrong, truth = (NumberDistribution.of(coefficients, plan, place) for place in (RESIDUAL, LABEL))
        return wrong, truth

    def errors(wrong: NumberDistribution, truth: NumberDistribution) -> dict[str, estimates.Figure]:
        return _errors(replace(wrong, values=wrong.values + shift), truth, plan.rows)

    distributions, clean = read(opened.coefficients), np.zeros(plan.coefficients)
    for place, one in zip((RESIDUAL, LABEL), distributions, strict=True):
        sums = one.shares @ plan.heads[place].phasors(one.values)
        plan.write_head(place, clean, np.zeros(1), plan.rows * sums[None])
    again = [errors(*read(drawn)) for drawn in redrawn(opened, clean, f"judgement {opened.run}")]
    figures = errors(*distributions)
    for name, figure in figures.items():
        drawn = [one[name].value for one in again]
        noise = math.hypot(estimates.spread(drawn), float(np.mean(drawn)) - figure.value)
        figures[name] = replace(figure, noise=noise)
    variance = figures.pop("variance")
    if not variance.value > CLEAR_VARIANCE * variance.noise:
        del figures["R²"]
    pairs = _pairs(plan, opened.coefficients, centre, figures["RMSE"].value)
    return estimates.NumberEstimate(plan.rows, label.column, figures, pairs, exact=False)


def _errors(wrong: NumberDistribution, truth: NumberDistribution, people: int) -> dict[str, estimates.Figure]:
    """Without noise, each with what chance does to it and what the mean alone would have."""
    square, root = wrong.mean(wrong.values**2), math.sqrt(people)
    apart, away = truth.values - truth.mean(truth.values), np.abs(wrong.values)
    variance = max(truth.mean(apart**2), 1e-300)
    chance = wrong.deviation(wrong.values**2)
    # Residuals and labels go together, which makes the error of their ratio smaller than this.
    ratio = math.hypot(chance / variance, square / variance**2 * truth.deviation(apart**2))
    sampling = chance / (2.0 * math.sqrt(square) * root) if square > 0 else 0.0
    return {
        "RMSE": estimates.Figure(math.sqrt(square), 0.0, sampling, math.sqrt(variance)),
        "MAE": estimates.Figure(
            wrong.mean(away), 0.0, wrong.deviation(away) / root, truth.mean(np.abs(apart))
        ),
        "R²": estimates.Figure(1.0 - square / variance, 0.0, ratio / root, 0.0),
        "variance": estimates.Figure(variance, 0.0, 0.0, 0.0),
    }


def _pairs(
    plan: EvaluationPlan, coefficients: NDArray[Any], centre: float, error: float
) -> tuple[tuple[float, float], ...]:
    """Means of what is predicted and of the label, by groups of people in the order of what is predicted.

    Both sums together are the score of everybody. Their difference is Σ v·e^{ifωs}, v the label between −1 and 1, and
    v = β·(1, z, z², z³) of the score z in deviations is fitted to it, within noise and what labels scatter around it;
    `error` is how far they do. What bends it is held back where it is not seen.
    """
    scores = NumberDistribution.of(coefficients, plan, SCORE)
    deviation = scores.deviation(scores.values)
    if not deviation > 0:
        return ()
    middle, top = (float(plan.label.from_unit(unit)) for unit in (0.0, 1.0))
    half = top - middle
    z = (scores.values - scores.mean(scores.values)) / deviation
    powers = np.stack([z**power for power in range(4)])
    phasors = np.column_stack([np.ones(len(z)), plan.heads[SCORE].phasors(scores.values)])
    noise = math.sqrt(2.0) * plan.deviation / np.concatenate([[1.0], *[plan.sizes(SCORE)] * 2])
    doubt = noise**2 + plan.rows * (error / half) ** 2 / 2.0
    design = plan.rows * (powers * scores.shares) @ phasors
    counts, sums = plan.read_head(SCORE, coefficients)
    apart = sums[1] - sums[0]
    opened = np.concatenate([[counts[1] - counts[0]], apart.real, apart.imag])
    penalty = np.diag([0.0, 0.0, *[(_BENDS * deviation / half) ** -2] * 2])
    beta = np.linalg.solve((design / doubt) @ design.T + penalty, (design / doubt) @ opened)
    labels = np.clip(middle + half * (beta @ powers), middle - half, middle + half)
    groups = np.minimum((np.cumsum(scores.shares) * GROUPS).astype(np.int64), GROUPS - 1)
    return tuple(
        (
            centre + float(scores.values[inside] @ scores.shares[inside]) / people,
            float(labels[inside] @ scores.shares[inside]) / people,
        )
        for inside in (groups == number for number in range(GROUPS))
        if (people := float(scores.shares[inside].sum())) > 0
    )
