"""Class weights and the threshold of a classifier: choices about what was learnt, which open nothing more.

Weighing the people of a class by w multiplies its odds by w: log w is added to its score after training. Weighing
gradients would take as many times the noise as the largest weight, which any record could have (docs/models.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.data.declaring import nearest_name
from colonnade.data.documents import Document, Form
from colonnade.errors import InputError, LabelMismatch, OutOfRange, PlanError
from colonnade.evaluation.estimates import RULES, check_rule
from colonnade.protocols.plans import USUAL_THRESHOLD, ClassOptions

Array = NDArray[np.float64]
ClassWeight = Literal["balanced"] | Mapping[str, float] | None
BALANCED = "balanced"


def check_options(options: Form, document: Document, *, task: str, held_out: float | None) -> None:
    """Refuse what no classes could have, where a job asks for it, with the line it stands on."""
    if not isinstance(options, ClassOptions):
        return
    for name in sorted({"threshold", "class_weight"} & options.model_fields_set):
        place = document.where(("options", name))
        if task != "classification":
            raise OutOfRange(f"{place}: {name} is for classes, and the task is {task!r}. Take it out.")
        try:
            if name == "class_weight":
                check_weight(options.class_weight)
            elif isinstance(options.threshold, str):
                check_rule(options.threshold)
                if held_out is None:
                    raise InputError(
                        f"threshold = {options.threshold!r} is read from people held out, and none are. Write "
                        "held_out = 0.2 at the top of the job, or a probability here."
                    )
            elif not 0.0 < options.threshold < 1.0:
                raise InputError(
                    f"threshold = {options.threshold!r} is a probability between 0 and 1, or a rule: {RULES}."
                )
        except InputError as error:
            raise OutOfRange(f"{place}: {error}") from None


def check_weight(requested: object) -> None:
    if requested is None or requested == BALANCED:
        return
    if not isinstance(requested, Mapping):
        raise InputError(
            f"class_weight = {requested!r} is neither 'balanced' nor a weight for each class, such as "
            '{"no" = 1.0, "yes" = 5.0}.' + nearest_name(str(requested), [BALANCED])
        )
    for name, weight in requested.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise InputError(
                f"class_weight of {name!r}: found {weight!r}; a weight is a number greater than 0."
            )


def check_classes(options: Form, names: Sequence[str]) -> None:
    """Refuse, before anything is charged, options that do not fit the declared classes."""
    if isinstance(options, ClassOptions):
        check_fits(options.threshold, options.class_weight, names)


def check_fits(threshold: float | str, requested: object, names: Sequence[str]) -> None:
    """Refuse a threshold for more than two classes, and weights of classes that are not declared."""
    if threshold != USUAL_THRESHOLD and len(names) != 2:
        raise LabelMismatch(
            f"threshold = {threshold!r} is for two classes; this label has {len(names)}. Leave it at 0.5."
        )
    if isinstance(requested, Mapping):
        unknown = [str(name) for name in requested if str(name) not in names]
        if unknown:
            raise LabelMismatch(
                f"class_weight names {unknown[0]!r}, which is not a declared class; those are {', '.join(names)}."
                + nearest_name(unknown[0], list(names))
            )


def weights_of(requested: ClassWeight, names: Sequence[str], counts: Array | None) -> dict[str, float]:
    """The weight of every class, 1 if it is not named; `counts` are noisy sizes, None where none were opened."""
    if requested is None:
        return dict.fromkeys(names, 1.0)
    if isinstance(requested, Mapping):
        given = {str(name): float(weight) for name, weight in requested.items()}
        return {name: given.get(name, 1.0) for name in names}
    if counts is None:
        raise PlanError(
            "class_weight = 'balanced' needs the sizes of the classes, which this method does not open. Give a weight "
            "for each class, or train by margin or moments."
        )
    balanced = counts.sum() / (len(names) * counts)
    return dict(zip(names, balanced.tolist(), strict=True))


def weighed(intercepts: Array, weights: Mapping[str, float]) -> Array:
    """Intercepts of log-odds, one for two classes and one for each of more, of people weighed so."""
    logarithms = np.log(np.array(list(weights.values())))
    return np.asarray(intercepts + (logarithms[1:] - logarithms[0] if len(intercepts) == 1 else logarithms))


def weights_text(weights: Mapping[str, float], *, counted: bool) -> str:
    said = ", ".join(f"{name} {weight:.3g}" for name, weight in weights.items())
    whence = ", from noisy counts of the people trained on" if counted else ""
    return f"Class weights: {said}{whence}. Probabilities are those of people weighed so, not of people as they are."


def of_job(options: Any) -> dict[str, Any]:
    """What a classifier is made with; a rule for the threshold is read later, when there is something to read from."""
    if not isinstance(options, ClassOptions):
        return {}
    threshold = USUAL_THRESHOLD if isinstance(options.threshold, str) else options.threshold
    return {"threshold": threshold, "class_weight": options.class_weight}


def rule_of(options: Form) -> str | None:
    """The rule by which a job has its threshold read from the people held out, if it does."""
    threshold = options.threshold if isinstance(options, ClassOptions) else USUAL_THRESHOLD
    return threshold if isinstance(threshold, str) else None
