"""What the label holder's own columns alone would have, on the people that a shared model was judged on.

Exact figures of private people: they are for the label holder, who holds everything that they are made of, and stand on
its own page alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.aligned import AlignedTable
from colonnade.data.targets import ClassLabel
from colonnade.errors import ModelError
from colonnade.learn.classes_judged import ClassesJudged, judge_class_rows
from colonnade.learn.evaluating import Judged
from colonnade.learn.federation import Run
from colonnade.learn.judgement import Judgement, judge_rows

Array = NDArray[np.float64]
MOST = 50_000
"""So many people are enough to learn a linear model of one party's columns from."""


def judged_alone(run: Run[Any], judged: Judged) -> Judgement | ClassesJudged | None:
    """Logistic regression on the label holder's own columns, without noise; None where the label holder is not here."""
    holder = run.plan.group.active
    if holder not in run.aligned or holder not in judged.run.aligned:
        return None
    label = run.aligned[holder].schema.label
    if not isinstance(label, ClassLabel):
        return None
    # Heavy, and needed by nobody else who reads a run.
    from sklearn.linear_model import LogisticRegression

    rows, classes = _rows(run.aligned[holder], most=MOST)
    if len(np.unique(classes)) < len(label.classes):
        return None
    model = LogisticRegression(max_iter=500).fit(rows, classes)
    others, truth = _rows(judged.run.aligned[holder])
    scores = np.asarray(model.decision_function(others))
    try:
        if len(label.classes) > 2:
            chances = np.asarray(model.predict_proba(others))
            return judge_class_rows(scores, truth, names=tuple(label.classes), chances=chances)
        names = (label.classes[0], label.classes[1])
        return judge_rows(scores, truth, names=names, threshold=0.0, chances=True)
    except ModelError:
        return None


def _rows(table: AlignedTable, *, most: int | None = None) -> tuple[Array, NDArray[np.int64]]:
    encoder = table.schema.encoder("circle")
    features, labels, found = [], [], 0
    for block in table.blocks():
        features.append(encoder.encode(block))
        labels.append(np.asarray(block.label, dtype=np.int64))
        found += block.rows
        if most is not None and found >= most:
            break
    return np.concatenate(features), np.concatenate(labels)
