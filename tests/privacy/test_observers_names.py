"""Observers and units: stable names that parse back, and the noise parts each observer knows."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import InputError, PrivacyError
from colonnade.ledger.bounds import named_account, named_pattern
from colonnade.ledger.release import LedgerLine
from colonnade.privacy.events import Gaussian, Laplace, PoissonBinomial, PoissonSampled, Repeated, Skellam
from colonnade.privacy.guarantee import account, check_claim, delta_text, epsilon_text, guarantee
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
    about_text,
    check_party_name,
    joined,
    members_of,
    named_observer,
    observer_text,
    observers_text,
    parse_observer,
    parse_unit,
    unit_text,
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
    for named in (named_account, named_pattern):
        with pytest.raises(InputError, match="no observer"):
            named("people", "others-part", name)


@given(NAMES)
def test_every_unit_comes_back_from_its_name(party: str) -> None:
    units: list[Unit] = [ZERO_OUT, REPLACE, OthersPart(party), PartOf(party), ColumnsOf(party)]
    for unit in units:
        assert parse_unit(unit.name) == unit
        assert unit.sentence
    assert len({unit.name for unit in units}) == len(units)


def test_the_names_in_ledgers_do_not_change_and_coalitions_have_no_order() -> None:
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


# Observers and units as people say them.


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("server", "the server"),
        ("reader", "a reader of the model"),
        ("any 2 owners", "any 2 owners"),
        ("party:bank", "bank"),
        ("coalition:bank+server", "bank and the server together"),
        ("coalition:bank+clinic+shop", "bank, clinic and shop together"),
    ],
)
def test_an_observer_is_called_by_its_name_or_its_role(name: str, said: str) -> None:
    assert observer_text(name) == said


@pytest.mark.parametrize(
    ("name", "owner", "said"),
    [
        ("columns:bank", "", "all of bank's columns"),
        ("own-part:bank", "clinic", "what bank's columns say of one person"),
        ("others-part", "clinic", "what clinic's columns say of one person"),
        ("others-part", "", "what the others hold about one person"),
        ("record", "clinic", "one person's record, there or blank"),
        ("record-replaced", "", "one person's record, this or any other"),
        ("household", "", "household"),
    ],
)
def test_a_unit_says_whose_part_of_a_person_it_is(name: str, owner: str, said: str) -> None:
    assert unit_text(name, owner=owner) == said


def test_several_are_joined_and_parts_of_others_have_a_name_of_two_owners_only() -> None:
    assert about_text("party:bank", "others-part", ["bank", "shop"]) == unit_text("others-part", owner="shop")
    assert about_text("party:bank", "others-part", ["bank", "shop", "clinic"]) == unit_text("others-part")
    assert observers_text(["reader", "server"]) == "a reader of the model, the server"
    assert joined(["bank"]) == "bank" and joined(["bank", "shop", "clinic"]) == "bank, shop and clinic"
    assert (Colluding(2).name, Colluding(3).sentence) == ("any 2 owners", "Any coalition of 3 owners")


# Guarantees as sentences: every number is rounded up, and no claim is made that sampling does not support.


SAMPLED = Repeated(PoissonSampled(0.01, Gaussian(1, 1)), 10)


def test_a_guarantee_is_one_plain_sentence_with_its_assumption_if_it_has_one() -> None:
    said = guarantee(
        Skellam(3, 3, 200),
        observer=Server(),
        unit=ZERO_OUT,
        delta=1e-5,
        assumption="at least 1 of 2 owners keeps its noise secret",
    )
    assert str(said) == (
        "The server learns at most ε = 0.59 (δ = 1e-05) about any one record (zeroed out or not), provided at least "
        "1 of 2 owners keeps its noise secret. [Rényi, order 28]"
    )
    assert said.epsilon == account(Skellam(3, 3, 200), 1e-5).epsilon
    bare = guarantee(Laplace(1, 2), observer=PartyView("bank"), unit=OthersPart("bank"), delta=0)
    assert str(bare) == (
        "Party bank learns at most ε = 0.50 (δ = 0) about the other parties' part of any one record "
        "(replaced by any other). [pure]"
    )


@given(st.floats(1e-12, 1e6))
def test_a_printed_epsilon_is_never_below_the_true_one(epsilon: float) -> None:
    printed = Fraction(epsilon_text(epsilon))
    assert Fraction(epsilon) <= printed <= Fraction(epsilon) * Fraction(11, 10) + Fraction(1, 100)


@given(st.floats(1e-300, 0.999))
def test_a_printed_delta_is_never_below_the_true_one(delta: float) -> None:
    assert delta <= float(delta_text(delta)) <= delta * 1.11


def test_edges_print_plainly_and_sampling_is_claimed_where_it_is_proved() -> None:
    assert epsilon_text(0.0) == "0"
    assert epsilon_text(math.inf) == "∞"
    assert epsilon_text(12345.001) == "12345.01"
    assert delta_text(0.0) == "0"
    for observer in (Server(), Reader()):
        assert guarantee(SAMPLED, observer=observer, unit=ZERO_OUT, delta=1e-5).epsilon < 1
    check_claim(Gaussian(1, 1), observer=PartyView("bank"), unit=REPLACE)


@pytest.mark.parametrize("observer", [PartyView("bank"), Coalition(("bank", "server"))])
def test_sampling_is_not_claimed_against_those_who_may_know_the_batches(observer: Observer) -> None:
    with pytest.raises(PrivacyError, match="secret batches"):
        guarantee(SAMPLED, observer=observer, unit=ZERO_OUT, delta=1e-5)


@pytest.mark.parametrize("unit", [REPLACE, OthersPart(), PartOf("bank"), ColumnsOf("bank")])
def test_sampling_is_not_claimed_for_other_units(unit: Unit) -> None:
    with pytest.raises(PrivacyError, match="Poisson sampling"):
        guarantee(SAMPLED, observer=Server(), unit=unit, delta=1e-5)


@pytest.mark.parametrize("owners", [("a", "b"), ("a", "b", "c", "d")])
def test_an_observer_who_knows_more_never_gets_a_smaller_epsilon(owners: tuple[str, ...]) -> None:
    observers: list[Observer] = [Server(), Reader(), PartyView("a")]
    observers += [Coalition(("server", *owners[:size])) for size in range(1, len(owners))]
    known = [len(members_of(observer) & set(owners)) for observer in observers]
    assert known == sorted(known)
    whole = Fraction(200)
    skellam = [
        account(Skellam(3, 3, whole * (len(owners) - parts) / len(owners)), 1e-5).epsilon for parts in known
    ]
    assert skellam == sorted(skellam)
    draws = [
        account(PoissonBinomial(len(owners) - parts, 2, Fraction(1, 10)), 1e-5).epsilon for parts in known
    ]
    assert draws == sorted(draws)
