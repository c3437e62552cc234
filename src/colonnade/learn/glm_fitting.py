"""What models that are trained by messages only do alike: run the protocol once, keep what it said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colonnade.data.documents import check
from colonnade.errors import InputError
from colonnade.learn.federation import Federation
from colonnade.learn.fitting import begin, linear_of
from colonnade.learn.losses import LOSSES
from colonnade.learn.method import Asked, Learnt, LearntLinear
from colonnade.learn.method_intermediate import METHOD, IntermediateOptions
from colonnade.learn.parameters import at_least


def fit_by_messages(
    model: Any,
    source: Federation | Learnt,
    *,
    loss: str,
    epsilon: float,
    delta: float | None,
    options: Mapping[str, Any] | None,
) -> None:
    """Train by private intermediate results, or take a model that is there; set what scikit-learn expects.

    The weights stay with their parties in a real federation; here, where all parties are in one process, `coef_`
    holds them beside each other.
    """
    task = LOSSES[loss].task
    if isinstance(source, Learnt):
        _set(model, linear_of(source, task=task, loss=loss))
        return
    if not isinstance(source, Federation):
        raise TypeError(
            f"fit takes a Federation, not {type(source).__name__}: this model is trained by messages between parties. "
            "Rows are never given to a model."
        )
    at_least("epsilon", epsilon, 0.0, strict=True)
    given = dict(options or {})
    if "loss" in given:
        raise InputError(f"options: loss = {given['loss']!r}, but {type(model).__name__} has its own loss.")
    form = check(IntermediateOptions, {**given, "loss": loss}, name=f"options of {type(model).__name__}")
    found = METHOD.train(source, Asked(task, epsilon, delta, options=form))
    if isinstance(found, Learnt):
        _set(model, linear_of(found, task=task, loss=loss))


def _set(model: Any, learnt: LearntLinear) -> None:
    begin(model, learnt)
    model.coef_ = learnt.coefficients[0]
    model.intercept_ = float(learnt.intercepts[0])
    model.notes_ = learnt.notes
