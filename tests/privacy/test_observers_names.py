"""Observers and units: stable names that parse back, and the noise parts each observer knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import InputError
from colonnade.ledger.bounds import named_account, named_pattern
from colonnade.ledger.release import LedgerLine
from colonnade.privacy.events import Gaussian
from colonnade.privacy.observers import (
    REPLACE,
    ZERO_OUT,
    Coalition,
    Colluding,
    ColumnsOf,
    Observer,
    OthersPart,
    PartOf,
    PartyView,
    Reader,
    Server,
    Unit,
    check_party_name,
    named_observer,
    parse_observer,
    parse_unit,
)

NAMES = st.text("abcXYZ -_0é", min_size=1, max_size=8).filter(lambda name: name == name.strip())


@given(NAMES, NAMES, st.integers(2, 10**8))
def test_every_observer_comes_back_from_its_name(one: str, other: str, many: int) -> None:
    observers: list[Observer] = [Server(), Reader(), PartyView(one), Coalition((one, "server"))]
    if one != other:
        observers.append(Coalition((one, other)))
    for observer in observers:
        assert parse_observer(observer.name) == named_observer(observer.name) == observer
        assert observer.sentence
    assert parse_observer(Colluding(many).name) == Colluding(many)


@given(st.integers(2, 99))
def test_a_coalition_without_names_has_no_account_no_line_and_no_limit(many: int) -> None:
    """Who is in it is not known, so that nothing could be charged to it but what a reader sees: too little."""
    name = Colluding(many).name
    with pytest.raises(ValueError, match="no observer"):
        named_observer(name)
    with pytest.raises(ValueError, match="no observer"):
        LedgerLine(name, "others-part", Gaussian(sensitivity=1.0, sigma=4.0))
    for account in (named_account, named_pattern):
        with pytest.raises(InputError, match="no observer"):
            account("people", "others-part", name)


@given(NAMES)
def test_every_unit_comes_back_from_its_name(party: str) -> None:
    units: list[Unit] = [ZERO_OUT, REPLACE, OthersPart(party), PartOf(party), ColumnsOf(party)]
    for unit in units:
        assert parse_unit(unit.name) == unit
        assert unit.sentence
    assert len({unit.name for unit in units}) == len(units)


def test_the_names_in_ledgers_do_not_change() -> None:
    assert [unit.name for unit in (ZERO_OUT, REPLACE, OthersPart("a"), PartOf("a"), ColumnsOf("a"))] == [
        "record",
        "record-replaced",
        "others-part",
        "own-part:a",
        "columns:a",
    ]
    observers: list[Observer] = [Server(), Reader(), PartyView("bank"), Coalition(("insurer", "bank"))]
    assert [observer.name for observer in observers] == [
        "server",
        "reader",
        "party:bank",
        "coalition:bank+insurer",
    ]


def test_a_coalition_has_no_order_and_no_doubles() -> None:
    assert Coalition(("b", "a", "b")) == Coalition(("a", "b"))
    assert Coalition(("server", "b", "a")).sentence == "The coalition of a, b and the server"


@pytest.mark.parametrize("name", ["", " bank", "a+b", "a:b", "server", "reader", "*", "a\nb"])
def test_a_name_that_would_confuse_a_ledger_is_refused(name: str) -> None:
    for make in (check_party_name, PartyView, PartOf, ColumnsOf):
        with pytest.raises(ValueError, match="cannot be called"):
            make(name)
    if name:
        with pytest.raises(ValueError, match="cannot be called"):
            OthersPart(name)


@pytest.mark.parametrize("members", [(), ("a",), ("a", "a"), ("server",)])
def test_a_coalition_of_fewer_than_two_is_refused(members: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="two members"):
        Coalition(members)


@pytest.mark.parametrize("owners", [1, 0, -1])
def test_a_coalition_of_fewer_than_two_owners_is_refused(owners: int) -> None:
    with pytest.raises(ValueError, match="two owners"):
        Colluding(owners)


@pytest.mark.parametrize(
    "name",
    [
        *("", "nobody", "server:x", "party", "coalition", "reader:a", "Server"),
        *("any 1 owners", "any 02 owners", "any 2 owners ", "any 2 owner", "any two owners", "any ٢ owners"),
    ],
)
def test_an_unknown_observer_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no observer"):
        parse_observer(name)


@pytest.mark.parametrize("name", ["", "rows", "record:a", "own-part", "columns", "others-part:a"])
def test_an_unknown_unit_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no unit"):
        parse_unit(name)
