"""CPU seconds that accounting takes for the plans that are hardest on it, on one core.

A plan is accounted for once, from nothing: sensitivities, every observer, every route to ε. Where it says
`calibrated`, the least noise for ε = 1 is searched for first. Imports are not counted, and nothing is asked
twice, because answers are kept.

    python benchmarks/accounting.py --json
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import json
import time
from collections.abc import Callable
from fractions import Fraction

import dp_accounting.pld.pld_pmf  # noqa: F401 - the loss distributions import it when they first need it

from colonnade.cli.privacy_answer import MechanismFamily, messages, moments, poisson_binomial, work_out
from colonnade.privacy.events import Event, Laplace, PoissonSampled, Repeated, Skellam
from colonnade.privacy.guarantee import account

DELTA = 1e-5
EPOCHS = 100


def mechanism(made: Callable[[], MechanismFamily], *, times: int = 1, noise: Fraction | None = None) -> None:
    """Every observer of a mechanism, at this noise or at the least noise for ε = 1."""
    work_out(made(), noise=noise, epsilon=1.0 if noise is None else None, delta=DELTA, times=times)


def event(made: Callable[[], Event]) -> None:
    account(made(), DELTA)


def moment_matrix() -> MechanismFamily:
    parties = ["bank=500", "clinic=500", "shop=500"]
    return moments(parties=parties, classes=2, regression=False, gamma=1 << 12, threshold=None)


def binomial_sums() -> MechanismFamily:
    return poisson_binomial(parties=50, trials=64, coordinates=16, colluding=1, rows=None)


def steps(sender: str) -> Callable[[], MechanismFamily]:
    return lambda: messages(rows=30_000, batch=32, sender=sender, clip=1.0, radius=1.0, step_size=0.1)


PLANS: dict[str, Callable[[], None]] = {
    "moments_1500_columns_calibrated": lambda: mechanism(moment_matrix),
    "poisson_binomial_1000_uses": lambda: mechanism(binomial_sums, times=1000, noise=Fraction(1, 1000)),
    "laplace_100000": lambda: event(lambda: Repeated(Laplace(1, 1000), 10**5)),
    "messages_93800_steps": lambda: mechanism(steps("passive"), times=EPOCHS, noise=Fraction(1000)),
    "messages_93800_steps_calibrated": lambda: mechanism(steps("passive"), times=EPOCHS),
    "messages_93800_residuals_calibrated": lambda: mechanism(steps("active"), times=EPOCHS),
    "sampled_skellam_1000": lambda: event(
        lambda: Repeated(PoissonSampled(Fraction(1, 100), Skellam(l1=30, l2=5, mu=1000)), 1000)
    ),
    "sampled_skellam_integer_1000": lambda: event(
        lambda: Repeated(PoissonSampled(Fraction(1, 100), Skellam(l1=3, l2=3, mu=10**4, coordinates=1)), 1000)
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    chosen = parser.parse_args()
    seconds: dict[str, float] = {}
    for name, plan in PLANS.items():
        start = time.process_time()
        plan()
        seconds[name] = round(time.process_time() - start, 3)
        if not chosen.json:
            print(f"{name:40} {seconds[name]:7.3f} s")
    print(json.dumps({"seconds": seconds, "worst_seconds": max(seconds.values())}))


if __name__ == "__main__":
    main()
