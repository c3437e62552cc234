"""A replaced record is two zeroed ones, by way of the zero row."""

import pytest

from colonnade.privacy.events import (
    Approximated,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    MatrixChange,
    MatrixSkellam,
    PerStep,
    PoissonBinomial,
    PoissonSampled,
    Repeated,
    Skellam,
)
from colonnade.privacy.guarantee import account as account_for
from colonnade.privacy.guarantee import replaced_from_zeroed
from colonnade.privacy.observers import Coalition, Colluding, PartyView, Reader, Server, members_of
from colonnade.privacy.renyi import renyi

DELTA = 1e-5


@pytest.mark.parametrize(
    ("zeroed", "replaced"),
    [
        (Gaussian(1, 4), Gaussian(2, 4)),
        (Laplace(1, 4), Laplace(2, 4)),
        (Skellam(3, 2, 20), Skellam(6, 4, 20)),
        (PerStep((1, 2), 9), PerStep((2, 4), 9)),
        (MatrixSkellam(MatrixChange(2, 4, 6, 6), 50), MatrixSkellam(MatrixChange(4, 8, 24, 12), 50)),
        (PoissonSampled(0.5, Gaussian(1, 4)), Gaussian(2, 4)),
        (Approximated(Repeated(Gaussian(1, 4), 3), 7), Approximated(Repeated(Gaussian(2, 4), 3), 7)),
        (Composed((Gaussian(1, 4), Laplace(1, 4))), Composed((Gaussian(2, 4), Laplace(2, 4)))),
        (DiscreteGaussian(1, 4), DiscreteGaussian(2, 4)),
        (DiscreteLaplace(1, 4), DiscreteLaplace(2, 4)),
        (Composed((Gaussian(1, 4), PoissonBinomial(3, 4, 0.1))), None),
        (Repeated(PoissonBinomial(3, 4, 0.1), 2), None),
    ],
)
def test_a_replaced_record_is_two_zeroed_ones(zeroed: Event, replaced: Event | None) -> None:
    assert replaced_from_zeroed(zeroed) == replaced


def test_normal_noise_costs_four_times_as_much_for_a_replaced_record_not_twice() -> None:
    once = Gaussian(1, 8)
    doubled = replaced_from_zeroed(once)
    assert doubled is not None
    assert renyi(doubled, 8.0) == pytest.approx(renyi(Repeated(once, 4), 8.0), rel=1e-9)
    assert account_for(doubled, DELTA).epsilon > account_for(Repeated(once, 2), DELTA).epsilon


def test_who_looks_is_known_by_name_but_for_a_reader_and_for_any_coalition() -> None:
    assert members_of(Server()) == {"server"} and members_of(PartyView("bank")) == {"bank"}
    assert members_of(Coalition(("bank", "server"))) == {"bank", "server"}
    assert members_of(Reader()) == members_of(Colluding(2)) == frozenset()
    assert Colluding(2).knows_batches
