"""What every model here does alike: get one release, and say what it cost."""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.exceptions import NotFittedError

from colonnade.errors import InputError
from colonnade.learn.release import MomentRelease
from colonnade.protocols.plans import Task


class NoiseWarning(UserWarning):
    """More was asked of a release than its noise lets it say."""


@runtime_checkable
class ReleaseSource(Protocol):
    """Whoever can make a release for a price: a federation of parties, or a stand-in for one in a study."""

    def moments(self, *, task: Task, epsilon: float, delta: float) -> MomentRelease:
        """Run the protocol once and charge every ledger; ε and δ are for the server and for readers."""
        ...


@runtime_checkable
class CountsFeatures(Protocol):
    """A source that can tell how many features its releases will have, before one is paid for."""

    def features(self, task: Task) -> int:
        """How many features the encoded columns of all parties make."""
        ...


def obtain(
    source: MomentRelease | ReleaseSource, *, task: Task, epsilon: float, delta: float
) -> MomentRelease:
    """The release to fit from: the one given, at no cost, or one that the source makes for (ε, δ)."""
    if isinstance(source, MomentRelease):
        return source
    if not isinstance(source, ReleaseSource):
        raise TypeError(
            f"fit takes a MomentRelease, or a federation that can make one, not {type(source).__name__}. "
            "Rows are never given to a model: they stay with the parties."
        )
    at_least("epsilon", epsilon, 0.0, strict=True)
    if not (isinstance(delta, int | float) and 0.0 < delta < 1.0):
        raise InputError(
            f"delta = {delta!r} is not between 0 and 1. Use less than one over the number of rows."
        )
    return source.moments(task=task, epsilon=epsilon, delta=delta)


def at_least(name: str, value: Any, least: float, *, strict: bool = False) -> None:
    """Raise an `InputError` unless a parameter is a finite number from `least` up.

    >>> at_least("ridge", 0.5, 0.0)
    """
    number = (
        isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)
    )
    if not number or value < least or (strict and value == least):
        raise InputError(
            f"{name} = {value!r} is not a finite number {'above' if strict else 'from'} {least:g}."
        )


def begin(model: Any, release: MomentRelease) -> None:
    """Forget the last fit and keep the release, so that it is not lost if nothing can be learned from it."""
    for name in [name for name in vars(model) if name.endswith("_") and not name.endswith("__")]:
        delattr(model, name)
    model.releases_ = (release,)
    model.privacy_ = release.privacy
    model.n_features_in_ = release.columns
    model.feature_names_in_ = np.array(release.feature_names, dtype=object)
    model.columns_in_ = release.column_names


def fitted(model: Any, attribute: str) -> MomentRelease:
    """The release a model was fitted from, or scikit-learn's `NotFittedError`."""
    if not hasattr(model, attribute):
        raise NotFittedError(
            f"this {type(model).__name__} is not fitted. Call fit with a MomentRelease or a federation first."
        )
    release: MomentRelease = model.releases_[-1]
    return release
