"""Every method keeps the contract, options have one name, and class weights are refused before a charge."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import functional_parties
import gradient_tables
import numpy as np
import pytest
from gradient_tables import tables_of
from margin_runs import margin_plan
from plan_runs import ledgers_for, run_protocol
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression as Exact
from training_specs import requested

from colonnade import Federation, LogisticRegression, Schema, Table
from colonnade.errors import BudgetExceeded, InputError, LabelMismatch, LedgerError, PlanError
from colonnade.federation.job import Job
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.methods.functional.protocol import functional_mechanism
from colonnade.methods.margin.plan import MarginOptions
from colonnade.methods.margin.protocol import noisy_margin
from colonnade.methods.messages.plan import PrivateMessagesOptions
from colonnade.methods.method import LinearModel, Method, NoiseSummary
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.moments.protocol import noisy_moments
from colonnade.methods.slr.plan import SlrOptions
from colonnade.methods.slr.protocol import noisy_gradient
from colonnade.methods.table import METHODS, train_with
from colonnade.models.class_weights import weighed, weights_of
from colonnade.protocols.plans import Options, TrainingSpec
from colonnade.runtime.channel import MemoryChannel, step_kind
from colonnade.runtime.party import Group
from colonnade.testing import ConformanceError, check_method

PROTOCOLS = {name: method for name, method in METHODS.items() if isinstance(method, Method)}
OPTIONS: dict[str, dict[str, Any]] = {
    "encrypted": {"epochs": 1},
    "network": {"embedding": 2, "epochs": 2},
    "slr": {"epochs": 2, "rate": 1.0},
    "margin": {"steps": 2},
    "private-messages": {"epochs": 2},
}


def source(budget: tuple[float, float], task: str = "classification") -> Federation:
    drawn, numbers = np.random.default_rng(4), task == "regression"
    people = {party: drawn.uniform(0, 9, 60) for party in ("bank", "shop")}
    buys = people["bank"] if numbers else np.where(people["bank"] > 4, "yes", "no")
    kind = 'kind = "real", low = 0, high = 9' if numbers else 'kind = "classes", classes = ["no", "yes"]'
    label = f'label = {{column = "buys", {kind}}}'
    tables = []
    for party, values in people.items():
        declared = f'id = "n"\ncolumns.{party} = {{kind = "numeric", low = 0, high = 9}}\n'
        own = (
            ({party: values, "buys": buys}, declared + label)
            if party == "bank"
            else ({party: values}, declared)
        )
        tables.append(Table.from_arrays(party, own[0], Schema.parse(own[1])))
    return Federation(tables, budget=budget, noise_seed=3)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_method_of_ours_keeps_the_contract(name: str) -> None:
    if name == "network":
        pytest.importorskip("torch")
    method = PROTOCOLS[name]
    check_method(method, partial(source, task=method.tasks[0]), options=OPTIONS.get(name))


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
def test_a_refused_release_leaves_no_row_on_the_wire_and_no_charge(name: str, monkeypatch: Any) -> None:
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


def alone(name: str, change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A model of which one member alone has something else."""

    def model(requested: Any, results: Any) -> Any:
        found = PROTOCOLS[name].model(requested, results)
        if len(results) == 1 and isinstance(found, LinearModel):
            return replace(found, coefficients=change(found.coefficients))
        return found

    return model


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
        ("local", {"model": alone("local", lambda own: own + 1e-12)}, "a site has its part"),
        (
            "private-messages",
            {"model": alone("private-messages", lambda own: np.tile(own, 2))},
            "a site has its part",
        ),
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
    said = {field: getattr(PROTOCOLS["moments"], field) for field in Method.__dataclass_fields__}
    for field in ("session", "model", "checks", "scores", "resumable", "pilots", "noise", "kernel"):
        with pytest.raises(TypeError, match=field):
            Method(**{key: value for key, value in said.items() if key != field})


@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_option_hides_what_is_asked_of_every_method(name: str) -> None:
    """Parties compare both in one table, in which only γ of a method stands for that of the job."""
    options = METHODS[name].options
    assert issubclass(options, Options)
    assert set(options.model_fields) & {item.name for item in fields(TrainingSpec)} <= {"gamma"}
    spec = TrainingSpec("classification", 1.0, options=options())
    assert set(options.model_fields) <= set(spec.to_data())


def test_options_that_there_are_not_or_no_job_may_ask_for_are_refused() -> None:
    spec = TrainingSpec("classification", 1.0, options=EncryptedOptions())
    with pytest.raises(TypeError, match="EncryptedOptions has no defense"):
        spec.with_options(defense="none")
    with pytest.raises(ValidationError, match="'sound' or 'paper'"):
        PrivateMessagesOptions(calibration="none")


@pytest.mark.parametrize(
    "options", [MarginOptions(), SlrOptions(), EncryptedOptions()], ids=lambda one: one.method
)
def test_a_method_for_classes_takes_no_columns_without_one_whatever_was_asked(options: Options) -> None:
    schemas = tuple(table.public() for table in tables_of(("bank", "insurer"), 60))
    without = tuple(type(schema)(schema.party, schema.columns) for schema in schemas)
    group = Group.of(("bank", "insurer"))
    with pytest.raises(LabelMismatch, match="needs a label"):
        TrainingSpec("pca", 1.0, options=options).plan(group, without, 60)


PEOPLE = 10_000
JOB = """name = "who buys"
task = "classification"
parties = ["bank", "shop"]
active = "bank"
epsilon = 3.0
method = "moments"
[options]
"""


def federation(people: int = PEOPLE, *, classes: str = '["no", "yes"]') -> Federation:
    rng = np.random.default_rng(5)
    buys = rng.uniform(size=people) < 0.1
    value = np.clip(rng.normal(size=people) * 0.3 + 0.4 * buys - 0.2, -1, 1)
    names = [f"p{number}" for number in range(people)]
    text = 'id = "n"\ncolumns.value = {kind = "numeric", low = -1, high = 1}\n'
    label = f'[label]\ncolumn = "buys"\nkind = "classes"\nclasses = {classes}\n'
    bank = {"n": names, "value": value, "buys": np.where(buys, "yes", "no")}
    shop = {"n": names, "value": rng.uniform(-1, 1, people)}
    tables = [
        Table.from_arrays("bank", bank, Schema.parse(text + label)),
        Table.from_arrays("shop", shop, Schema.parse(text)),
    ]
    return Federation(tables, budget=(1000.0, 1e-5))


@pytest.mark.parametrize("method", ["margin", "moments"])
def test_balanced_weights_are_those_of_the_classes_up_to_noise(method: str) -> None:
    # So much ε and so many people that every figure is forty deviations of its noise or more within its bounds.
    source = federation()
    options = MarginOptions(steps=4) if method == "margin" else MomentsOptions()
    spec = TrainingSpec("classification", 50.0, delta=1e-5, options=options, verify="none")
    found = train_with(source, method, spec)
    model, plain = LogisticRegression(class_weight="balanced").fit(found), LogisticRegression().fit(found)
    share = float((np.random.default_rng(5).uniform(size=PEOPLE) < 0.1).mean())
    assert model.class_weight_["yes"] == pytest.approx(0.5 / share, rel=0.2)
    assert model.class_weight_["no"] == pytest.approx(0.5 / (1 - share), rel=0.02)
    assert plain.class_weight_ == {"no": 1.0, "yes": 1.0}
    # Half way between the classes a tenth of the people are of one of them, and weighed they are as many.
    rows = {"bank.value": [0.0], "shop.value": [0.0]}
    assert plain.predict_proba(rows)[0, 1] < 0.3 < 0.35 < model.predict_proba(rows)[0, 1] < 0.65


def test_weights_shift_a_model_as_weighing_people_does() -> None:
    rng = np.random.default_rng(1)
    classes = rng.uniform(size=40_000) < 0.2
    rows = (rng.normal(size=40_000) + 1.5 * classes)[:, None]
    weighted = Exact(C=1e6, class_weight={False: 1.0, True: 6.0}).fit(rows, classes)
    plain = Exact(C=1e6).fit(rows, classes)
    shifted = weighed(plain.intercept_, weights_of({"yes": 6}, ("no", "yes"), None))
    assert shifted == pytest.approx(weighted.intercept_, abs=0.06)
    assert plain.coef_ == pytest.approx(weighted.coef_, abs=0.06)
    assert weighed(np.zeros(3), {"a": 1.0, "b": 2.0, "c": 4.0}) == pytest.approx(np.log([1, 2, 4]))


def test_what_no_classes_have_is_refused_before_anything_is_charged() -> None:
    source = federation(100, classes='["no", "maybe", "yes"]')
    for arguments, error, said in (
        ({"threshold": 0.3}, LabelMismatch, "is for two classes; this label has 3"),
        ({"class_weight": {"yess": 2}}, LabelMismatch, "names 'yess', which is not a declared class.*'yes'"),
        ({"class_weight": "balancd"}, InputError, "neither 'balanced' nor a weight for each class"),
        ({"class_weight": {"yes": 0}}, InputError, "a number greater than 0"),
        ({"options": {"threshold": 0.3}}, InputError, "a parameter of LogisticRegression itself"),
    ):
        with pytest.raises(error, match=said):
            LogisticRegression(epsilon=1.0, **arguments).fit(source)
    assert not source.runs and not source.ledgers["bank"].totals()
    with pytest.raises(PlanError, match="which this method does not open"):
        weights_of("balanced", ("no", "yes"), None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("threshold = 1.5", "line 8, options.threshold: threshold = 1.5 is a probability between 0 and 1"),
        ('threshold = "best"', "options.threshold: threshold: found 'best'; rules are balanced, f1"),
        ('threshold = "f1"', "is read from people held out, and none are. Write held_out = 0.2"),
        ('class_weight = "balance"', "neither 'balanced' nor a weight.*Did you mean 'balanced'"),
        ("class_weight = {yes = -1.0}", "class_weight of 'yes': found -1.0"),
    ],
)
def test_a_job_that_asks_for_what_there_is_not_is_told_where(options: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Job.parse(f"{JOB}{options}\n")
