"""Message sensitivities against brute force over residuals and against two runs on neighbouring data."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages_samples import LABELS
from numpy.typing import NDArray

from colonnade.methods.glm.losses import LOSSES
from colonnade.privacy.sensitivity import messages as losses
from colonnade.privacy.sensitivity.messages import (
    LossBounds,
    Schedule,
    StepSensitivities,
    active_messages,
    encrypted_messages,
    largest_step,
    passive_messages,
)

# Radius k, caps c and c′.
SIZES = [(1.0, 1.0, 1.0), (0.5, 0.7, 0.3), (2.0, 0.7, 0.7), (3.0, 0.2, 1.0), (1.0, 0.1, 2.0)]


def bounds_of(name: str, k: float, c: float, p: float) -> LossBounds:
    return LOSSES[name].bounds(LABELS[name], radius=k, active_cap=c, passive_cap=p)


def targets_of(name: str) -> list[float]:
    return sorted(set(LOSSES[name].targets(LABELS[name], np.linspace(-9, 9, 9)).tolist()))


def extremes(name: str, sizes: tuple[float, float, float]) -> tuple[float, float, float, float]:
    """(largest |h|, steepest and flattest quotient, largest own-row difference) over a grid that holds every corner."""
    k, c, p = sizes
    own, received = np.linspace(-k * c, k * c, 41), np.linspace(-k * p, k * p, 41)
    if bounds_of(name, k, c, p) == bounds_of(name, k, c, 9 * p):
        # They hold for whatever is received.
        received = np.linspace(-50, 50, 801)
    theta = own[:, None] + received[None, :]
    residuals = [LOSSES[name].residual(theta, np.array(y)) for y in targets_of(name)]
    size = max(np.abs(h).max() for h in residuals)
    fine = np.linspace(theta.min(), theta.max(), 4001)
    slopes = [np.diff(LOSSES[name].residual(fine, np.array(y))) / np.diff(fine) for y in targets_of(name)]
    # The same m, any two rows.
    row = max((h.max(0) - g.min(0)).max() for h, g in itertools.product(residuals, repeat=2))
    return float(size), float(np.max(slopes)), float(np.min(slopes)), float(row)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("sizes", SIZES)
def test_residuals_rise_keep_their_bounds_and_nearly_reach_them(
    name: str, sizes: tuple[float, float, float]
) -> None:
    size, slope, least, row = extremes(name, sizes)
    bounds = bounds_of(name, *sizes)
    assert 0.8 * bounds.size < size <= bounds.size * (1 + 1e-12)
    assert 0.8 * bounds.slope < slope <= bounds.slope * (1 + 1e-9)
    assert 0.8 * bounds.row < row <= bounds.row * (1 + 1e-12)
    assert least >= -1e-12


def project(w: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    length = np.linalg.norm(w)
    return w if length <= radius else w * (radius / length)


def clipped_rows(generator: Any, rows: int, columns: int, cap: float) -> NDArray[np.float64]:
    x = generator.normal(size=(rows, columns))
    result: NDArray[np.float64] = x * cap / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), cap)
    return result


def run(
    schedule: Schedule,
    x: NDArray[np.float64],
    *,
    message: Callable[..., Any],
    residual: Callable[..., Any],
    radius: float,
    step_size: float,
    ridge: float,
    received: NDArray[np.float64],
    w0: NDArray[np.float64],
) -> list[NDArray[np.float64]]:
    """The sequence of messages of one party whose transcript is fixed."""
    w, sent = w0.copy(), []
    for step in range(schedule.steps):
        position = step % schedule.steps_per_epoch
        batch = np.arange(schedule.rows)[position * schedule.batch :][: schedule.batch]
        sent.append(message(batch, x[batch] @ w, received[step][: len(batch)]))
        gradient = residual(batch, x[batch] @ w, received[step][: len(batch)]) @ x[batch] / schedule.batch
        w = project(w - step_size * (gradient + ridge * w), radius)
    return sent


def passive_run(schedule: Schedule, x: NDArray[np.float64], **how: Any) -> list[NDArray[np.float64]]:
    """Scores are sent, and residuals come from elsewhere."""
    return run(schedule, x, message=lambda _, s, m: s, residual=lambda _, s, m: m, **how)


def neighbours(
    schedule: Schedule, cap: float, radius: float, seed: int
) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """A generator, clipped rows, the same with one record turned, which one that is, and where weights begin."""
    generator = np.random.default_rng(seed)
    x = clipped_rows(generator, schedule.rows, 2, cap)
    other, record = x.copy(), generator.integers(schedule.rows)
    other[record] *= -1
    return generator, x, other, record, {"w0": project(generator.normal(size=2) * 3, radius)}


def distance(first: list[NDArray[np.float64]], second: list[NDArray[np.float64]]) -> float:
    return math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(first, second, strict=True)))


schedules = st.builds(Schedule, rows=st.integers(1, 9), batch=st.integers(1, 9), epochs=st.integers(1, 4))


@given(schedules, st.floats(0.01, 1.5), st.floats(0, 0.3), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_two_passive_runs_on_neighbouring_data_stay_within_the_total(
    schedule: Schedule, step_size: float, ridge: float, seed: int
) -> None:
    radius, cap, clip = 1.5, 0.8, 2.0
    generator, x, other, _, begun = neighbours(schedule, cap, radius, seed)
    received = generator.choice([-clip, clip], (schedule.steps, schedule.batch))
    how: dict[str, Any] = {"radius": radius, "step_size": step_size, "ridge": ridge}
    sent = [passive_run(schedule, data, received=received, **begun, **how) for data in (x, other)]
    assert distance(*sent) <= passive_messages(schedule, cap=cap, clip=clip, **how).total


@given(
    schedules,
    st.sampled_from(sorted(LOSSES)),
    st.floats(0.01, 0.4),
    st.floats(0, 0.3),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None)
def test_two_active_runs_on_neighbouring_data_stay_within_the_total(
    schedule: Schedule, name: str, step_size: float, ridge: float, seed: int
) -> None:
    radius, cap, passive = 1.0, 0.8, 0.6
    generator, x, other, record, begun = neighbours(schedule, cap, radius, seed)
    y = generator.choice(targets_of(name), schedule.rows)
    changed = y.copy()
    other[record] *= generator.choice([-1, 1])
    changed[record] = generator.choice(targets_of(name))
    received = generator.uniform(-radius * passive, radius * passive, (schedule.steps, schedule.batch))
    proved = bounds_of(name, radius, cap, passive)
    step_size = min(step_size, largest_step(proved, cap=cap, ridge=ridge))
    how: dict[str, Any] = {"radius": radius, "step_size": step_size, "ridge": ridge}
    bound = active_messages(schedule, proved, cap=cap, **how)

    def sent(data: NDArray[np.float64], label: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        def h(batch: Any, scores: Any, m: Any) -> Any:
            return LOSSES[name].residual(scores + m, label[batch])

        return run(schedule, data, message=h, residual=h, received=received, **begun, **how)

    assert distance(sent(x, y), sent(other, changed)) <= bound.total


@given(schedules, st.floats(0.01, 3), st.booleans(), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_two_encrypted_runs_on_neighbouring_data_stay_within_the_total(
    schedule: Schedule, step_size: float, active: bool, seed: int
) -> None:
    radius, peer = 1.5, 2.0
    generator, x, other, record, begun = neighbours(schedule, 1.0, radius, seed)
    y = generator.choice([-1.0, 1.0], schedule.rows) if active else np.zeros(schedule.rows)
    changed = y.copy()
    changed[record] *= -1
    received = generator.choice([-peer, peer], (schedule.steps, schedule.batch))
    how: dict[str, Any] = {"radius": radius, "step_size": step_size}

    def sent(data: NDArray[np.float64], label: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        def message(batch: Any, scores: Any, m: Any) -> Any:
            return scores - 2 * label[batch]

        def residual(batch: Any, scores: Any, m: Any) -> Any:
            return (message(batch, scores, m) + m) / 4

        how_sent = {**begun, **how, "ridge": 0.0, "received": received}
        return run(schedule, data, message=message, residual=residual, **how_sent)

    total = encrypted_messages(schedule, active=active, peer_clip=peer, **how).total
    assert distance(sent(x, y), sent(other, changed)) <= total


def test_the_passive_bound_is_nearly_attained() -> None:
    schedule = Schedule(rows=50, batch=10, epochs=5)
    x, other = np.full((50, 1), 1.0), np.full((50, 1), 1.0)
    other[0] = -1.0
    received = np.full((schedule.steps, 10), 0.0)
    received[:: schedule.steps_per_epoch, 0] = 1.0
    how: dict[str, Any] = {"radius": 1.0, "step_size": 0.01, "ridge": 0.0}
    sent = [passive_run(schedule, data, received=received, w0=np.ones(1), **how) for data in (x, other)]
    bound = passive_messages(schedule, cap=1, clip=1, **how)
    assert 0.99 * bound.total < distance(*sent) <= bound.total


def test_with_a_ridge_the_first_batch_need_not_be_the_worst_so_every_position_is_tried() -> None:
    # A record of the one-row second batch is fresh in the weights when the ten-row batch is sent again.
    bound = passive_messages(
        Schedule(rows=11, batch=10, epochs=3), radius=1, cap=1, step_size=1.0, clip=4, ridge=0.9
    )
    assert bound.per_step[0] == 0.0
    assert bound.per_step[1] == pytest.approx(2.0)


@given(schedules, st.floats(0, 0.5))
def test_a_grid_adds_its_root_of_the_batch_to_every_step(schedule: Schedule, grid: float) -> None:
    bare = passive_messages(schedule, radius=1, cap=1, step_size=0.1, clip=1)
    rounded = passive_messages(schedule, radius=1, cap=1, step_size=0.1, clip=1, grid=grid)
    assert len(rounded.per_step) == schedule.steps
    assert rounded.per_step[0] == pytest.approx(
        bare.per_step[0] + grid * math.sqrt(min(schedule.batch, schedule.rows))
    )


@given(st.integers(1, 6), st.floats(0.5, 2), st.floats(0.5, 4))
def test_larger_clips_and_more_epochs_never_cost_less(epochs: int, radius: float, clip: float) -> None:
    def total(e: int, c: float) -> float:
        return passive_messages(Schedule(30, 7, e), radius=radius, cap=1, step_size=0.1, clip=c).total

    assert total(epochs, clip) <= total(epochs + 1, clip)
    assert total(epochs, clip) <= total(epochs, clip * 1.5) * (1 + 1e-12)


def test_a_step_that_spreads_weights_apart_is_refused_and_a_total_is_a_root_of_squares() -> None:
    bounds = losses.least_squares_bounds(radius=1, active_cap=1, passive_cap=1, label_bound=1)
    with pytest.raises(ValueError, match="at most 1"):
        active_messages(Schedule(5, 5, 1), bounds, radius=1, cap=1, step_size=1.1)
    assert StepSensitivities((1.0, 2.0, 2.0)).total == 3.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: Schedule(rows=0, batch=1, epochs=1),
        lambda: passive_messages(Schedule(1, 1, 1), radius=-1, cap=1, step_size=1, clip=1),
        lambda: passive_messages(Schedule(1, 1, 1), radius=math.inf, cap=1, step_size=1, clip=1),
        lambda: losses.logistic_bounds(radius=math.nan, active_cap=1),
        lambda: losses.squared_hinge_bounds(radius=-1, active_cap=1, passive_cap=1),
        lambda: losses.least_squares_bounds(radius=1, active_cap=1, passive_cap=1, label_bound=-1),
        lambda: losses.poisson_bounds(radius=1, active_cap=-1, passive_cap=1, label_bound=1),
        lambda: losses.gamma_bounds(radius=1, active_cap=1, passive_cap=1, label_bound=math.inf),
    ],
)
def test_impossible_settings_are_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(ValueError):
        call()


@settings(deadline=None)
@given(
    rows=st.integers(1, 40),
    batch=st.integers(1, 12),
    epochs=st.integers(1, 5),
    step_size=st.floats(0.01, 3.0),
    ridge=st.sampled_from([0.0, 0.05, 0.3]),
    grid=st.sampled_from([0.0, 2.0**-16, 0.1]),
    radius=st.sampled_from([0.05, 1.0]),
)
def test_the_steps_are_those_of_the_worst_of_all_records_followed_one_by_one(
    rows: int, batch: int, epochs: int, step_size: float, ridge: float, grid: float, radius: float
) -> None:
    """Follow the record at each position through the recursion of the proof; no position may cost more."""
    schedule = Schedule(rows, batch, epochs)
    cap, clip = 0.8, 1.5
    found = passive_messages(
        schedule, radius=radius, cap=cap, step_size=step_size, clip=clip, ridge=ridge, grid=grid
    )
    followed = []
    for position in range(schedule.steps_per_epoch):
        distance, steps = 0.0, []
        for step in range(schedule.steps):
            here = step % schedule.steps_per_epoch
            used, size = here == position, schedule.size_of(here)
            square = (size - used) * (cap * distance) ** 2 + used * (2 * radius * cap) ** 2
            steps.append(math.sqrt(square) + grid * math.sqrt(size))
            distance = abs(1 - step_size * ridge) * distance + used * 2 * step_size * clip * cap / batch
            distance = min(2 * radius, distance)
        followed.append(steps)
    totals = [math.hypot(*steps) for steps in followed]
    assert found.total == pytest.approx(max(totals), rel=1e-12)
    assert found.total >= max(totals) * (1 - 2.0**-50)
    assert any(found.per_step == pytest.approx(steps, rel=1e-12, abs=0) for steps in followed)


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_the_longest_step_is_where_a_gradient_step_stops_drawing_weights_together(ridge: float) -> None:
    bounds = losses.logistic_bounds(radius=1, active_cap=1)
    step = largest_step(bounds, cap=2.0, ridge=ridge)
    # |1 − η(βc² + λ)| is 1 there and below 1 for every shorter step.
    assert step * (bounds.slope * 4 + ridge) == pytest.approx(2.0)
    assert bounds.slope == pytest.approx(0.25) and step == pytest.approx(2 / (1 + ridge))
