"""Judge a model on rows that everybody may look at: exact, and nothing is charged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.special import logit

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import PlanError
from colonnade.models.files.linear_file import ModelFile
from colonnade.scoring.classes_judged import ClassesJudged, judge_class_rows
from colonnade.scoring.judgement import Judgement, judge_rows
from colonnade.scoring.numbers_judged import NumbersJudged, judge_numbers
from colonnade.scoring.score import Saved, features_of


def judge_file(
    model: Saved, path: Path, *, id_columns: tuple[str, ...], label: str
) -> Judgement | ClassesJudged | NumbersJudged:
    """The judgement of a model on the rows of one file, which has every column of the model and the label."""
    declared = model.frame.label.label
    if declared is None:
        raise PlanError("the model predicts nothing: principal components have no label to be judged by.")
    columns = [
        replace(column, name=name)
        for name, column in zip(
            model.frame.column_names,
            (column for _, encoder in model.frame.encoders for column in encoder.columns),
            strict=True,
        )
    ]
    table = Table("rows", path, Schema(id_columns, tuple(columns), label=replace(declared, column=label)))
    table.check()
    scores, truth = [], []
    for block in table.blocks():
        features = features_of(block, model.frame)
        if isinstance(model, ModelFile):
            scores.append(model.scores(features @ model.weights.T))
        else:
            scores.append(model.network().scores(features))
        truth.append(np.asarray(block.label))
    given, labels = np.concatenate(scores), np.concatenate(truth)
    if not declared.classes:
        said = model.reading.values(given) if isinstance(model, ModelFile) else given
        return judge_numbers(said[:, 0], labels.astype(np.float64), label=label)
    classes = labels.astype(np.int64)
    if given.shape[1] > 1:
        chances = model.reading.answer == "probabilities"
        return judge_class_rows(given, classes, names=tuple(declared.classes), chances=chances)
    return judge_rows(
        given[:, 0],
        classes,
        names=(declared.classes[0], declared.classes[1]),
        threshold=threshold_of_model(model),
        chances=model.reading.answer == "probabilities",
    )


def threshold_of_model(model: Saved) -> float:
    """The score above which a model of two classes says the second."""
    return float(logit(model.threshold)) if isinstance(model, ModelFile) else 0.0
