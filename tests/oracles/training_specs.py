"""What is asked of a method in a test, in one line: which words are the job's and which the method's is known here."""

from dataclasses import fields
from typing import Any

from colonnade.methods.glm.losses import Penalty
from colonnade.protocols.plans import Options, Task, TrainingSpec

_OWN = {item.name for item in fields(TrainingSpec)} - {"options", "gamma"}


def requested(
    options: type[Options], task: Task = "classification", epsilon: float = 1.0, **given: Any
) -> TrainingSpec:
    """A spec with these options, taken as they are: what a form would refuse, a plan refuses too.

    γ is the method's own where it has one.
    """
    own = _OWN | ({"gamma"} - set(options.model_fields))
    spec = {name: value for name, value in given.items() if name in own}
    chosen = {name: value for name, value in given.items() if name not in own}
    if isinstance(penalty := chosen.get("penalty"), Penalty):
        chosen |= penalty_options(penalty)
    if unknown := set(chosen) - set(options.model_fields):
        raise TypeError(f"{options.__name__} has no {unknown}")
    return TrainingSpec(task, epsilon, options=options.model_construct(**chosen), **spec)


def penalty_options(penalty: Penalty) -> dict[str, Any]:
    """The options that stand for l1 and l2."""
    if penalty.l1 and penalty.l2:
        return {"penalty": "elastic_net", "strength": penalty.l1, "mix": penalty.l2 / penalty.l1}
    if penalty.l1:
        return {"penalty": "l1", "strength": penalty.l1}
    return {"penalty": "l2" if penalty.l2 else "none", "strength": penalty.l2}
