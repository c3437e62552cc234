"""Events: what can be built, what comes back from data, and how they compose."""

from fractions import Fraction
from typing import Any, get_args

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.privacy.events import (
    COARSE_BITS,
    AdditiveNoise,
    Approximated,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    MatrixChange,
    MatrixSkellam,
    Mechanism,
    PerStep,
    PoissonBinomial,
    PoissonSampled,
    Repeated,
    Skellam,
    contains_sampling,
    event_from_data,
    event_to_data,
    itemise,
)
from colonnade.testing import check_event


def numbers(low: int, high: int) -> st.SearchStrategy[int | Fraction | float]:
    return st.one_of(
        st.integers(low, high),
        st.fractions(low, high, max_denominator=1000),
        st.floats(low, high, allow_nan=False),
    )


def additive() -> st.SearchStrategy[AdditiveNoise]:
    sensitivity, noise = numbers(0, 8), numbers(1, 200)
    changes = st.builds(MatrixChange, numbers(0, 9), numbers(0, 20), numbers(0, 99), numbers(0, 40))
    return st.one_of(
        st.builds(Gaussian, sensitivity, noise),
        st.builds(DiscreteGaussian, sensitivity, noise, st.sampled_from([None, 1, 7])),
        st.builds(Laplace, sensitivity, noise),
        st.builds(DiscreteLaplace, sensitivity, noise),
        st.builds(Skellam, sensitivity, sensitivity, noise, st.sampled_from([None, 1, 7])),
        st.builds(MatrixSkellam, changes, noise),
    )


def poisson_binomials() -> st.SearchStrategy[PoissonBinomial]:
    return st.integers(1, 4).flatmap(
        lambda contributors: st.builds(
            PoissonBinomial,
            st.just(contributors),
            st.integers(1, 4),
            st.fractions(Fraction(1, 100), Fraction(2, 5), max_denominator=100),
            st.integers(1, contributors),
        )
    )


def mechanisms() -> st.SearchStrategy[Mechanism]:
    steps = st.builds(
        PerStep, st.lists(numbers(0, 8), min_size=1, max_size=5).map(tuple), numbers(1, 200), st.booleans()
    )
    return st.one_of(additive(), poisson_binomials(), steps)


def sampled() -> st.SearchStrategy[PoissonSampled]:
    rates = st.one_of(st.sampled_from([0, 1]), st.fractions(0, 1, max_denominator=100), st.floats(0, 1))
    return st.builds(
        PoissonSampled, rates, st.one_of(additive(), st.builds(Approximated, additive(), st.integers(0, 9)))
    )


def events() -> st.SearchStrategy[Event]:
    return st.recursive(
        st.one_of(mechanisms(), sampled()),
        lambda inner: st.one_of(
            st.builds(Composed, st.lists(inner, max_size=3).map(tuple)),
            st.builds(Repeated, inner, st.integers(0, 5)),
            st.builds(Approximated, inner, st.integers(0, 10**6)),
        ),
        max_leaves=4,
    )


CHANGE = MatrixChange(1, 2, 3, 4)


LEAVES = [
    (Gaussian(1, 2), Gaussian(Fraction(1, 2), 2)),
    (DiscreteGaussian(1, 4), DiscreteGaussian(1, 4.5)),
    (DiscreteGaussian(1, 4, coordinates=1), DiscreteGaussian(1, 5, coordinates=1)),
    (Laplace(1, 2), Laplace(1, Fraction(7, 3))),
    (DiscreteLaplace(2, 3), DiscreteLaplace(1, 3)),
    (Skellam(3, 2, 20), Skellam(3, 2, 25)),
    (Skellam(3, 3, 20, coordinates=1), Skellam(3, 3, 21, coordinates=1)),
    (MatrixSkellam(MatrixChange(2, 4, 6, 6), 50), MatrixSkellam(MatrixChange(2, 3, 6, 6), 50)),
    (PoissonBinomial(5, 4, Fraction(1, 10)), PoissonBinomial(5, 4, Fraction(1, 11))),
    (PerStep((2, 1), 400), PerStep((1, 1), 400)),
    (PerStep((2, 1), 400, discrete=False), PerStep((2, 1), 500, discrete=False)),
]


@pytest.mark.parametrize(("leaf", "noisier"), LEAVES)
def test_a_leaf_keeps_every_law_of_events(leaf: Mechanism, noisier: Mechanism) -> None:
    check_event(leaf, noisier=[noisier])


@given(events())
@settings(max_examples=50)
def test_every_event_keeps_the_laws_of_events(event: Event) -> None:
    check_event(event, deltas=())


def test_numbers_come_back_with_their_kind_and_sampling_at_rate_one_or_nought_is_none() -> None:
    for value in (10**40, 2**53, 2**53 - 1, Fraction(10**30, 7), Fraction(3), 0.1, 5):
        back = event_from_data(msgpack.unpackb(msgpack.packb(event_to_data(Laplace(1, value)))))
        assert isinstance(back, Laplace)
        assert back.scale == value
        assert type(back.scale) is type(value)
    leaf = Gaussian(1, 2)
    assert itemise(PoissonSampled(1, leaf)) == itemise(leaf)
    assert itemise(PoissonSampled(0, leaf)) == itemise(Composed(()))
    assert not contains_sampling(PoissonSampled(1.0, leaf))
    assert contains_sampling(Repeated(PoissonSampled(0.5, Approximated(leaf, 3)), 2))
    assert itemise(Repeated(PoissonSampled(0.5, Approximated(leaf, 3)), 2)).draws == 6


@given(events(), st.integers(0, 50))
def test_repeating_is_composing_so_many_times(event: Event, times: int) -> None:
    assert itemise(Repeated(event, times)) == itemise(Composed((event,) * times))


@given(events(), events(), events())
@settings(max_examples=40)
def test_composing_is_associative(one: Event, two: Event, three: Event) -> None:
    assert itemise(Composed((one, Composed((two, three))))) == itemise(
        Composed((Composed((one, two)), three))
    )


@given(mechanisms(), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_draws_add_up_through_every_combination(leaf: Mechanism, draws: int, more: int, times: int) -> None:
    event = Repeated(Composed((Approximated(leaf, draws), Approximated(Approximated(leaf, more), 1))), times)
    assert itemise(event).draws == times * (draws + more + 1)
    assert itemise(event).total_variation == Fraction(times * (draws + more + 1), 2**COARSE_BITS)


def test_the_strategies_make_every_kind_of_leaf() -> None:
    """So that a leaf added without a law test is noticed."""
    made: set[type] = set()

    @settings(max_examples=400, database=None, derandomize=True)
    @given(mechanisms())
    def collect(leaf: Mechanism) -> None:
        made.add(type(leaf))

    collect()
    assert {type(leaf) for leaf, _ in LEAVES} == made
    assert made == {kind for part in get_args(Mechanism) for kind in (get_args(part) or (part,))}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gaussian(1, 0),
        lambda: DiscreteGaussian(1, 0),
        lambda: Laplace(1, 0),
        lambda: DiscreteLaplace(1, 0),
        lambda: Skellam(1, 1, 0),
        lambda: MatrixSkellam(CHANGE, 0),
        lambda: PoissonBinomial(3, 2, 0),
        lambda: PerStep((1,), 0),
    ],
)
def test_no_noise_at_all_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: PoissonBinomial(0, 1, 0.1),
        lambda: PoissonBinomial(1, 0, 0.1),
        lambda: PoissonBinomial(2.0, 1, 0.1),  # type: ignore[arg-type]
        lambda: PoissonBinomial(2, 1, Fraction(1, 2)),
        lambda: PoissonBinomial(2, 1, 0.1, 0),
        lambda: PoissonBinomial(2, 1, 0.1, 3),
        lambda: DiscreteGaussian(1, 1, 0),
        lambda: Skellam(1, 1, 1, 0),
        lambda: MatrixSkellam((1, 2, 3, 4), 1),  # type: ignore[arg-type]
        lambda: PerStep((), 1),
        lambda: PerStep((1,), 1, 1),  # type: ignore[arg-type]
        lambda: Composed((CHANGE,)),  # type: ignore[arg-type]
        lambda: Repeated(Gaussian(1, 1), 1.5),  # type: ignore[arg-type]
        lambda: PoissonSampled(1.5, Gaussian(1, 1)),
    ],
)
def test_what_cannot_be_accounted_for_cannot_be_built(make: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        make()


@pytest.mark.parametrize(
    "inner",
    [
        PoissonBinomial(3, 2, 0.1),
        PerStep((1,), 1),
        Composed((Gaussian(1, 1),)),
        Repeated(Gaussian(1, 1), 2),
        PoissonSampled(0.5, Gaussian(1, 1)),
        Approximated(PoissonBinomial(3, 2, 0.1), 1),
        Approximated(Approximated(Gaussian(1, 1), 1), 1),
    ],
)
def test_sampling_is_refused_where_it_is_not_proved_to_help(inner: Any) -> None:
    with pytest.raises(TypeError, match="symmetric additive noise"):
        PoissonSampled(0.1, inner)


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "gaussian", "sensitivity": 1, "sigma": "one"},
        {"kind": "gaussian", "sensitivity": 1, "sigma": "1/0"},
        {"kind": "gaussian", "sensitivity": 1, "sigma": -1},
        {"kind": "matrix-change", "frobenius": 1, "weighted_l1": 1, "fourth": 1, "fourth_l1": 1},
        {"kind": "composed", "events": {"kind": "gaussian", "sensitivity": 1, "sigma": 1}},
        {"kind": "repeated", "events": 1, "times": 2},
    ],
)
def test_data_that_is_no_event_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        event_from_data(data)


def test_equal_schedules_hash_alike_and_a_bad_step_is_named_after_many_equal_ones() -> None:
    written = PerStep((2, Fraction(1, 2), 2), 4)
    same = PerStep((2.0, 0.5, Fraction(2)), Fraction(4))
    assert written == same and hash(written) == hash(same) and len({written, same}) == 1
    assert len({written, PerStep((2, 1, 2), 4), PerStep((2, Fraction(1, 2), 2), 4, discrete=False)}) == 3
    with pytest.raises(ValueError, match="step 1000"):
        PerStep((1,) * 1000 + (-1,), 4)
