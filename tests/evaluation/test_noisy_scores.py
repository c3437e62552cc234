"""What noisy sums say of people, against the same people scored many times."""

import numpy as np
import pytest
from scipy.special import expit

from colonnade.evaluation.scores import expected, noisy_text


@pytest.mark.parametrize("deviation", [0.2, 1.5])
def test_the_noise_of_what_is_read_is_how_far_it_lies_when_noise_is_drawn_again(deviation: float) -> None:
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(4, 1))
    sums = rng.normal(size=(5, 4))

    def read(values: np.ndarray) -> np.ndarray:
        scores: np.ndarray = expit(np.tanh(values) @ weights)

        return scores

    mean, noise = expected(read, sums, deviation=deviation, most=100.0)
    again = np.stack([read(sums + deviation * rng.normal(size=sums.shape)) for _ in range(4000)])
    assert mean == pytest.approx(again.mean(axis=0), abs=0.03)
    assert noise == pytest.approx(again.std(axis=0), rel=0.25)


def test_a_sum_past_its_bound_is_taken_for_the_bound() -> None:
    mean, noise = expected(expit, np.array([[900.0]]), deviation=1.0, most=3.0)
    assert 0.85 < mean[0, 0] < expit(3.0) and noise[0, 0] > 0


def test_what_is_beyond_the_noise_is_not_said() -> None:
    assert noisy_text(1.0, 0.02, probability=True) == "0.99"
    assert noisy_text(0.0, 0.3, probability=True) == "0.1"
    assert noisy_text(0.31872, 0.0, probability=False) == "0.3187"
