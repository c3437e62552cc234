"""What every model here does alike: get one release, choose a rule from it, and say what it cost."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from colonnade.data.labels import Label, label_named
from colonnade.errors import ColonnadeError, InputError, LabelMismatch
from colonnade.federation.federation import Federation
from colonnade.methods.glm.losses import DEFAULT_LOSS, LOSSES
from colonnade.methods.method import LinearModel, TrainedModel, frame_of
from colonnade.methods.table import checked_options, method_named, train_with
from colonnade.models.discriminant import Discriminant, binary_rule, multiclass_rule, one_vs_rest_rule
from colonnade.models.estimator import at_least, begin_with, refuse_rows
from colonnade.models.inputs import InputSpec, units
from colonnade.models.release import MomentRelease
from colonnade.models.tables.margins import Margins, is_levelled
from colonnade.models.tables.matched import matched_rule
from colonnade.protocols.plans import Task, TrainingSpec


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
    source: MomentRelease | TrainedModel | ReleaseSource,
    *,
    task: Task,
    epsilon: float,
    delta: float,
    accepted_delta: float | None = None,
    method: str = "moments",
    options: Mapping[str, Any] | None = None,
    loss: str = "",
    label: str | None = None,
) -> MomentRelease | LinearModel:
    """The release given, at no cost; or what a method makes of a federation for (ε, δ).

    What would not be a linear model of this loss (empty: the task's) or label (None: the first) is refused before a
    run.
    """
    # Principal components are of features, whatever else there is to learn.
    labels = () if task == "pca" else declared_labels(source)
    if label is not None or len(labels) > 1:
        _check_label(task, label, labels)
    if isinstance(source, TrainedModel):
        return linear_of(source, task=task, loss=loss)
    if isinstance(source, MomentRelease):
        return source
    if not isinstance(source, ReleaseSource):
        refuse_rows(source, "a MomentRelease, or a federation that can make one")
    at_least("epsilon", epsilon, 0.0, strict=True)
    if not (isinstance(delta, int | float) and 0.0 < delta < 1.0):
        raise InputError(
            f"delta = {delta!r} is not between 0 and 1. Use less than one over the number of rows."
        )
    chosen = method_named(method, task)
    requested = checked_options(chosen, options or {})
    if chosen.trains != "linear":
        raise InputError(_instead(f"method = {method!r} trains a network.", task, chosen.trains))
    _check_loss(task, given=getattr(requested, "loss", None) or "", loss=loss)
    if isinstance(source, Federation):
        # Features are coded as the first label asks, whichever is learnt.
        coded: Task = labels[0].task if len(labels) > 1 else task
        result = train_with(
            source,
            method,
            TrainingSpec(coded, epsilon, delta=delta, accepted_delta=accepted_delta, options=requested),
        )
        return result if isinstance(result, MomentRelease) else linear_of(result, task=task, loss=loss)
    if method != "moments":
        raise InputError(f"method = {method!r} needs a Federation; {type(source).__name__} only has moments.")
    return source.moments(task=task, epsilon=epsilon, delta=delta)


def obtain_for(
    model: Any, source: MomentRelease | TrainedModel | ReleaseSource, task: Task, *, method: str
) -> MomentRelease | LinearModel:
    return obtain(
        source,
        task=task,
        epsilon=model.epsilon,
        delta=model.delta,
        accepted_delta=model.accepted_delta,
        method=method,
        options=model.options,
        label=getattr(model, "label", None),
    )


def declared_labels(source: object) -> tuple[Label, ...]:
    if isinstance(source, MomentRelease):
        return tuple(block.label for block in source.labels.blocks if block.label is not None)
    if isinstance(source, TrainedModel):
        return () if source.frame.label.label is None else (source.frame.label.label,)
    if isinstance(source, Federation):
        return tuple(label for table in source.tables.values() for label in table.schema.labels)
    return ()


def _check_label(task: Task, name: str | None, labels: tuple[Label, ...]) -> None:
    label = labels[0] if name is None else label_named(name, labels)
    if label.task != task:
        others = [repr(one.column) for one in labels if one.task == task]
        advice = f" Write label = {' or '.join(others)}." if others else ""
        raise LabelMismatch(
            f"label {label.column!r} is of kind {label.kind!r}, and this is a model for {task}.{advice}"
        )


def linear_of(model: TrainedModel, *, task: Task, loss: str = "") -> LinearModel:
    """A model that was learnt, if it is linear and of this loss; an `InputError` names the estimator for another."""
    if not isinstance(model, LinearModel):
        raise InputError(_instead("this model is a network.", task, "network"))
    _check_loss(task, given=model.loss, loss=loss)
    return model


def _check_loss(task: Task, *, given: str, loss: str) -> None:
    own = DEFAULT_LOSS.get(task, "")
    given, loss = given or own, loss or own
    if given != loss and LOSSES[given].estimator != LOSSES[loss].estimator:
        raise InputError(_instead(f"loss = {given!r} makes another kind of model.", task, given))


def _instead(reason: str, task: Task, trained: str) -> str:
    networks = {"classification": "NeuralClassifier", "regression": "NeuralRegressor"}
    name = LOSSES[trained].estimator if trained in LOSSES else networks[task]
    return f"{reason} Fit it with {name}."


def begin(model: Any, result: MomentRelease | TrainedModel) -> None:
    """Forget the last fit and keep what was found, with all labels, so that it is not lost if nothing is learned."""
    if isinstance(result, TrainedModel):
        begin_with(model, frame_of(result), result.privacy, run=result.run, split=result.split)
    else:
        view = result.for_label(getattr(model, "label", None))
        begin_with(model, frame_of(view), result.privacy, releases=(result,))


def fitted(model: Any, attribute: str) -> InputSpec:
    """How a fitted model reads people, or scikit-learn's `NotFittedError`."""
    if not hasattr(model, attribute):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"this {type(model).__name__} is not fitted. Call fit with a MomentRelease or a federation first."
        )
    frame: InputSpec = model.frame_
    return frame


Name = Literal["least-squares", "matched"]
RULES = ("auto", "least-squares", "matched")
MULTICLASS = ("discriminant", "one-vs-rest")
PAYS_FROM = 150.0
"""How many times stronger than its noise the difference of two classes must be.

Chosen on six sets of which no other figure here is (docs/tables.md): at 147 times and more the matched rule was
more accurate on each of them, at 87 and less on some and not on others. Credit default, at 137, lost a little.
"""


@dataclass(frozen=True)
class RuleChoice:
    name: Name
    reason: str


def solve(
    release: MomentRelease,
    requested: str = "auto",
    *,
    floor: float | None = None,
    ridge: float = 0.0,
    unbias: bool = True,
    multiclass: str = "discriminant",
) -> tuple[RuleChoice, Discriminant]:
    """Which rule is taken of a release and the scores it gives, with a `NoiseWarning` of classes that noise hides."""
    names = release.label.classes
    rule = choose_rule(release, requested, plain=floor is None and ridge == 0.0 and unbias)
    if rule.name == "matched":
        model = release.table_model()
        matched = matched_rule(model.margins, model.fit, ridge=ridge)
        # On features as a release has them.
        coefficients = matched.coefficients[None, :] * float(np.sqrt(release.attributes))
        return rule, Discriminant(coefficients, np.array([matched.intercept]))
    several = one_vs_rest_rule if multiclass == "one-vs-rest" else multiclass_rule
    scores = (binary_rule if len(names) == 2 else several)(
        release.class_moments(), floor=floor, ridge=ridge, unbias=unbias, names=names
    )
    if scores.faint:
        faint = ", ".join(repr(names[index]) for index in scores.faint)
        said = "its count does not stand out of the noise, so what is said of it is not to be trusted."
        if len(names) > 2:
            said = "it keeps its share of the rows and is hardly ever predicted."
        text = f"too few rows for this much noise to learn class {faint}: {said}"
        warnings.warn(text, NoiseWarning, stacklevel=3)
    return rule, scores


def choose_rule(release: MomentRelease, requested: str = "auto", *, plain: bool = True) -> RuleChoice:
    """The rule asked for, or the one expected to be better; `plain`: nothing is set that only least squares has."""
    obstacle = _obstacle(release)
    if requested == "matched":
        if obstacle:
            raise InputError(f"rule = 'matched' cannot be had: {obstacle} Use rule = 'least-squares'.")
        return RuleChoice("matched", "rule = 'matched' was asked for.")
    if requested == "least-squares":
        return RuleChoice("least-squares", "rule = 'least-squares' was asked for.")
    if not plain:
        own = "floor, ridge or unbias was set, which are its own."
        return RuleChoice("least-squares", f"Least squares: {own}")
    if obstacle:
        return RuleChoice("least-squares", f"Least squares: {obstacle}")
    try:
        strength = strength_of(release.margins())
    except ColonnadeError as error:
        return RuleChoice("least-squares", f"Least squares: {error}")
    sentence = f"the difference between the classes is {strength:.3g} times its noise"
    if strength < PAYS_FROM:
        return RuleChoice(
            "least-squares",
            f"Least squares: {sentence}, and moment matching is expected to pay from {PAYS_FROM:g} times on.",
        )
    return RuleChoice(
        "matched", f"Moment-matched logistic regression: {sentence}, and it pays from {PAYS_FROM:g} times on."
    )


def _obstacle(release: MomentRelease) -> str:
    if len(release.label.classes) != 2:
        return "the matched rule is for two classes."
    poor = [unit.name for unit in units(release.encoders) if not is_levelled(unit)]
    if poor:
        more = f" and {len(poor) - 1} more" if len(poor) > 1 else ""
        return f"the matched rule needs bins or categories, and {poor[0]}{more} are coded as numbers."
    return ""


def strength_of(margins: Margins) -> float:
    """‖Σ_{class 2} x/n − π Σ x/n‖² over what its noise alone would make it."""
    people, share = margins.people, float(margins.counts[1]) / margins.people
    difference = (margins.sums[1] - share * margins.sums.sum(axis=0)) / people
    noise = len(difference) * (margins.sum_noise / people) ** 2 * (share**2 + (1.0 - share) ** 2)
    return float(difference @ difference) / noise if noise else float("inf")
