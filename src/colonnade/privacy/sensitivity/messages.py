"""How far one record moves each message of an iterative protocol, given what its loss allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class LossBounds:
    """Three bounds on the residual h.

    - `size`: |h| ≤ L;
    - `slope`: h is β-Lipschitz and not decreasing in θ;
    - `row`: |h(u + m, y) − h(u′ + m, y′)| for any two records of the active party and the same received m.
    """

    size: float
    slope: float
    row: float


def logistic_bounds(*, radius: float, active_cap: float) -> LossBounds:
    """h = −y·s(−yθ), y = ±1, s the logistic function: row 2·s(k·c), attained when the label flips.

    These hold for any received value, so nothing needs to be clipped.
    """
    _check(radius, active_cap)
    return LossBounds(size=1.0, slope=0.25, row=_up(2 / (1 + math.exp(-radius * active_cap))))


def least_squares_bounds(
    *, radius: float, active_cap: float, passive_cap: float, label_bound: float
) -> LossBounds:
    """h = 2(θ − y), |y| ≤ k_y: L = 2(k_y + Θ), row 4k·c + 4k_y."""
    _check(radius, active_cap, passive_cap, label_bound)
    theta = radius * (active_cap + passive_cap)
    return LossBounds(
        size=_up(2 * (label_bound + theta)), slope=2.0, row=_up(4 * radius * active_cap + 4 * label_bound)
    )


def squared_hinge_bounds(*, radius: float, active_cap: float, passive_cap: float) -> LossBounds:
    """h = −2y·max(0, 1 − yθ), y = ±1 (l2-SVM): L = 2(1 + Θ), row max(4 + 4k·c, 2(1 + Θ))."""
    _check(radius, active_cap, passive_cap)
    size = 2 * (1 + radius * (active_cap + passive_cap))
    return LossBounds(size=_up(size), slope=2.0, row=_up(max(4 + 4 * radius * active_cap, size)))


def poisson_bounds(*, radius: float, active_cap: float, passive_cap: float, label_bound: float) -> LossBounds:
    """h = e^θ − y, 0 ≤ y ≤ k_y: L = max(e^Θ, k_y), β = e^Θ, row 2·e^(k·c′)·sinh(k·c) + k_y."""
    _check(radius, active_cap, passive_cap, label_bound)
    largest = _up(math.exp(radius * (active_cap + passive_cap)))
    spread = 2 * math.exp(radius * passive_cap) * math.sinh(radius * active_cap)
    return LossBounds(size=max(largest, label_bound), slope=largest, row=_up(spread + label_bound))


def gamma_bounds(*, radius: float, active_cap: float, passive_cap: float, label_bound: float) -> LossBounds:
    """h = 1 − y·e^(−θ), 0 ≤ y ≤ k_y (log link): L = max(1, k_y·e^Θ − 1), β = row = k_y·e^Θ."""
    _check(radius, active_cap, passive_cap, label_bound)
    largest = _up(label_bound * math.exp(radius * (active_cap + passive_cap)))
    return LossBounds(size=max(1.0, largest - 1), slope=largest, row=largest)


def _check(*values: float) -> None:
    if not all(math.isfinite(value) and value >= 0 for value in values):
        raise ValueError(
            "radius, caps, bounds, step size, clip, ridge and grid must be finite and not negative"
        )


def _up(value: float) -> float:
    return value * (1 + 2.0**-50)


Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Schedule:
    """Public batches, fixed in advance: every record once an epoch, in the same batches every epoch.

    Updates divide by the nominal `batch`, also in a shorter last batch.
    """

    rows: int
    batch: int
    epochs: int

    def __post_init__(self) -> None:
        if min(self.rows, self.batch, self.epochs) < 1:
            raise ValueError("rows, batch and epochs must be positive")

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.rows // self.batch)

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_per_epoch

    def size_of(self, position: int) -> int:
        """How many records the batch at this position of an epoch has."""
        return min(self.batch, self.rows - position * self.batch)


@dataclass(frozen=True)
class StepSensitivities:
    """The L2 sensitivity of each step's message for the record that moves the whole sequence most.

    A `PerStep` event takes `per_step`, in units of the grid its noise is drawn on.
    """

    per_step: tuple[float, ...]

    @property
    def total(self) -> float:
        """√(Σ Δ_t²): what Gaussian noise of the same size on every step is compared with."""
        return math.sqrt(math.fsum(step * step for step in self.per_step))


def passive_messages(
    schedule: Schedule,
    *,
    radius: float,
    cap: float,
    step_size: float,
    clip: float,
    ridge: float = 0.0,
    grid: float = 0.0,
) -> StepSensitivities:
    """Scores xᵢw of a passive party that clips what it receives to ±clip and projects to ‖w‖ ≤ radius.

    Guarantee: replacing one record of this party moves the message of step t, given the transcript, by at
    most Δ_t with Δ_t² = (b − 1)(c·d)² + (2k·c)² when the record is in the batch and b(c·d)² when it is not,
    where d is the distance the weights may have moved: d ← min(2k, |1 − ηλ|·d + 2ηCc/b) after a step with the
    record, d ← |1 − ηλ|·d after one without. A message rounded to a grid g adds g√b to Δ_t.
    """
    _check(radius, cap, step_size, clip, ridge, grid)
    return _worst_record(
        schedule,
        jump=2 * step_size * clip * cap / schedule.batch,
        shrink=abs(1 - step_size * ridge),
        extent=cap,
        row=2 * radius * cap,
        limit=2 * radius,
        grid=grid,
    )


def active_messages(
    schedule: Schedule,
    bounds: LossBounds,
    *,
    radius: float,
    cap: float,
    step_size: float,
    ridge: float = 0.0,
    grid: float = 0.0,
) -> StepSensitivities:
    """Residuals h(θᵢ, yᵢ) of the active party, which updates with its exact residuals and projects.

    Guarantee: as for `passive_messages`, with β·c·d in place of c·d, the loss's `row` for the record's own
    entry and L in place of C. The step must be short enough for gradient descent not to spread weights
    apart: η(βc² + λ) ≤ 2.
    """
    _check(radius, cap, step_size, ridge, grid)
    return _worst_record(
        schedule,
        jump=2 * step_size * bounds.size * cap / schedule.batch,
        shrink=_contraction(step_size, bounds.slope * cap**2, ridge),
        extent=bounds.slope * cap,
        row=bounds.row,
        limit=2 * radius,
        grid=grid,
    )


def encrypted_messages(
    schedule: Schedule,
    *,
    active: bool,
    radius: float,
    peer_clip: float,
    step_size: float,
    cap: float = 1.0,
    grid: float = 0.0,
) -> StepSensitivities:
    """DP-Paillier, from a sender that clips: xᵢw − 2yᵢ with y = ±1 of the active party, xᵢw of a passive one.

    Guarantee, with λ = 2 for the active party and 0 for a passive one, and a peer that clips to ±C′ = peer_clip: row
    2k·c + 2λ; the update (η/4b)·Σ(xᵢw − λyᵢ + mᵢ)xᵢ moves by at most 2ηc(k·c + λ + C′)/(4b).
    """
    _check(radius, cap, step_size, peer_clip, grid)
    label = 2.0 if active else 0.0
    return _worst_record(
        schedule,
        jump=2 * step_size * cap * (radius * cap + label + peer_clip) / (4 * schedule.batch),
        shrink=_contraction(step_size, cap**2 / 4, 0.0),
        extent=cap,
        row=2 * radius * cap + 2 * label,
        limit=2 * radius,
        grid=grid,
    )


def largest_step(bounds: LossBounds, *, cap: float, ridge: float = 0.0) -> float:
    """The longest step η of the active party for which a bound is proved: 2/(βc² + λ)."""
    return 2 / (bounds.slope * cap**2 + ridge)


def _contraction(step_size: float, curvature: float, ridge: float) -> float:
    """How far a gradient step can stretch the distance between two weights: the slopes lie in [λ, curvature + λ]."""
    factor = max(abs(1 - step_size * ridge), abs(1 - step_size * (curvature + ridge)))
    if factor > 1:
        raise ValueError(
            f"with step size {step_size} a gradient step spreads weights apart and no bound is proved: "
            f"choose at most {2 / (curvature + ridge):.6g}"
        )
    return factor


def _worst_record(
    schedule: Schedule, *, jump: float, shrink: float, extent: float, row: float, limit: float, grid: float
) -> StepSensitivities:
    """The steps of the record, among all positions of an epoch, with the largest Σ Δ_t².

    A record moves nothing before its first use, and how far the weights have moved k steps after that does not
    depend on where in the epoch it stands: one sequence of distances serves every position.
    """
    per_epoch, epochs, batch = schedule.steps_per_epoch, schedule.epochs, schedule.batch
    last = schedule.size_of(per_epoch - 1)
    # Each of the T steps multiplies and adds a few times; this covers the rounding of all of them.
    upward = 1 + (8 * schedule.steps + 64) * 2.0**-53
    # How far a record has moved the weights, 0, 1, 2, … steps after its first use.
    walked, distance = [], 0.0
    for step in range(schedule.steps):
        walked.append(distance)
        distance = min(limit, shrink * distance + (0.0 if step % per_epoch else jump))
    since_first_use = np.array(walked)

    def moved(distance: Floats, size: Counts | int, used: Counts) -> Floats:
        square = (size - used) * (extent * distance) ** 2 + used * row**2
        return np.asarray(np.sqrt(square) * upward + grid * np.sqrt(size))

    # Squares by epoch and by steps since the last use, in full batches and in the last one.
    used = (np.arange(per_epoch) == 0).astype(np.int64)
    distances = since_first_use.reshape(epochs, per_epoch)
    full = moved(distances, batch, used) ** 2
    # Of the last epoch, a record at position p sees the lags 0, …, n − 1 − p only, the last of them in the last batch;
    # sums of squares, never differences, so that nothing cancels.
    seen = full.sum(axis=0)
    before = np.concatenate(([0.0], np.cumsum(seen[:-1])))
    after = np.concatenate(([0.0], np.cumsum(full[:-1].sum(axis=0)[:0:-1])))[::-1]
    in_last = (moved(distances, last, used) ** 2).sum(axis=0)
    unmoved = np.arange(per_epoch) * (grid * math.sqrt(batch)) ** 2
    totals = (before + in_last + after)[::-1] + unmoved
    worst = int(totals.argmax())

    place = np.arange(schedule.steps) % per_epoch
    apart = np.concatenate((np.zeros(worst), since_first_use[: schedule.steps - worst]))
    sizes = np.where(place == per_epoch - 1, last, batch)
    return StepSensitivities(tuple(moved(apart, sizes, (place == worst).astype(np.int64)).tolist()))
