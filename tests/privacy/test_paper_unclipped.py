"""HDP-VFL's noise does not give what its theorem says when received messages are used as they come."""

from typing import Any

from unclipped_messages import achieved_delta, realised_shifts

from colonnade.privacy.paper import active_sensitivity, classical_sigma, passive_sensitivity
from colonnade.privacy.sensitivity.messages import Schedule, passive_messages

SETTING: dict[str, Any] = {"rows": 4000, "batch": 200, "epochs": 10, "step_size": 0.1, "radius": 1.0}
DELTA = 1e-5


def test_with_small_batches_the_achieved_delta_is_several_times_the_target_and_with_one_it_is_not() -> None:
    mean, error = achieved_delta(**SETTING, epsilon=1.0, delta=DELTA, seed=3)
    assert mean - 6 * error > DELTA
    mean, error = achieved_delta(**(SETTING | {"rows": 569, "batch": 569}), epsilon=1.0, delta=DELTA, seed=3)
    assert mean + 6 * error < DELTA


def test_most_runs_move_further_than_the_lemma_says_and_none_further_than_our_bound_for_what_was_received() -> (
    None
):
    shared: dict[str, Any] = {
        "batch": 200,
        "epochs": 10,
        "steps": 200,
        "radius": 1,
        "step_size": 0.1,
        "lipschitz": 1,
    }
    claimed = passive_sensitivity(**shared).value
    noise = classical_sigma(
        1.0,
        DELTA,
        sensitivity=active_sensitivity(**shared, slope=0.25, label_slope=1.1, label_bound=1).value,
    ).value
    shifts = realised_shifts(**SETTING, sigma=noise, runs=4000, seed=5)
    assert (shifts > claimed).mean() > 0.3
    # Eight deviations hold every message these runs received.
    bound = passive_messages(Schedule(4000, 200, 10), radius=1, cap=1, step_size=0.1, clip=0.5 + 8 * noise)
    assert shifts.max() < bound.total
