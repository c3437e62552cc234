"""What the label holder's own columns alone would have, on the people that a shared model was judged on.

Exact figures of private people: they are for the label holder, who holds everything that they are made of, and stand on
its own page alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.labels import Label
from colonnade.data.table import AlignedTable
from colonnade.errors import ModelError
from colonnade.federation.federation import Run
from colonnade.scoring.classes_judged import ClassesJudged, judge_class_rows
from colonnade.scoring.evaluating import Judged
from colonnade.scoring.judgement import Judgement, judge_rows
from colonnade.scoring.network_judged import NetworkJudged
from colonnade.scoring.numbers_judged import NumbersJudged, judge_numbers

Array = NDArray[np.float64]
MOST = 50_000
"""So many people are enough to learn a linear model of one party's columns from."""


def judged_alone(
    run: Run[Any], judged: Judged | NetworkJudged
) -> Judgement | ClassesJudged | NumbersJudged | None:
    """A linear model of the label holder's own columns, without noise; None where the label holder is not here."""
    holder = run.plan.group.active
    if holder not in run.aligned or holder not in judged.run.aligned:
        return None
    label = run.aligned[holder].schema.label
    if label is None:
        return None
    rows, truth = _rows(run.aligned[holder], most=MOST)
    others, answers = _rows(judged.run.aligned[holder])
    try:
        if label.classes:
            return _classified(rows, truth.astype(np.int64), others, answers.astype(np.int64), label)
        design = np.column_stack([rows, np.ones(len(rows))])
        weights = np.linalg.lstsq(design, truth, rcond=None)[0]
        return judge_numbers(others @ weights[:-1] + weights[-1], answers, label=label.column)
    except ModelError:
        return None


def _classified(
    rows: Array, classes: NDArray[np.int64], others: Array, answers: NDArray[np.int64], label: Label
) -> Judgement | ClassesJudged | None:
    # Heavy, and needed by nobody else who reads a run.
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(classes)) < len(label.classes):
        return None
    model = LogisticRegression(max_iter=500).fit(rows, classes)
    scores = np.asarray(model.decision_function(others))
    if len(label.classes) > 2:
        return judge_class_rows(scores, answers, names=tuple(label.classes), chances=True)
    names = (label.classes[0], label.classes[1])
    return judge_rows(scores, answers, names=names, threshold=0.0, chances=True)


def _rows(table: AlignedTable, *, most: int | None = None) -> tuple[Array, Array]:
    encoder = table.schema.encoder("circle")
    features, labels, count = [], [], 0
    for block in table.blocks():
        features.append(encoder.encode(block))
        labels.append(np.asarray(block.label, dtype=np.float64))
        count += block.rows
        if most is not None and count >= most:
            break
    return np.concatenate(features), np.concatenate(labels)
