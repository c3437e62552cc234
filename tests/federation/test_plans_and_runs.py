"""What a plan accepts its run accepts too, for every method, label and loss; and every observer is read again."""

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
from typed import there

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, CountLabel, Label, RealLabel
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import ColonnadeError, LabelMismatch, PlanError
from colonnade.federation.federation import Federation
from colonnade.federation.job import Job
from colonnade.federation.train import result_for
from colonnade.methods.glm.losses import LOSSES
from colonnade.methods.method import Method
from colonnade.methods.table import METHODS
from colonnade.planning.recommend import plan_job
from colonnade.privacy.observers import parse_observer
from colonnade.protocols.evaluation import EvaluationSpec
from colonnade.protocols.joint_scores import ScoresSpec
from colonnade.protocols.plans import Plan, Spec
from colonnade.runtime.party import Group

OWNERS = ("bank", "shop", "clinic", "school", "port")
ROWS = 40
PROTOCOLS = {name: method for name, method in METHODS.items() if isinstance(method, Method)}
SHORT: dict[str, dict[str, Any]] = {
    "encrypted": {"epochs": 1},
    "network": {"embedding": 2, "epochs": 1},
    "slr": {"epochs": 1, "rate": 1.0},
    "margin": {"steps": 1},
    "private-messages": {"epochs": 1},
}
LABELS: dict[str, Label | None] = {
    "none": None,
    "two classes": ClassLabel("y", ("no", "yes")),
    "three classes": ClassLabel("y", ("no", "maybe", "yes")),
    "numbers from 0": RealLabel("y", low=0, high=4),
    "numbers above 0": RealLabel("y", low=1, high=4),
    "numbers below 0": RealLabel("y", low=-4, high=4),
    "counts from 0": CountLabel("y", low=0, high=4),
    "counts from 1": CountLabel("y", low=1, high=4),
}


def values_of(label: Label) -> Any:
    place = np.arange(ROWS)
    if isinstance(label, ClassLabel):
        return np.array(label.classes)[place % len(label.classes)]
    low, high = there(label.bounds)
    return np.array([low, 2, high])[place % 3]


def tables(owners: tuple[str, ...], label: Label | None) -> list[Table]:
    """A column of numbers at each owner, and the label with the first."""
    made = []
    for number, owner in enumerate(owners):
        own = label if not number else None
        arrays: dict[str, Any] = {f"of_{owner}": (np.arange(ROWS) * (number + 3)) % 10}
        if own is not None:
            arrays[own.column] = values_of(own)
        schema = Schema("id", (NumericColumn(f"of_{owner}", low=0, high=9),), own)
        made.append(Table.from_arrays(owner, arrays, schema))
    return made


def job_of(method: str, task: str, options: dict[str, Any], owners: tuple[str, ...] = OWNERS[:2]) -> Job:
    active = "" if task == "pca" else f'active = "{owners[0]}"\n'
    chosen = "".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items())
    return Job.parse(
        f'name = "n"\ntask = "{task}"\nmethod = "{method}"\nparties = {json.dumps(owners)}\n{active}epsilon = 4.0\n'
        f"delta = 1e-5\n[options]\n{chosen}"
    )


def asked_for() -> list[Any]:
    """Every method with each of its tasks and each of its losses; the default first."""
    listed = []
    for name, method in PROTOCOLS.items():
        losses = [None, *LOSSES] if "loss" in method.options.model_fields else [None]
        for task, loss in product(method.tasks, losses):
            options = {**SHORT.get(name, {}), **({} if loss is None else {"loss": loss})}
            listed.append(pytest.param(name, task, options, id="-".join(filter(None, (name, task, loss)))))
    return listed


def accepted(job: Job, made: list[Table]) -> bool:
    try:
        plan_job(job, {table.party: table.public() for table in made}, rows=ROWS)
    except PlanError:
        return False
    return True


@pytest.mark.parametrize(("method", "task", "options"), asked_for())
def test_what_a_plan_accepts_its_run_accepts(method: str, task: str, options: dict[str, Any]) -> None:
    """On people and labels that are as declared: whatever is refused then could have been foreseen."""
    if method == "network":
        pytest.importorskip("torch")
    try:
        job = job_of(method, task, options)
    except ColonnadeError:
        return  # no job says so
    for label, declared in LABELS.items():
        # Without a loss of its own a method tells numbers from counts and classes, and not their bounds.
        if "loss" not in options and label in ("numbers from 0", "numbers above 0", "counts from 1"):
            continue
        made = tables(job.parties, declared)
        if accepted(job, made):
            assert result_for(job, Federation(made, budget=(900.0, 1e-5), noise_seed=1)), label


@pytest.mark.parametrize(
    ("task", "label", "options"),
    [
        ("classification", "three classes", {}),
        ("classification", "three classes", {"loss": "svm"}),
        ("regression", "numbers from 0", {"loss": "gamma"}),
        ("regression", "numbers below 0", {"loss": "poisson"}),
    ],
)
def test_one_shot_refuses_labels_of_another_loss(task: str, label: str, options: dict[str, Any]) -> None:
    made = tables(OWNERS[:2], LABELS[label])
    with pytest.raises(LabelMismatch):
        plan_job(
            job_of("one-shot", task, options), {table.party: table.public() for table in made}, rows=ROWS
        )


def read_again(plan: Plan) -> None:
    stated = {view.observer for view in plan.views} | {item.observer for item in plan.guarantees}
    assert stated
    for observer in stated:
        assert parse_observer(observer.name) == observer


@pytest.mark.parametrize("owners", [2, 5])
@pytest.mark.parametrize("method", PROTOCOLS)
def test_every_observer_that_a_plan_states_comes_back_from_its_name(method: str, owners: int) -> None:
    for task in PROTOCOLS[method].tasks:
        label = {"pca": "none", "classification": "two classes", "regression": "numbers above 0"}[task]
        made = tables(OWNERS[:owners], LABELS[label])
        job = job_of(method, task, SHORT.get(method, {}), OWNERS[:owners])
        read_again(plan_job(job, {table.party: table.public() for table in made}, rows=1000))


@pytest.mark.parametrize("owners", [2, 3, 5])
def test_every_observer_of_scores_and_judgements_comes_back_from_its_name(owners: int) -> None:
    made = tables(OWNERS[:owners], LABELS["two classes"])
    group, schemas = Group.of(OWNERS[:owners], active="bank"), tuple(table.public() for table in made)
    requests: tuple[Spec, ...] = (
        EvaluationSpec("5f0c", ((1.0,) * owners,), epsilon=1.0),
        ScoresSpec(receiver="bank", width=1, bound=4.0, weights="released", epsilon=1.0),
    )
    for request in requests:
        read_again(request.plan(group, schemas, 1000))
