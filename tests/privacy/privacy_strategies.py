"""Generated events for the laws."""

from fractions import Fraction

from hypothesis import strategies as st

from colonnade.privacy.events import (
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
)


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
