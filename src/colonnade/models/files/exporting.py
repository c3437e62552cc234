"""Which models may leave Colonnade: those whose weights were released, whole."""

from __future__ import annotations

from typing import Any

from colonnade.errors import ModelError
from colonnade.models.files.linear_file import KINDS, ModelFile, model_file

SPLIT = (
    "The weights of this model stay with their parties because what was promised covers the messages of the run, not "
    "the weights: put together and shown, they would say more about the people it was trained on. Train with a method "
    "that releases its model, such as 'moments'."
)


def exportable(model: Any) -> ModelFile:
    """A fitted linear model, or its file, as a file; a model in parts is refused, and why."""
    if isinstance(model, ModelFile):
        if model.party is not None:
            raise ModelError(f"this is {model.party}'s part of a model. {SPLIT}")
        return model
    if type(model).__name__ not in KINDS or not hasattr(model, "frame_"):
        fit = " that is not fitted" if type(model).__name__ in KINDS else ""
        raise ModelError(
            f"linear models can be exported: {', '.join(KINDS)}. This is a {type(model).__name__}{fit}."
        )
    if getattr(model, "split_", False):
        raise ModelError(SPLIT)
    run = model.run_.name if model.run_ is not None else ""
    if model.releases_:
        run = model.releases_[0].run
    # A classifier without a named method says which one it took.
    method: str = getattr(model, "method_", "") or getattr(model, "method", "intermediate")
    return model_file(model, method=method, run=run)
