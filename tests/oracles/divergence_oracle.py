"""Rényi and hockey-stick divergences straight from the definition, by mpmath: no formula of the library is used.

Densities are integrated, probabilities on the integers are summed, at 30 digits. Coins are exact fractions.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache

import mpmath as mp

Law = Callable[[int], mp.mpf]
DIGITS = 30


def renyi_of_densities(
    first: Callable[[mp.mpf], mp.mpf],
    second: Callable[[mp.mpf], mp.mpf],
    order: float,
    breaks: Sequence[float],
) -> float:
    with mp.workdps(DIGITS):
        total = mp.quad(lambda x: first(x) ** order * second(x) ** (1 - mp.mpf(order)), breaks)
        return float(mp.log(total) / (mp.mpf(order) - 1))


def gaussian_density(mean: float, sigma: float) -> Callable[[mp.mpf], mp.mpf]:
    return lambda x: mp.npdf(x, mean, sigma)


def laplace_density(mean: float, scale: float) -> Callable[[mp.mpf], mp.mpf]:
    return lambda x: mp.exp(-abs(x - mean) / mp.mpf(scale)) / (2 * mp.mpf(scale))


def skellam_law(mu: Fraction) -> Law:
    @cache
    def law(value: int) -> mp.mpf:
        with mp.workdps(DIGITS):
            argument = 2 * mp.mpf(mu.numerator) / mu.denominator
            return mp.exp(-argument) * mp.besseli(abs(value), argument)

    return law


def discrete_gaussian_law(sigma_squared: Fraction) -> Law:
    with mp.workdps(DIGITS):
        variance = mp.mpf(sigma_squared.numerator) / sigma_squared.denominator
        total = mp.jtheta(3, 0, mp.exp(-1 / (2 * variance)))

    @cache
    def law(value: int) -> mp.mpf:
        return mp.exp(-(mp.mpf(value) ** 2) / (2 * variance)) / total

    return law


def discrete_laplace_law(scale: Fraction) -> Law:
    with mp.workdps(DIGITS):
        ratio = mp.exp(-mp.mpf(scale.denominator) / scale.numerator)

    @cache
    def law(value: int) -> mp.mpf:
        with mp.workdps(DIGITS):
            return (1 - ratio) / (1 + ratio) * ratio ** abs(value)

    return law


def shifted(law: Law, shift: int) -> Law:
    return lambda value: law(value - shift)


def mixture(rate: float, first: Law, second: Law) -> Law:
    return lambda value: mp.mpf(rate) * first(value) + (1 - mp.mpf(rate)) * second(value)


def renyi_of_laws(first: Law, second: Law, order: float, window: Iterable[int]) -> float:
    """The sum over a window; what is left out makes the result smaller, never larger."""
    with mp.workdps(DIGITS):
        power = mp.mpf(order)
        total = mp.fsum(first(x) ** power * second(x) ** (1 - power) for x in window)
        return float(mp.log(total) / (power - 1))


def hockey_stick_of_laws(first: Law, second: Law, epsilon: float, window: Iterable[int]) -> float:
    with mp.workdps(DIGITS):
        scale = mp.exp(mp.mpf(epsilon))
        return float(mp.fsum(max(mp.mpf(0), first(x) - scale * second(x)) for x in window))


def sum_of_coins(probabilities: Sequence[Fraction]) -> list[Fraction]:
    law = [Fraction(1)]
    for p in probabilities:
        law = [a * (1 - p) + b * p for a, b in zip([*law, Fraction(0)], [Fraction(0), *law], strict=True)]
    return law


def _law(table: Sequence[Fraction]) -> Law:
    return lambda x: mp.mpf(table[x].numerator) / table[x].denominator


def renyi_of_tables(first: Sequence[Fraction], second: Sequence[Fraction], order: float) -> float:
    return renyi_of_laws(_law(first), _law(second), order, range(len(first)))


def hockey_stick_of_tables(first: Sequence[Fraction], second: Sequence[Fraction], epsilon: float) -> float:
    return hockey_stick_of_laws(_law(first), _law(second), epsilon, range(len(first)))


def neighbours_of_coins(
    own: int, others: int, levels: Sequence[Fraction]
) -> Iterable[tuple[list[Fraction], list[Fraction]]]:
    """Every pair of laws in which `own` coins change freely, coin by coin, and `others` do not."""
    for rest in itertools.combinations_with_replacement(levels, others):
        for pairs in itertools.combinations_with_replacement(list(itertools.product(levels, levels)), own):
            yield (
                sum_of_coins([*rest, *(before for before, _ in pairs)]),
                sum_of_coins([*rest, *(after for _, after in pairs)]),
            )
