"""Guarantees as sentences: every number is rounded up, and no claim is made that sampling does not support."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import PrivacyError
from colonnade.privacy.events import Gaussian, Laplace, PoissonBinomial, PoissonSampled, Repeated, Skellam
from colonnade.privacy.guarantee import account, check_claim, delta_text, epsilon_text, guarantee
from colonnade.privacy.observers import (
    REPLACE,
    ZERO_OUT,
    Coalition,
    ColumnsOf,
    Observer,
    OthersPart,
    PartOf,
    PartyView,
    Reader,
    Server,
    Unit,
    members_of,
)

SAMPLED = Repeated(PoissonSampled(0.01, Gaussian(1, 1)), 10)


def test_a_guarantee_is_one_plain_sentence() -> None:
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


def test_a_guarantee_without_an_assumption_says_nothing_of_one() -> None:
    said = str(guarantee(Laplace(1, 2), observer=PartyView("bank"), unit=OthersPart("bank"), delta=0))
    assert said == (
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


def test_edges_print_plainly() -> None:
    assert epsilon_text(0.0) == "0"
    assert epsilon_text(math.inf) == "∞"
    assert epsilon_text(12345.001) == "12345.01"
    assert delta_text(0.0) == "0"


@pytest.mark.parametrize("observer", [PartyView("bank"), Coalition(("bank", "server"))])
def test_sampling_is_not_claimed_against_those_who_may_know_the_batches(observer: Observer) -> None:
    with pytest.raises(PrivacyError, match="secret batches"):
        guarantee(SAMPLED, observer=observer, unit=ZERO_OUT, delta=1e-5)


@pytest.mark.parametrize("unit", [REPLACE, OthersPart(), PartOf("bank"), ColumnsOf("bank")])
def test_sampling_is_not_claimed_for_other_units(unit: Unit) -> None:
    with pytest.raises(PrivacyError, match="Poisson sampling"):
        guarantee(SAMPLED, observer=Server(), unit=unit, delta=1e-5)


def test_sampling_is_claimed_where_it_is_proved() -> None:
    for observer in (Server(), Reader()):
        assert guarantee(SAMPLED, observer=observer, unit=ZERO_OUT, delta=1e-5).epsilon < 1
    check_claim(Gaussian(1, 1), observer=PartyView("bank"), unit=REPLACE)


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
