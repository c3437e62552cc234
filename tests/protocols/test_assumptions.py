"""What a guarantee rests on, in the sentences of every kind of committee."""

import pytest

from colonnade.protocols.assumptions import (
    coalition_assumption,
    known_to_party,
    party_assumption,
    reader_assumption,
    server_assumption,
)
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


@pytest.mark.parametrize(
    ("group", "deals", "sentence"),
    [
        # Where it deals a part itself, it knows that one, and may be told one fewer.
        (PAIR, None, f"{COLLUDES} and {NOBODY}"),
        (PAIR_NO_NOISE, None, f"{COLLUDES} and {NOBODY}"),
        (THREE_WITH_SERVER, None, f"{COLLUDES} and {NOBODY}"),
        (FOUR_WITH_SERVER, None, f"{COLLUDES_OF_TWO} and at most one owner discloses its noise to it"),
        # Where it deals none and some owner keeps no shares, that owner's noise is not covered by "no other computing
        # party".
        (THREE_WITH_SERVER, False, f"{COLLUDES} and at most one owner discloses its noise to it"),
        (FIVE_WITH_SERVER, False, f"{COLLUDES_OF_TWO} and at most 2 owners disclose their noise to it"),
        # Where it keeps none.
        (
            THREE,
            None,
            "at most one owner discloses its noise and at most one computing party discloses its shares to it",
        ),
        (
            APART,
            None,
            "at most one owner discloses its noise and at most one computing party discloses its shares to it",
        ),
        (
            THREE_NO_NOISE,
            None,
            f"no owner discloses its noise (if one does, {COST}) and at most one computing party discloses its "
            f"shares to it",
        ),
        (
            FIVE,
            None,
            "at most 2 owners disclose their noise and at most 2 computing parties disclose their shares to it",
        ),
        (
            FIVE_ONE_NOISE,
            None,
            "at most one owner discloses its noise and at most 2 computing parties disclose their shares to it",
        ),
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
        (
            PAIR,
            "at most one of the owners and the server discloses its noise and at most one computing party "
            "discloses its",
        ),
        (
            FIVE_WITH_SERVER,
            "at most 2 of the owners and the server disclose their noise and at most 2 computing parties "
            "disclose their shares",
        ),
        (THREE, "at most one owner discloses its noise and at most one computing party discloses its shares"),
        (
            PAIR_NO_NOISE,
            f"no owner discloses its noise (if one does, {COST}) and at most one computing party discloses its",
        ),
        (
            FIVE_ONE_NOISE,
            "at most one owner discloses its noise and at most 2 computing parties disclose their shares",
        ),
    ],
)
def test_what_a_reader_may_be_told(group: Group, sentence: str) -> None:
    assert reader_assumption(group, COST).startswith(sentence)


@pytest.mark.parametrize(
    ("group", "server", "reader"),
    [
        (
            PAIR,
            f"{COLLUDES} and {NOBODY}; up to one member, itself included, may deviate from the protocol, {UNNOTICED} "
            f"(if an owner deals no noise, {COST})",
            f"at most one member discloses its noise and its shares or deviates from the protocol, {UNNOTICED}",
        ),
        (
            THREE,
            f"at most one member discloses its noise and its shares to it or deviates from the protocol, {UNNOTICED}",
            f"at most one member discloses its noise and its shares or deviates from the protocol, {UNNOTICED}",
        ),
        (
            THREE_NO_NOISE,
            f"no owner discloses its noise (if one does, {COST}) and at most one computing party discloses its "
            f"shares to it; up "
            f"to one member may deviate from the protocol, {UNNOTICED} (if an owner deals no noise, {COST})",
            f"no owner discloses its noise (if one does, {COST}) and at most one computing party discloses its "
            f"shares; up to "
            f"one member may deviate from the protocol, {UNNOTICED} (if an owner deals no noise, {COST})",
        ),
    ],
)
def test_what_is_said_where_rows_are_checked(group: Group, server: str, reader: str) -> None:
    assert server_assumption(group, COST, "rows") == server
    assert reader_assumption(group, COST, "rows") == reader


def test_what_a_party_may_do() -> None:
    own = "(its own columns and its own noise it knows)"
    assert party_assumption(PAIR).startswith(f"it colludes with no other computing party or owner {own}")
    assert party_assumption(FIVE).startswith(
        f"it colludes with fewer than 2 other computing parties or owners {own}"
    )
    liar = f"; up to one member, itself included, may deviate from the protocol, {UNNOTICED}"
    checked = f"it colludes with no other computing party or owner {own}{liar}"
    assert party_assumption(PAIR, "rows") == checked
    assert party_assumption(PAIR, "rows", COST) == f"{checked} (if the server deals no noise, {COST})"
    assert (
        party_assumption(PAIR, "rows", "") == f"{checked} (if the server deals no noise, nothing is stated)"
    )
    assert [known_to_party(group) for group in (PAIR, THREE, FIVE)] == [1, 1, 2]
    assert [known_to_party(group, "rows") for group in (PAIR, THREE, FIVE)] == [1, 2, 3]


def test_what_owners_that_pool_may_hold() -> None:
    assert coalition_assumption(THREE).startswith(
        "it holds at most one computing party's shares (with 2 computing parties it"
    )
    assert coalition_assumption(FIVE).startswith(
        "it holds at most 2 computing parties' shares (with 3 computing parties it"
    )
