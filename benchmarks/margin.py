"""Noisy margin descent on public data, through the real protocol: how good it is, and what a step takes.

    python benchmarks/margin.py --data FOLDER --json

FOLDER holds the public files named below. Two parties and a server, δ = 1e-5, features scaled by declared bounds only.
Prints one JSON object on its last line:

* ``adult_eps1``, ``adult_eps0.1``, ``phishing_eps1``, ``acs_tx_eps1``, ``credit_eps1``: mean test accuracy over ten
  80/20 splits (ACS: four), with ``…_spread``, its standard deviation over runs, and ``…_party_epsilon``, the largest ε
  of a party about the others' part of a record, beside the server's ε that the name has;
* ``step_ratio_to_plain``: one private gradient step of Adult's shape, all three members in this process on one thread,
  dealing included, over the same step with the same trigonometric h in float64 numpy: differences of whole runs with
  more and fewer steps, the least of several;
* ``bytes_per_row_step``: what all members send for a row and a step, from the same difference;
* ``run_seconds_over_moments``: a whole run of Adult over a moment release of it, planning included;
* with ``--only checked``: of Adult at ε = 1, with ``verify = "none"`` and ``"all"``, mean accuracy (``…_accuracy``,
  ``…_spread``), ε of the server, of the label holder and of the other owner, and seconds of a whole run on one thread,
  planning included, the least over the splits;
* ``noise_scale_over_central``: the standard deviation of the noise on an opened gradient at ε = 1 over that of normal
  noise drawn in one trusted place for the same (ε, δ), split over moments and steps alike, at sensitivity ½.

Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from public_data import PublicSet, Split, acs_income_texas, adult, credit, phishing
from threadpoolctl import threadpool_limits

from colonnade import Federation, LogisticRegression
from colonnade.methods.margin.curve import MILLION, PERIOD, Curve
from colonnade.methods.margin.plan import MarginOptions, MarginPlan
from colonnade.methods.table import train_with
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Gaussian
from colonnade.privacy.observers import PartyView
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.plans import TrainingSpec

DELTA = 1e-5
BUDGET = (1000.0, DELTA)
FEW_STEPS, MANY_STEPS, TRIES = 2, 12, 4
SETS: dict[str, tuple[Callable[[Path], PublicSet], tuple[str, ...], tuple[float, ...], int]] = {
    "adult": (adult, ("adult_train.parquet", "adult_test.parquet"), (0.1, 1.0), 10),
    "phishing": (phishing, ("phishing_websites.parquet",), (1.0,), 10),
    "credit": (credit, ("uci_default_credit_card.parquet",), (1.0,), 10),
    "acs_tx": (acs_income_texas, ("acs_income_2018.parquet",), (1.0,), 4),
}


def trained(
    split: Split, epsilon: float, *, verify: Verify = "none", **options: Any
) -> tuple[Any, Federation]:
    """What one run learns, and the parties it ran between."""
    federation = Federation(split.tables, budget=BUDGET)
    # Texas has more than 1e5 people; the figures are for δ = 1e-5 all the same, which has to be said.
    requested = TrainingSpec(
        "classification",
        epsilon,
        delta=DELTA,
        accepted_delta=DELTA,
        options=MarginOptions(**options),
        verify=verify,
    )
    return train_with(federation, "margin", requested), federation


def accuracy(split: Split, epsilon: float) -> tuple[float, float]:
    """Test accuracy of one run, and the largest ε of a party in it."""
    learnt, federation = trained(split, epsilon)
    model = LogisticRegression().fit(learnt)
    parties = [
        one.epsilon for one in federation.runs[-1].plan.guarantees if isinstance(one.observer, PartyView)
    ]
    return float(model.score(split.test_rows, split.test_labels)), max(parties)


def accuracies(folder: Path, names: list[str], splits: int) -> dict[str, float]:
    """Mean accuracies by field."""
    found: dict[str, float] = {}
    started = time.perf_counter()
    for name in names:
        load, _, epsilons, most = SETS[name]
        data = load(folder)
        for epsilon in epsilons:
            field = f"{name}_eps{epsilon:g}"
            runs = [accuracy(data.split(2, number), epsilon) for number in range(min(splits, most))]
            right = [one for one, _ in runs]
            found[field] = statistics.mean(right)
            found[f"{field}_spread"] = statistics.pstdev(right)
            found[f"{field}_party_epsilon"] = max(party for _, party in runs)
            print(
                f"{time.perf_counter() - started:6.0f} s  {field}: {found[field]:.4f} ± "
                f"{found[f'{field}_spread']:.4f} over {len(right)}",
                file=sys.stderr,
                flush=True,
            )
    return found


def plain_step(rows: np.ndarray, signs: np.ndarray, weights: np.ndarray, curve: Curve) -> np.ndarray:
    """The gradient without privacy, in float64 numpy."""
    angles = np.outer(signs * (rows @ weights), np.arange(1, curve.harmonics + 1)) * (2 * np.pi / PERIOD)
    a, b = (np.array(part) / MILLION for part in (curve.cosines, curve.sines))
    slopes = float(curve.constant) + np.cos(angles) @ a + np.sin(angles) @ b
    return np.asarray(rows.T @ (signs * slopes))


def steps_of(split: Split) -> dict[str, float]:
    """What a step takes."""
    seconds: dict[int, list[float]] = {FEW_STEPS: [], MANY_STEPS: []}
    sent: dict[int, int] = {}
    with threadpool_limits(1):
        trained(split, 1.0, steps=FEW_STEPS)
        for _ in range(TRIES):
            for steps, used in seconds.items():
                started = time.perf_counter()
                _, federation = trained(split, 1.0, steps=steps)
                used.append(time.perf_counter() - started)
                sent[steps] = federation.runs[-1].outcome.bytes_sent
        plan: MarginPlan = federation.runs[-1].plan
        drawn = np.random.default_rng(1)
        rows = drawn.uniform(-0.3, 0.3, (plan.rows, plan.size))
        signs, weights = drawn.choice([-1.0, 1.0], plan.rows), drawn.normal(size=plan.size)
        plain = []
        for _ in range(5 * TRIES):
            started = time.perf_counter()
            plain_step(rows, signs, weights, plan.phasors.curve)
            plain.append(time.perf_counter() - started)
    each = (min(seconds[MANY_STEPS]) - min(seconds[FEW_STEPS])) / (MANY_STEPS - FEW_STEPS)
    return {
        "step_seconds": each,
        "plain_step_seconds": min(plain),
        "step_ratio_to_plain": each / min(plain),
        "bytes_per_row_step": (sent[MANY_STEPS] - sent[FEW_STEPS]) / ((MANY_STEPS - FEW_STEPS) * plan.rows),
    }


def checked_beside_unchecked(data: PublicSet, splits: int) -> dict[str, float]:
    """Accuracy, every observer's ε and the time of either, on the same splits in turn."""
    kinds: tuple[Verify, ...] = ("none", "all")
    right: dict[str, list[float]] = {kind: [] for kind in kinds}
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    found: dict[str, float] = {}
    with threadpool_limits(1):
        for number in range(splits):
            split = data.split(2, number)
            for kind in kinds:
                started = time.perf_counter()
                learnt, federation = trained(split, 1.0, verify=kind)
                seconds[kind].append(time.perf_counter() - started)
                model = LogisticRegression().fit(learnt)
                right[kind].append(float(model.score(split.test_rows, split.test_labels)))
                plan: MarginPlan = federation.runs[-1].plan
                for one in plan.guarantees:
                    name = one.observer.name
                    if isinstance(one.observer, PartyView):
                        name = "label_holder" if one.observer.party == plan.label_holder else "other_owner"
                    found[f"{kind}_{name}_epsilon"] = one.epsilon
                found[f"{kind}_harmonics"] = plan.schedule.harmonics
                found[f"{kind}_slope_bound"] = plan.slopes.most / plan.scale
                print(f"{number} {kind}: {right[kind][-1]:.4f}", file=sys.stderr, flush=True)
    for kind in kinds:
        found[f"{kind}_accuracy"] = statistics.mean(right[kind])
        found[f"{kind}_spread"] = statistics.pstdev(right[kind])
        found[f"{kind}_seconds"] = min(seconds[kind])
    return found


def against_moments(split: Split) -> float:
    """Seconds of a run over seconds of a moment release, the least of several of each."""
    found: dict[str, list[float]] = {"margin": [], "moments": []}
    for _ in range(TRIES):
        for method, used in found.items():
            federation = Federation(split.tables, budget=BUDGET)
            started = time.perf_counter()
            LogisticRegression(epsilon=1.0, delta=DELTA, method=method).fit(federation)
            used.append(time.perf_counter() - started)
    return min(found["margin"]) / min(found["moments"])


def noise_over_central(split: Split) -> float:
    """Noise on a gradient beside the noise of one trusted place."""
    _, federation = trained(split, 1.0)
    plan: MarginPlan = federation.runs[-1].plan
    sigma = float(calibrate(lambda noise: Gaussian(1, noise), epsilon=1.0, delta=DELTA))
    central = 0.5 * sigma * math.sqrt(plan.schedule.steps / (1 - float(plan.schedule.moments_share)))
    return plan.deviation / central


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder with the data sets")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=[*SETS, "steps", "checked"], default=[*SETS, "steps"])
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    needed = [name for name in arguments.only if name in SETS]
    for name in [*needed, *(["adult"] if set(arguments.only) - set(SETS) else [])]:
        for file in SETS[name][1]:
            if arguments.data is None or not (arguments.data / file).is_file():
                sys.exit(f"margin.py needs --data FOLDER with {file}; --only NAME ... leaves sets out")
    found: dict[str, float] = {}
    if "steps" in arguments.only:
        split = adult(arguments.data).split(2, 0)
        found |= steps_of(split)
        found["run_seconds_over_moments"] = against_moments(split)
        found["noise_scale_over_central"] = noise_over_central(split)
    if "checked" in arguments.only:
        found |= checked_beside_unchecked(adult(arguments.data), arguments.splits)
    found |= accuracies(arguments.data, needed, arguments.splits)
    if not arguments.json:
        for field, value in found.items():
            print(f"{field}: {value:.4g}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
