"""What every method owes: a plan that is compared and priced, and the same model wherever it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, get_args

import numpy as np

from colonnade.errors import BudgetExceeded
from colonnade.federation.federation import Federation, Run
from colonnade.methods.method import Kernel, LinearModel, Method, TrainedModel, TrainingResult
from colonnade.methods.network.network_file import NetworkModel
from colonnade.methods.table import checked_options
from colonnade.models.release import MomentRelease
from colonnade.protocols.plans import Task, TrainingSpec
from colonnade.testing.laws import expect, expect_refusal, hold

Law: TypeAlias = Callable[["_Case"], None]
_SUM = 1e-6


@dataclass(frozen=True, eq=False)
class _Case:
    method: Method
    source: Callable[[tuple[float, float]], Federation]
    task: Task
    epsilon: float
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def requested(self) -> TrainingSpec:
        return TrainingSpec(self.task, self.epsilon, options=checked_options(self.method, self.options))

    @cached_property
    def run(self) -> Run[Any]:
        federation = self.source((1e9, 0.5))
        spec = replace(self.requested, alignment=federation.alignment)
        return federation.run(self.method.session(spec), spec)

    @cached_property
    def whole(self) -> TrainingResult:
        result = self.method.model(self.requested, self.run.outcome.results)
        expect(result is not None, "something that was learnt", "nothing")
        return result  # type: ignore[return-value]

    def at(self, member: str) -> TrainingResult | None:
        return self.method.model(self.requested, {member: self.run.outcome.results[member]})


def check_method(
    method: Method,
    source: Callable[[tuple[float, float]], Federation],
    *,
    epsilon: float = 2.0,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Hold a method to its contract, with the first of its tasks and these options.

    `source(budget)` is a fresh federation whose parties grant every observer that (ε, δ), of people with a label for
    the task; nothing of it is run but what the laws run.
    """
    case = _Case(method, source, method.tasks[0], epsilon, dict(options or {}))
    hold(LAWS, case)


def _is_named(case: _Case) -> None:
    method = case.method
    expect(bool(method.name) and bool(method.title), "a name and a title", (method.name, method.title))
    known = bool(method.tasks) and set(method.tasks) <= set(get_args(Task))
    expect(known, "tasks that there are", method.tasks)
    expect(method.kernel in get_args(Kernel), f"one of {get_args(Kernel)}", method.kernel)


def _is_compared(case: _Case) -> None:
    plan = case.run.plan
    where = (plan.group, plan.schemas, plan.rows)
    again = plan.spec.planned(*where)
    expect(again.hash == plan.hash, "the same plan wherever it is made", "two that differ")
    more = replace(plan.spec, epsilon=2 * case.epsilon).planned(*where)
    expect(more.hash != plan.hash, "another plan for another ε", "the same, so that parties would not notice")


def _is_priced(case: _Case) -> None:
    plan = case.run.plan
    expect(bool(plan.views), "a view for each observer", "none")
    expect(len(plan.guarantees) == len(plan.views), "a guarantee for each view", len(plan.guarantees))
    for owner in plan.group.owners:
        release = plan.release(owner, run="a run", reproducible=False)
        stranger = plan.release(owner, run="another run", reproducible=False)
        expect(release.id != stranger.id, "a release of another run under another id", release.id)
    charged = [plan.release(owner, run="a run", reproducible=False) for owner in plan.group.owners]
    expect(any(release.lines for release in charged), "lines in somebody's ledger", "none in any")


def _charges_first(case: _Case) -> None:
    poor = case.source((1e-9, 1e-12))
    expect_refusal(
        lambda: case.method.train(poor, case.requested), BudgetExceeded, "a run that no budget allows"
    )
    for owner in poor.group.owners:
        kinds = {entry.kind for entry in poor.ledgers[owner].entries()}
        expect("charge" not in kinds, f"nothing charged to {owner}", "a charge")


def _is_the_same_everywhere(case: _Case) -> None:
    whole, plan = case.whole, case.run.plan
    members = {member: case.at(member) for member in plan.group.members}
    if isinstance(whole, TrainedModel) and whole.split:
        _parts_are_the_whole(whole, members, plan.group.owners)
        return
    having = {member: result for member, result in members.items() if result is not None}
    for member, result in having.items():
        expect(_same(result, whole), f"{member} to have what all have", "something else")
    expect(bool(having), "somebody to have what was released", "nobody")


def _parts_are_the_whole(
    whole: TrainedModel, members: Mapping[str, TrainingResult | None], owners: tuple[str, ...]
) -> None:
    for member, model in members.items():
        split = isinstance(model, TrainedModel) and model.split
        expect(split, f"{member}'s part of a model in parts", type(model))
        alike = isinstance(model, TrainedModel) and model.notes == whole.notes
        expect(alike, "the same notes at everybody", member)
    if isinstance(whole, NetworkModel):
        for member, model in members.items():
            here = set(model.network.locals) if isinstance(model, NetworkModel) else set()
            expect(here <= {member}, f"no network but {member}'s own at {member}", sorted(here))
        return
    if not isinstance(whole, LinearModel):
        return
    if whole.holder is not None:
        for member, model in members.items():
            size = model.coefficients.size if isinstance(model, LinearModel) else 0
            expected = whole.coefficients.size if member == whole.holder else 0
            expect(size == expected, f"{expected} weights at {member}", size)
        return
    parts = [members[owner] for owner in owners]
    alongside = np.concatenate([part.coefficients for part in parts if isinstance(part, LinearModel)], axis=1)
    expect(np.array_equal(alongside, whole.coefficients), "parts that are the whole, side by side", "others")
    intercepts = sum(part.intercepts for part in parts if isinstance(part, LinearModel))
    expect(np.array_equal(intercepts, whole.intercepts), "one party's intercept", "another")


def _same(one: TrainingResult, other: TrainingResult) -> bool:
    if isinstance(one, MomentRelease) and isinstance(other, MomentRelease):
        return np.array_equal(one.matrix, other.matrix) and one.guarantees == other.guarantees
    if isinstance(one, LinearModel) and isinstance(other, LinearModel):
        alike = np.array_equal(one.coefficients, other.coefficients) and one.notes == other.notes
        return alike and np.array_equal(one.intercepts, other.intercepts)
    return type(one) is type(other)


def _has_pilots(case: _Case) -> None:
    plan = case.run.plan
    pilots = case.method.pilots(plan)
    expect(bool(pilots), "at least one pilot run", "none")
    total = sum(pilot.weight for pilot in pilots)
    expect(abs(total - 1.0) < _SUM, "weights that sum to 1", total)
    for pilot in pilots:
        expect(pilot.plan.views == plan.views, "a pilot that charges what the plan charges", "another")
        expect(pilot.plan.rows <= plan.rows, "a pilot of no more people", pilot.plan.rows)


def _says_its_noise(case: _Case) -> None:
    noise = case.method.noise(case.run.plan)
    said = noise is not None and noise.deviation > 0 and bool(noise.on)
    expect(said or not case.run.plan.guarantees, "noise above 0 on something", noise)


LAWS: Mapping[str, Law] = {
    "it has a name, tasks and a kernel": _is_named,
    "a plan is the same wherever it is made, and another for another ε": _is_compared,
    "every observer's view is priced": _is_priced,
    "nothing is charged for what no budget allows": _charges_first,
    "a site has its part of what one process has": _is_the_same_everywhere,
    "pilot runs add up to the plan": _has_pilots,
    "noise is said in numbers": _says_its_noise,
}
