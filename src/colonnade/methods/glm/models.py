"""Weights on clipped rows as models of features."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from colonnade.data.labels import Label, LabelBlock
from colonnade.methods.glm.interfaces import Loss
from colonnade.methods.glm.losses import Gamma
from colonnade.methods.glm.rows import CONSTANT, ClippedRows
from colonnade.methods.method import LOG_LINK, LinearModel, in_label_units
from colonnade.models.input_spec import InputSpec
from colonnade.models.privacy import Privacy

Array = NDArray[np.float64]
LOG_NOTE = "Coefficients and intercept give the logarithm of the expected label: the link is log."


def linear_model(
    rows: ClippedRows,
    loss: Loss,
    label: Label,
    weights: Mapping[str, Array],
    *,
    privacy: Privacy,
    notes: tuple[str, ...],
    split: bool = True,
) -> LinearModel:
    """The model of weights on clipped rows, as coefficients on features.

    They follow from the weights and the public plan alone. A row that clipping leaves as it is has the score that it
    had in training; a longer one has a longer score, because what clipping took is the owner's to know
    (docs/private-messages.md). `weights` are of those owners who are here; the intercept is the active party's, and 0
    without it. The scores are log-odds or margins for classes, the label's own units for least squares, logarithms of
    the mean for log links.
    """
    here = {owner: encoder for owner, encoder in rows.encoders.items() if owner in weights}
    frame = InputSpec(tuple(here.items()), LabelBlock(label), rows.attributes)
    parts = [weights[owner][: len(weights[owner]) - (owner == rows.active)] for owner in here]
    # Features of a frame are divided by √m, clipped rows are also stretched and divided by √2.
    scale = rows.scale * math.sqrt(rows.attributes)
    coefficients = np.concatenate([np.zeros(0), *parts])[None, :] * scale
    here_too = rows.active in weights
    intercepts = weights[rows.active][-1:] * CONSTANT if here_too else np.zeros(1)
    if loss.name == "least_squares":
        coefficients, units = in_label_units(frame.label, coefficients, intercepts)
        intercepts = units if here_too else intercepts
    elif isinstance(loss, Gamma) and here_too:
        intercepts = intercepts + math.log(loss.unit(label))
    if loss.name in LOG_LINK:
        notes = (*notes, LOG_NOTE)
    return LinearModel(
        coefficients, intercepts, loss.name, frame=frame, privacy=privacy, split=split, notes=notes
    )
