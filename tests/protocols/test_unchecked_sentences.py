"""Sentences of plans that check nothing say that everybody is assumed to run the protocol, others who may deviate."""

import re
from typing import Any

import pytest
from test_dealt_noise import schemas
from training_specs import requested

from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.methods.functional.plan import FunctionalOptions
from colonnade.methods.local.protocol import LocalOptions
from colonnade.methods.margin.plan import MarginOptions
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.network.plan import NetworkOptions
from colonnade.methods.one_shot.protocol import OneShotOptions
from colonnade.methods.slr.plan import SlrOptions
from colonnade.privacy.observers import Colluding
from colonnade.protocols.evaluation import EvaluationSpec
from colonnade.runtime.party import Group

NAMES = ("bank", "shop", "clinic", "tax", "school")
CLAUSE = "everybody runs the protocol"
COMMITTEES = {
    "two": Group.of(NAMES[:2], active="bank"),
    "two, all noise kept": Group.of(NAMES[:2], active="bank", disclosed_noise=0),
    "three": Group.of(NAMES[:3], active="bank"),
    "four": Group.of(NAMES[:4], active="bank"),
    "four, t = 2": Group.of(NAMES[:4], active="bank", threshold=2),
    "computing parties without columns": Group.of(
        NAMES[:2], active="bank", computing_parties=("a", "b", "c")
    ),
}


def requests(verify: Any) -> dict[str, Any]:
    shared: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
    return {
        "moments": requested(MomentsOptions, task="classification", verify=verify, **shared),
        "moments by class": requested(
            MomentsOptions, task="classification", verify=verify, conditional=True, **shared
        ),
        "functional": requested(FunctionalOptions, task="classification", verify=verify, **shared),
        "functional by Laplace": requested(
            FunctionalOptions, task="classification", verify=verify, noise="laplace", **shared
        ),
        "slr": requested(SlrOptions, verify=verify, epochs=1, rate=1.0, **shared),
        "margin": requested(MarginOptions, verify=verify, **shared),
    }


def sentences(request: Any, group: Group) -> list[Any]:
    plan = request.plan(group, schemas(group.owners), 1000)
    return [*plan.guarantees, *getattr(plan, "part_guarantees", ())]


@pytest.mark.parametrize("committee", COMMITTEES)
@pytest.mark.parametrize("method", requests("none"))
def test_where_nothing_is_checked_every_sentence_assumes_that_everybody_runs_the_protocol(
    method: str, committee: str
) -> None:
    said = sentences(requests("none")[method], COMMITTEES[committee])
    assert len(said) > len(COMMITTEES[committee].owners)
    assert all(CLAUSE in str(one) and "deviate" not in str(one) for one in said)


@pytest.mark.parametrize("committee", COMMITTEES)
def test_the_default_of_margin_and_a_judgement_of_it_say_so(committee: str) -> None:
    group = COMMITTEES[committee]
    judging = EvaluationSpec("5f0c", ((1.0,) * len(group.owners),), epsilon=1.0, delta=1e-5)
    for request in (requested(MarginOptions, epsilon=1.0, delta=1e-5), judging):
        assert all(CLAUSE in str(one) for one in sentences(request, group))


@pytest.mark.parametrize(
    ("method", "verify"), [("moments", "rows"), ("functional", "rows"), ("slr", "rows"), ("margin", "all")]
)
@pytest.mark.parametrize("committee", ["two", "three", "four"])
def test_where_rows_are_checked_one_may_deviate_and_coalitions_are_told_to_run_it(
    method: str, verify: str, committee: str
) -> None:
    for one in sentences(requests(verify)[method], COMMITTEES[committee]):
        if isinstance(one.observer, Colluding):
            assert CLAUSE in str(one), "nothing is proved of a coalition that deviates"
        else:
            assert "deviate" in str(one) and CLAUSE not in str(one)


def test_methods_that_have_no_checks_say_whom_they_believe() -> None:
    group = COMMITTEES["three"]
    columns = schemas(group.owners)
    requests: list[Any] = [
        requested(LocalOptions, task="classification", epsilon=1.0, delta=1e-5),
        requested(OneShotOptions, task="classification", epsilon=1.0, delta=1e-5),
        requested(NetworkOptions, task="classification", epsilon=8.0, delta=1e-5),
        requested(
            NetworkOptions, task="classification", epsilon=8.0, delta=1e-5, regime="private-local", epochs=2
        ),
        requested(EncryptedOptions, epsilon=1.0, delta=1e-5),
    ]
    for request in requests:
        plan = request.plan(group, columns, 1000)
        assert plan.guarantees
        assert all(re.search(r"(runs?|follows?) the protocol", str(one)) for one in plan.guarantees)
