"""Every method of ours keeps the contract, and the suite catches those that do not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import functional_parties
import gradient_tables
import numpy as np
import pytest
from margin_runs import margin_plan
from plan_runs import ledgers_for, run_protocol
from training_specs import requested

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import BudgetExceeded, LedgerError
from colonnade.federation.federation import Federation
from colonnade.methods.functional.protocol import functional_mechanism
from colonnade.methods.margin.protocol import noisy_margin
from colonnade.methods.method import LinearModel, Method, NoiseSummary
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.moments.protocol import noisy_moments
from colonnade.methods.slr.protocol import noisy_gradient
from colonnade.methods.table import METHODS
from colonnade.protocols.plans import TrainingSpec
from colonnade.runtime.channel import MemoryChannel, step_kind
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


PAIR = ("bank", "insurer")


def moments_plan(tables: list[Table]) -> Any:
    spec = requested(MomentsOptions, "classification", 1.0, delta=1e-5)
    return spec.plan(functional_parties.group_of(tables), tuple(table.public() for table in tables), 30)


RELEASES: dict[str, tuple[Any, Callable[[list[Table]], Any]]] = {
    "moments": (noisy_moments, moments_plan),
    "functional": (functional_mechanism, functional_parties.plan_for),
    "slr": (noisy_gradient, lambda tables: gradient_tables.plan_for(tables, epochs=1, rate=1.0)),
    "margin": (noisy_margin, lambda tables: margin_plan(tables, steps=2)),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_refused_release_leaves_nothing_of_a_row_on_the_wire_and_is_not_charged(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol, planned = RELEASES[name]
    tables = functional_parties.tables_of(PAIR, 30)
    plan = planned(tables)
    ledgers = ledgers_for(plan.group) | {"bank": ledgers_for(plan.group, epsilon=0.5)["bank"]}
    steps: set[str] = set()
    send = MemoryChannel.send

    async def noted(self: Any, to: str, step: str, frame: bytes) -> None:
        steps.add(step_kind(step))
        await send(self, to, step, frame)

    monkeypatch.setattr(MemoryChannel, "send", noted)
    with pytest.raises(BudgetExceeded, match="bank"):
        run_protocol(protocol, plan, tables, ledgers=ledgers)
    assert "hello" in steps
    sent = {"columns", "noise", "moments", "objective", "batch key", "batch", "waves", "weights", "gradient"}
    assert not steps & sent
    assert [entry.kind for entry in ledgers["bank"].entries()] == ["opened", "budget", "compared"]


@pytest.mark.parametrize("name", RELEASES)
def test_all_of_a_release_is_one_charge_and_a_second_draw_under_it_is_refused(name: str) -> None:
    """Noise drawn again for a release that was charged would be a second release for the price of one."""
    protocol, planned = RELEASES[name]
    tables = functional_parties.tables_of(PAIR, 30)
    plan = planned(tables)
    ledgers = ledgers_for(plan.group)
    with pytest.raises(LedgerError, match="was charged before"):
        run_protocol(protocol, plan, tables, ledgers=ledgers, times=2)
    assert [entry.kind for entry in ledgers["bank"].entries()].count("charge") == 1


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
    for field in ("session", "model", "checks", "scores", "resumable", "pilots", "noise", "kernel"):
        with pytest.raises(TypeError, match=field):
            Method(**{key: value for key, value in said.items() if key != field})
