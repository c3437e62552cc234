"""Every method of ours keeps the contract, and the suite catches those that do not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.federation.federation import Federation
from colonnade.methods.method import LinearModel, Method, NoiseSummary
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.table import METHODS
from colonnade.protocols.plans import TrainingSpec
from colonnade.testing import ConformanceError, check_method

PROTOCOLS = {name: method for name, method in METHODS.items() if isinstance(method, Method)}
OPTIONS: dict[str, dict[str, Any]] = {
    "encrypted": {"epochs": 1},
    "network": {"embedding": 2, "epochs": 2},
    "slr": {"epochs": 2, "rate": 1.0},
    "margin": {"steps": 2},
    "intermediate": {"epochs": 2},
}


def source(budget: tuple[float, float]) -> Federation:
    drawn = np.random.default_rng(4)
    people = {party: drawn.uniform(0, 9, 60) for party in ("bank", "shop")}
    buys = np.where(people["bank"] > 4, "yes", "no")
    label = 'label = {column = "buys", kind = "classes", classes = ["no", "yes"]}'
    tables = []
    for party, values in people.items():
        declared = f'id = "n"\ncolumns.{party} = {{kind = "numeric", low = 0, high = 9}}\n'
        columns = {party: values, **({"buys": buys} if party == "bank" else {})}
        tables.append(
            Table.from_arrays(party, columns, Schema.parse(declared + (label if party == "bank" else "")))
        )
    return Federation(tables, budget=budget, noise_seed=3)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_method_of_ours_keeps_the_contract(name: str) -> None:
    if name == "network":
        pytest.importorskip("torch")
    check_method(PROTOCOLS[name], source, options=OPTIONS.get(name))


def elsewhere(requested: Any, results: Any) -> Any:
    """A model that differs where only one member is."""
    found = PROTOCOLS["local"].model(requested, results)
    if len(results) == 1 and isinstance(found, LinearModel):
        return replace(found, coefficients=found.coefficients + 1e-12)
    return found


def everything(requested: Any, results: Any) -> Any:
    """A part that is larger than its party's own."""
    found = PROTOCOLS["intermediate"].model(requested, results)
    if len(results) == 1 and isinstance(found, LinearModel):
        return replace(found, coefficients=np.concatenate([found.coefficients, found.coefficients], axis=1))
    return found


class Forgetful(MomentsOptions):
    """It plans for one ε whatever was asked, and what was asked is lost."""

    def plan(self, spec: TrainingSpec, *where: Any) -> MomentsPlan:
        return super().plan(replace(spec, epsilon=8.0), *where)


class Wavering(MomentsOptions):
    """No two plans of it are the same."""

    def plan(self, spec: TrainingSpec, *where: Any) -> MomentsPlan:
        made = super().plan(spec, *where)
        DRAWN.append(made)
        return replace(made, mu=made.mu + len(DRAWN))


class Unseen(MomentsOptions):
    """Nobody is said to see anything of its plans."""

    def plan(self, spec: TrainingSpec, *where: Any) -> MomentsPlan:
        plan = super().plan(spec, *where)
        plan.__dict__.update(views=())
        return plan


DRAWN: list[MomentsPlan] = []


@pytest.mark.parametrize(
    ("name", "change", "law"),
    [
        ("local", {"model": elsewhere}, "a site has its part"),
        ("intermediate", {"model": everything}, "a site has its part"),
        ("moments", {"options": Unseen}, "every observer's view is priced"),
        ("moments", {"pilots": lambda plan: ()}, "pilot runs add up"),
        ("moments", {"noise": lambda plan: NoiseSummary(0.0, "nothing")}, "noise is said in numbers"),
        ("moments", {"tasks": ("clustering",)}, "it has a name, tasks"),
        ("moments", {"options": Forgetful}, "a plan is the same wherever it is made"),
        ("moments", {"options": Wavering}, "a plan is the same wherever it is made"),
    ],
)
def test_a_method_that_breaks_the_contract_is_caught_by_the_name_of_the_law(
    name: str, change: dict[str, Any], law: str
) -> None:
    with pytest.raises(ConformanceError, match=law):
        check_method(replace(PROTOCOLS[name], **change), source, options=OPTIONS.get(name))


def test_a_method_that_forgets_something_cannot_be_made() -> None:
    said = {
        field: getattr(PROTOCOLS["moments"], field) for field in PROTOCOLS["moments"].__dataclass_fields__
    }
    for field in (
        "session",
        "model",
        "checks",
        "scores",
        "resumable",
        "pilots",
        "noise",
        "kernel",
    ):
        with pytest.raises(TypeError, match=field):
            Method(**{key: value for key, value in said.items() if key != field})
