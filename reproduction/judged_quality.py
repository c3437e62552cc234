"""How near a judgement by the protocol is to the exact figures, on the same held-out people of public sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.public_data import PublicSet
from colonnade.errors import ColonnadeError
from colonnade.evaluation.estimates import TwoClassEstimate, estimate_two_classes
from colonnade.evaluation.evaluate import Price, evaluate_jointly
from colonnade.evaluation.predict import Stored
from colonnade.federation.federation import Federation
from colonnade.federation.train import joined_rows
from colonnade.models.files.linear_file import model_file
from colonnade.models.logistic import LogisticRegression
from reproduction.one_place import DELTA
from reproduction.sections import Pieces, Section, Table, timed

TITLE, HELD_OUT = "How near a judgement is", 0.2


def judged_section(
    sets: Mapping[str, Callable[[], PublicSet]], *, epsilons: Sequence[float], kept: Path | None
) -> Section:
    """Every set at every ε, one draw each; a draw is kept as soon as it is there."""
    pieces, rows = Pieces(kept), []
    facts: dict[str, dict[str, float]] = {}
    with timed() as watch:
        for name, people in sets.items():
            cells = []
            for epsilon in epsilons:
                key = f"{name}, {epsilon:g}"
                found = pieces.get(f"judged, {key}", partial(_draw, people, epsilon))
                facts[key] = found
                cells.append(
                    f"{found['AUC']:.4f} / {found['accuracy']:.4f}" if "AUC" in found else "too few people"
                )
            rows.append((name, *cells))
    again = " Runs were kept from before; the seconds below are those of the rest." if pieces.found else ""
    text = f"""
A fifth of the people are held out, a model is trained on the others by one moment release, and judged on these by the
protocol, at no further ε for anybody; the exact figures of the same model on the same people are known here, because
the sets are public. One draw each. "Too few people" is a judgement that is refused before anything is charged, because
its noise would be larger than what it measures.{again}
"""
    head = ("set", *(f"ε = {epsilon:g}" for epsilon in epsilons))
    table = Table(
        f"AUC / accuracy: how far the judgement is from the exact figure, {HELD_OUT:.0%} held out",
        head,
        tuple(rows),
    )
    return Section(TITLE, text, (table,), (), watch.seconds, facts={"off": facts})


def _draw(people: Callable[[], PublicSet], epsilon: float) -> dict[str, float]:
    data = people()
    federation = Federation(
        data.tables(2, np.arange(len(data.labels))), budget=(1e4, DELTA), held_out=HELD_OUT
    )
    release = federation.moments(task="classification", epsilon=epsilon, delta=DELTA, accepted_delta=DELTA)
    model = LogisticRegression().fit(release)
    stored = Stored(model_file(model, method="moments", run=release.run), {}, {})
    try:
        evaluated = evaluate_jointly(federation, stored, Price.of_training(federation.runs[-1].plan, epsilon))
    except ColonnadeError:
        return {}
    judgement = evaluated.estimate
    if not isinstance(judgement, TwoClassEstimate):
        raise TypeError("these sets have two classes")
    rows, labels = joined_rows(evaluated.run.aligned, model.frame_)
    classes = (labels == model.classes_[1]).astype(np.int64)
    names = (str(model.classes_[0]), str(model.classes_[1]))
    exact = estimate_two_classes(
        model.decision_function(rows), classes, names=names, threshold=0.0, chances=True
    )
    return {
        name: round(abs(judgement.figures[name].value - exact.figures[name].value), 5)
        for name in ("AUC", "accuracy")
    }
