"""The table of methods: how a job, a learner and a comparison find them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from colonnade.data.declaring import nearest_name
from colonnade.data.documents import Document, Form, check
from colonnade.errors import JobError, OnlyForPublicData, PlanError, UnknownChoice
from colonnade.methods.baselines import method as method_baselines
from colonnade.methods.baselines.method import BASELINES
from colonnade.methods.encrypted import method as method_encrypted
from colonnade.methods.functional import method as method_functional
from colonnade.methods.local import method as method_local
from colonnade.methods.margin import method as method_margin
from colonnade.methods.margin.plan import refusal
from colonnade.methods.messages import method as method_messages
from colonnade.methods.method import AnyMethod, Method, TrainingResult
from colonnade.methods.moments import method as method_moments
from colonnade.methods.network import method as method_network
from colonnade.methods.one_shot import method as method_one_shot
from colonnade.methods.slr import method as method_slr
from colonnade.methods.spca import method as method_spca
from colonnade.protocols.plans import DEFAULT_GAMMA, Task, TrainingSpec

if TYPE_CHECKING:
    from colonnade.federation.federation import Federation
    from colonnade.runtime.party import Group

METHODS: Mapping[str, AnyMethod] = {
    method.name: method
    for method in (
        method_moments.METHOD,
        method_margin.METHOD,
        method_functional.METHOD,
        method_encrypted.METHOD,
        method_slr.METHOD,
        method_spca.METHOD,
        method_local.METHOD,
        method_messages.METHOD,
        method_one_shot.METHOD,
        method_network.METHOD,
        method_baselines.IDEAL,
        method_baselines.SINGLE,
        *BASELINES,
    )
}


def methods_for(task: Task) -> tuple[AnyMethod, ...]:
    return tuple(method for method in METHODS.values() if task in method.tasks)


def default_method(
    task: Task, group: Group, *, epsilon: float, delta: float | None = None, gamma: int = DEFAULT_GAMMA
) -> tuple[str, str]:
    """The method of a job that names none, and why; it looks at nothing but the job, so all come to the same."""
    if task != "classification":
        return "moments", f"one release of moments is what {task} needs"
    if gamma != DEFAULT_GAMMA:
        return "moments", f"gamma = {gamma} is the grid of a moment release"
    if why := refusal(group, epsilon=epsilon, delta=delta):
        return "moments", f"margin descent cannot be planned: {why}"
    return "margin", "it is the most accurate for classes; moments take one round and serve many models"


def method_named(name: str, task: Task, *, place: str = "method") -> AnyMethod:
    """The method of that name, or a `JobError` that names the nearest one which can do the task."""
    able = [method.name for method in methods_for(task)]
    if name not in able:
        what = "is not a method" if name not in METHODS else f"cannot do {task}"
        raise UnknownChoice(
            f"{place}: {name!r} {what}; for {task} take {', '.join(able)}.{nearest_name(name, able)}"
        )
    return METHODS[name]


def check_evaluated(method: AnyMethod, task: Task, *, place: str = "held_out") -> None:
    """Refuse to hold people out, before anything is run, for a model that could not be evaluated on them."""
    if not isinstance(method, Method):
        return  # a simulation, which is refused in its own words
    if task == "pca":
        raise PlanError(
            f"{place}: components predict nothing, so nothing can be evaluated. Nothing was run or charged. Leave "
            "held_out out."
        )
    if method.scores is None:
        able = [
            each.name
            for each in methods_for(task)
            if isinstance(each, Method) and each.scores == "released weights"
        ]
        raise PlanError(
            f"{place}: by method {method.name!r} a model's weights stay with their parties, and no guarantee "
            "covers scores by them. Nothing was run or charged. Leave held_out out, or take a method that releases "
            f"its model: {', '.join(able)}."
        )


def checked_options(method: AnyMethod, given: Mapping[str, Any], *, document: Document | None = None) -> Form:
    """A method's options in the shape of its form; what is wrong with them is told with file, line and field."""
    if document is None:
        return check(method.options, dict(given), name=f"options of method {method.name!r}")
    return check(method.options, dict(given), document=document, prefix=("options",))


def protocol_named(name: str, *, place: str = "method") -> Method:
    """The method of that name, if it has a protocol to plan and to run between parties; else a `JobError`."""
    method = METHODS[name]
    if not isinstance(method, Method):
        raise JobError(
            f"{place}: {name!r} is a simulation on public data, with no protocol to plan or to run between parties. "
            f"`colonnade compare JOB --methods {name}` shows what it does."
        )
    return method


def train_with(federation: Federation, name: str, spec: TrainingSpec) -> TrainingResult:
    """Train by the method of that name; a simulation only where every party declared its data public."""
    method = method_named(name, spec.task)
    if method.public_only and not federation.public:
        raise OnlyForPublicData(
            f"method {name!r} looks at everybody's rows in one place, and not every party declared its data public. "
            "Nothing was run or charged. Choose a method that keeps rows apart, or declare public what is public."
        )
    method.needs()
    return method.train(federation, spec)
