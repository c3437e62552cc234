"""Exact integer noise against numpy's inexact draws, on one core, by CPU time.

Each figure is the ratio of numpy's time to ours for the same number of draws: above 1 we are faster. The
two sides take turns, and each time is a median over the turns, so that a busy machine slows both alike.

    python benchmarks/noise.py --json
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import json
import statistics
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from colonnade.noise import DiscreteGaussianNoise, DiscreteLaplaceNoise, SkellamNoise
from colonnade.noise.poisson_binomial import ONE, binomial
from colonnade.randomness import SystemRandomness

Work = Callable[[], object]


def medians(ours: Work, theirs: Work, *, turns: int) -> tuple[float, float]:
    """Median CPU seconds of each side; one turn of both goes first and is not counted."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns + 1):
        for work, kept in zip((ours, theirs), times, strict=True):
            start = time.process_time()
            work()
            if turn:
                kept.append(time.process_time() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=7)
    chosen = parser.parse_args()
    draws, source, numpy_source = chosen.draws, SystemRandomness(), np.random.default_rng()
    figures: dict[str, float] = {}

    def compare(name: str, ours: Work, theirs: Work) -> float:
        mine, other = medians(ours, theirs, turns=chosen.turns)
        figures[f"{name}_million_per_second"] = round(draws / mine / 1e6, 1)
        figures[f"{name}_times_numpy"] = round(other / mine, 3)
        if not chosen.json:
            print(f"{name:32} {draws / mine / 1e6:7.1f} million/s   {other / mine:6.2f} × numpy")
        return other / mine

    def skellam(mu: int) -> float:
        noise = SkellamNoise(Fraction(mu))
        return compare(
            f"skellam_{mu:.0e}".replace("+", ""),
            lambda: noise.draw(draws, source),
            lambda: numpy_source.poisson(mu, draws) - numpy_source.poisson(mu, draws),
        )

    figures["skellam_times_numpy"] = round(min(skellam(10**4), skellam(10**15)), 3)

    gaussian = DiscreteGaussianNoise(Fraction(1 << 40))
    compare(
        "discrete_gaussian",
        lambda: gaussian.draw(draws, source),
        lambda: np.rint(numpy_source.normal(0.0, 2.0**20, draws)).astype(np.int64),
    )

    laplace = DiscreteLaplaceNoise(Fraction(1000))
    rate = -np.expm1(-1 / 1000)
    compare(
        "discrete_laplace",
        lambda: laplace.draw(draws, source),
        lambda: numpy_source.geometric(rate, draws) - numpy_source.geometric(rate, draws),
    )

    numerators = numpy_source.integers(ONE // 4, 3 * ONE // 4, draws)
    chances = numerators / ONE
    compare("binomial", lambda: binomial(16, numerators, source), lambda: numpy_source.binomial(16, chances))
    if chosen.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
