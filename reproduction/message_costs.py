"""What private messages cost in seconds, and Poisson regression by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import numpy as np
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance

from colonnade.data.table import Table as Columns
from colonnade.federation.federation import Federation
from colonnade.methods.baselines.method import IdealOptions, exactly, ideal_messages
from colonnade.methods.glm.losses import LOSSES, GlmOptions
from colonnade.methods.messages.method import METHOD
from colonnade.methods.messages.plan import PrivateMessagesOptions
from colonnade.methods.method import LinearModel, TrainedModel
from colonnade.methods.table import METHODS
from colonnade.models.release import MomentRelease
from colonnade.protocols.plans import TrainingSpec
from reproduction.message_data import made_up
from reproduction.sections import Pieces, Section, Table, spread_text, timed

BATCH = 3200
UNLIMITED = (1e9, 0.5)
PATIENCE = 6 * 3600.0


def running_time(
    *, sizes: Sequence[int], epochs: Sequence[int], encrypted_most: int, kept: Path | None = None
) -> Section:
    """Figure 3: seconds over epochs at the smallest size, and over sizes at one epoch.

    Every run is kept as soon as it is there. Under encryption at most so many people times epochs are run; beyond, a
    cell is the forecast in proportion to the largest that was.
    """
    pieces = Pieces(kept)

    def used(method: str, rows: int, times: int) -> float:
        options: dict[str, Any] = {"epochs": times, "batch": min(BATCH, rows)}
        if method == "encrypted":
            options = {"epochs": times, "defence": "none"}
        # On a busy machine a party may wait for hours for the end of the other's training.
        federation = Federation(made_up(rows), budget=UNLIMITED, public=True, timeout=PATIENCE)
        form = METHODS[method].options(**options)
        start = process_time()
        METHODS[method].train(federation, TrainingSpec("classification", 1.0, options=form))
        return process_time() - start

    methods = ("vfl-non-private", "private-messages", "encrypted")
    with timed() as watch:
        found = {}
        for method in methods if encrypted_most else methods[:2]:
            used(method, 50, 1)  # compiles kernels, makes tables of noise
        for rows, times in dict.fromkeys([*((sizes[0], e) for e in epochs), *((n, 1) for n in sizes)]):
            for method in methods:
                if method != "encrypted" or rows * times <= encrypted_most:
                    found[method, rows, times] = pieces.get(
                        f"{method}, {rows} people, {times} epochs", partial(used, method, rows, times)
                    )

    def cell(method: str, rows: int, times: int) -> str:
        if (method, rows, times) in found:
            return f"{found[method, rows, times]:.2f}"
        run = {n * e: seconds for (each, n, e), seconds in found.items() if each == method}
        return f"{rows * times * run[max(run)] / max(run):.0f}, forecast" if run else "not run"

    def table(caption: str, cases: Sequence[tuple[int, int]], head: Sequence[str]) -> Table:
        return Table(
            caption,
            ("method", *head),
            tuple((method, *(cell(method, *case) for case in cases)) for method in methods),
        )

    ratios = [
        found["encrypted", rows, times] / found["private-messages", rows, times]
        for method, rows, times in found
        if method == "encrypted"
    ]
    again = " Runs were kept from before; the seconds below are those of the rest." if pieces.found else ""
    compared = f"{min(ratios):.0f} to {max(ratios):.0f} times" if ratios else "not measured"
    text = f"""
Processor seconds of whole runs from greeting to farewell, both parties in one process, 14 + 10 columns of
made-up data, batches of {BATCH:,}; "encrypted" is our gradient descent under Paillier with keys of 2048 bits,
its own batches of 256 and no defence. The paper prints that HE-VFL is "roughly 2 ∼ 3 times slower" than both
others, on FATE, and that all grow in proportion to epochs and samples. Encryption does here too, and costs
{compared} what private messages cost. Of a run with private messages most is the plan and the tables of noise,
a fifth of a second that does not grow; what an epoch costs beside one without noise, and that it is linear,
`benchmarks/intermediate.py` measures without them.{again}
"""
    return Section(
        "Figure 3: seconds",
        text,
        (
            table(
                f"Processor seconds over epochs, {sizes[0]:,} people",
                [(sizes[0], e) for e in epochs],
                [f"{e} epochs" if e > 1 else "1 epoch" for e in epochs],
            ),
            table(
                "Processor seconds over people, one epoch",
                [(n, 1) for n in sizes],
                [f"{n:,} people" for n in sizes],
            ),
        ),
        (),
        watch.seconds,
        facts={f"{m} {n} {e}": seconds for (m, n, e), seconds in found.items()},
    )


def poisson_regression(given: list[Columns], raw: Mapping[str, Any], counts: Any, *, runs: int) -> Section:
    """Poisson regression of visits to a doctor, which the paper proposes and does not run."""
    loss = LOSSES["poisson"]

    def deviance(learnt: TrainedModel | MomentRelease) -> float:
        if not isinstance(learnt, LinearModel):
            raise TypeError("Poisson regression has one weight a column")
        scores = learnt.frame.features(raw) @ learnt.coefficients.T + learnt.intercepts
        return float(mean_poisson_deviance(counts, np.exp(scores[:, 0])))

    def parties() -> Federation:
        return Federation(given, budget=UNLIMITED, public=True)

    free = GlmOptions(strength=0.0)
    with timed() as watch:
        features = np.column_stack(list(raw.values()))
        scaled = (features - features.min(axis=0)) / np.ptp(features, axis=0)
        peer = PoissonRegressor(alpha=0.0, tol=1e-9, max_iter=5000).fit(scaled, counts)
        theirs = float(mean_poisson_deviance(counts, peer.predict(scaled)))
        ours = deviance(
            ideal_messages(
                parties(),
                TrainingSpec("regression", 1.0),
                loss,
                IdealOptions(strength=0.0, learning_rate=2.0, epochs=1500),
            )
        )
        exact = deviance(exactly(parties(), TrainingSpec("regression", 1.0), loss, free, alone=False))
        alone = deviance(exactly(parties(), TrainingSpec("regression", 1.0), loss, free, alone=True))
        constant = float(mean_poisson_deviance(counts, np.full(len(counts), counts.mean())))
        rows = [
            ("scikit-learn, all columns", f"{theirs:.4f}"),
            ("all rows in one place, ours", f"{exact:.4f}"),
            ("messages without noise", f"{ours:.4f} ({100 * (ours / theirs - 1):+.2f} %)"),
            ("the active party alone", f"{alone:.4f}"),
            ("the mean", f"{constant:.4f}"),
        ]
        private: dict[str, list[float]] = {}
        for epsilon in (1.0, 10.0):
            requested = TrainingSpec("regression", epsilon, options=PrivateMessagesOptions(loss="poisson"))
            private[f"messages, sound, ε = {epsilon:g}"] = [
                deviance(METHOD.train(parties(), requested)) for _ in range(runs)
            ]
        rows += [(name, spread_text(values)) for name, values in private.items()]
    text = f"""
{len(counts):,} people, visits to a doctor in two weeks (mean {counts.mean():.2f}, declared from 0 to 9), split
as FATE does; {runs} runs with noise. The deviance is that of the people trained on, as a fit is judged; smaller
is better. Noise for Poisson loss is large: a label may be 9 where most are 0, and the slope of e^θ has no bound
but the radius.
"""
    best = fmean(private["messages, sound, ε = 10"])
    return Section(
        "Poisson regression",
        text,
        (Table("Mean Poisson deviance", ("model", "deviance"), tuple(rows)),),
        (),
        watch.seconds,
        facts={"scikit-learn": theirs, "messages without noise": ours, "messages at 10": best},
    )
