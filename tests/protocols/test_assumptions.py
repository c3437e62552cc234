"""What a guarantee rests on, in the sentences of every kind of committee."""

import re
from typing import Any

import pytest
from test_dealt_noise import schemas
from training_specs import requested

from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.methods.functional.plan import FunctionalOptions
from colonnade.methods.local.protocol import LocalOptions
from colonnade.methods.margin.plan import MarginOptions
from colonnade.methods.messages.plan import PrivateMessagesOptions
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.network.plan import NetworkOptions
from colonnade.methods.one_shot.protocol import OneShotOptions
from colonnade.methods.slr.plan import SlrOptions
from colonnade.privacy.observers import Colluding
from colonnade.protocols.assumptions import (
    coalition_assumption,
    known_to_party,
    party_assumption,
    reader_assumption,
    server_assumption,
)
from colonnade.protocols.evaluation import EvaluationSpec
from colonnade.runtime.party import Group

COST = "ε = 9"
COLLUDES = (
    "it colludes with no other computing party (with one computing party it would recover every column)"
)
COLLUDES_OF_TWO = (
    "it colludes with fewer than 2 other computing parties (with 2 computing parties it would "
    "recover every column)"
)
NOBODY = f"no owner discloses its noise to it (if one does, {COST})"
UNNOTICED = "unnoticed with probability below 2^-39"

PAIR = Group.of(("a", "b"))
PAIR_NO_NOISE = Group.of(("a", "b"), disclosed_noise=0)
THREE_WITH_SERVER = Group.of(("a", "b", "c"), computing_parties=("server", "a", "b"))
FOUR_WITH_SERVER = Group.of(tuple("abcd"), computing_parties=("server", *"abcd"), threshold=2)
FIVE_WITH_SERVER = Group.of(tuple("abcde"), computing_parties=("server", *"abcd"), threshold=2)
THREE = Group.of(("a", "b", "c"))
THREE_NO_NOISE = Group.of(("a", "b", "c"), disclosed_noise=0)
APART = Group.of(("a", "b", "c"), computing_parties=("x", "y", "z"))
FIVE = Group.of(tuple("abcde"))
FIVE_ONE_NOISE = Group.of(tuple("abcde"), disclosed_noise=1)


ONE_NOISE, ONE_SHARE = (
    "at most one owner discloses its noise",
    "at most one computing party discloses its shares",
)
TWO_NOISES, TWO_SHARES = (
    "at most 2 owners disclose their noise",
    "at most 2 computing parties disclose their shares",
)
NO_NOISE = f"no owner discloses its noise (if one does, {COST})"


@pytest.mark.parametrize(
    ("group", "deals", "sentence"),
    [
        # Where it deals a part itself, it knows that one, and may be told one fewer.
        (PAIR, None, f"{COLLUDES} and {NOBODY}"),
        (PAIR_NO_NOISE, None, f"{COLLUDES} and {NOBODY}"),
        (THREE_WITH_SERVER, None, f"{COLLUDES} and {NOBODY}"),
        (FOUR_WITH_SERVER, None, f"{COLLUDES_OF_TWO} and {ONE_NOISE} to it"),
        # Where it deals none and some owner keeps no shares, that owner's noise is not covered by "no other computing
        # party".
        (THREE_WITH_SERVER, False, f"{COLLUDES} and {ONE_NOISE} to it"),
        (FIVE_WITH_SERVER, False, f"{COLLUDES_OF_TWO} and {TWO_NOISES} to it"),
        # Where it keeps none.
        (THREE, None, f"{ONE_NOISE} and {ONE_SHARE} to it"),
        (APART, None, f"{ONE_NOISE} and {ONE_SHARE} to it"),
        (THREE_NO_NOISE, None, f"{NO_NOISE} and {ONE_SHARE} to it"),
        (FIVE, None, f"{TWO_NOISES} and {TWO_SHARES} to it"),
        (FIVE_ONE_NOISE, None, f"{ONE_NOISE} and {TWO_SHARES} to it"),
    ],
)
def test_what_the_server_may_be_told(group: Group, deals: bool | None, sentence: str) -> None:
    assert server_assumption(group, COST, deals=deals).startswith(sentence)


@pytest.mark.parametrize(("group", "sentence"), [(PAIR, COLLUDES), (FOUR_WITH_SERVER, COLLUDES_OF_TWO)])
def test_keepers_that_are_all_the_owners_need_no_second_clause(group: Group, sentence: str) -> None:
    """Whoever could disclose its noise is a computing party, and computing parties are spoken of."""
    found = server_assumption(group, COST, deals=False)
    assert found.startswith(sentence)
    assert "noise" not in found


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        (PAIR, f"at most one of the owners and the server discloses its noise and {ONE_SHARE}"),
        (FIVE_WITH_SERVER, f"at most 2 of the owners and the server disclose their noise and {TWO_SHARES}"),
        (THREE, f"{ONE_NOISE} and {ONE_SHARE}"),
        (PAIR_NO_NOISE, f"{NO_NOISE} and {ONE_SHARE}"),
        (FIVE_ONE_NOISE, f"{ONE_NOISE} and {TWO_SHARES}"),
    ],
)
def test_what_a_reader_may_be_told(group: Group, sentence: str) -> None:
    assert reader_assumption(group, COST).startswith(sentence)


MAY = "may deviate from the protocol"
NO_PART = f"{UNNOTICED} (if an owner deals no noise, {COST})"
EITHER = f"at most one member discloses its noise and its shares or deviates from the protocol, {UNNOTICED}"


@pytest.mark.parametrize(
    ("group", "server", "reader"),
    [
        (PAIR, f"{COLLUDES} and {NOBODY}; up to one member, itself included, {MAY}, {NO_PART}", EITHER),
        (THREE, EITHER.replace("shares or", "shares to it or"), EITHER),
        (
            THREE_NO_NOISE,
            f"{NO_NOISE} and {ONE_SHARE} to it; up to one member {MAY}, {NO_PART}",
            f"{NO_NOISE} and {ONE_SHARE}; up to one member {MAY}, {NO_PART}",
        ),
    ],
)
def test_what_is_said_where_rows_are_checked(group: Group, server: str, reader: str) -> None:
    assert server_assumption(group, COST, "rows") == server
    assert reader_assumption(group, COST, "rows") == reader


def test_what_a_party_may_do_and_owners_that_pool_may_hold() -> None:
    own = "(its own columns and its own noise it knows)"
    assert party_assumption(PAIR).startswith(f"it colludes with no other computing party or owner {own}")
    assert party_assumption(FIVE).startswith(
        f"it colludes with fewer than 2 other computing parties or owners {own}"
    )
    liar = f"; up to one member, itself included, {MAY}, {UNNOTICED}"
    checked = f"it colludes with no other computing party or owner {own}{liar}"
    assert party_assumption(PAIR, "rows") == checked
    assert party_assumption(PAIR, "rows", COST) == f"{checked} (if the server deals no noise, {COST})"
    assert (
        party_assumption(PAIR, "rows", "") == f"{checked} (if the server deals no noise, nothing is stated)"
    )
    assert [known_to_party(group) for group in (PAIR, THREE, FIVE)] == [1, 1, 2]
    assert [known_to_party(group, "rows") for group in (PAIR, THREE, FIVE)] == [1, 2, 3]
    assert coalition_assumption(THREE).startswith(
        "it holds at most one computing party's shares (with 2 computing parties it"
    )
    assert coalition_assumption(FIVE).startswith(
        "it holds at most 2 computing parties' shares (with 3 computing parties it"
    )


# Sentences of plans that check nothing say that everybody is assumed to run the protocol, others who may deviate.


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
@pytest.mark.parametrize("committee", ["two", "four"])
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
        requested(PrivateMessagesOptions, epsilon=1.0, delta=1e-5),
    ]
    for request in requests:
        plan = request.plan(group, columns, 1000)
        assert plan.guarantees
        assert all(re.search(r"(runs?|follows?) the protocol", str(one)) for one in plan.guarantees)
