"""Writes renyi_values.json: Rényi divergences of every mechanism, summed or integrated at 40 digits.

Independent of the library: each value is the divergence of two explicit laws, by definition, with mpmath. Run it
as `python tests/vectors/make_renyi_values.py` after adding a case.
"""

import json
from pathlib import Path
from typing import Any

import mpmath as mp

mp.mp.dps = 40
EXTENT = 400


def divergence(order: int, log_ratios_and_masses: list[tuple[mp.mpf, mp.mpf]]) -> mp.mpf:
    """log Σ q·(p/q)^α / (α − 1) from pairs (log p/q, q)."""
    return mp.log(mp.fsum(q * mp.exp(order * ratio) for ratio, q in log_ratios_and_masses)) / (order - 1)


def shifted(mass: Any, shift: int, order: int) -> mp.mpf:
    """The divergence of an integer law from itself shifted."""
    pairs = [(mp.log(mass(x - shift) / mass(x)), mass(x)) for x in range(-EXTENT, EXTENT + 1)]
    return divergence(order, pairs)


def skellam(mu: Any) -> Any:
    return lambda k: mp.exp(-2 * mu) * mp.besseli(abs(k), 2 * mu)


def discrete_gaussian(variance: Any) -> Any:
    total = mp.fsum(mp.exp(-(mp.mpf(x) ** 2) / (2 * variance)) for x in range(-EXTENT, EXTENT + 1))
    return lambda k: mp.exp(-(mp.mpf(k) ** 2) / (2 * variance)) / total


def discrete_laplace(scale: Any) -> Any:
    q = mp.exp(-1 / mp.mpf(scale))
    return lambda k: (1 - q) / (1 + q) * q ** abs(k)


def continuous(log_density: Any, shift: Any, order: int, ends: Any) -> mp.mpf:
    def integrand(x: Any) -> Any:
        return mp.exp(order * log_density(x - shift) + (1 - order) * log_density(x))

    return mp.log(mp.quad(integrand, ends)) / (order - 1)


def binomial(trials: int, p: Any) -> Any:
    return [mp.binomial(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)]


def convolved(left: Any, right: Any) -> Any:
    out = [mp.mpf(0)] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            out[i + j] += a * b
    return out


def poisson_binomial(contributors: Any, trials: int, beta: Any, order: int) -> mp.mpf:
    high, low = mp.mpf(1) / 2 + beta, mp.mpf(1) / 2 - beta
    p = binomial(contributors * trials, high)
    q = convolved(binomial((contributors - 1) * trials, high), binomial(trials, low))
    return divergence(order, [(mp.log(a / b), b) for a, b in zip(p, q, strict=True)])


def cases(order: int) -> list[tuple[dict[str, Any], mp.mpf, str]]:
    """Event, exact divergence of its worst pair here, and whether the rule must equal or bound it."""
    change = [[2, 1], [1, -1]]  # a symmetric integer matrix D
    entries = [(2, mp.mpf(30)), (-1, mp.mpf(30)), (1, mp.mpf(15))]
    matrix = {"frobenius": 3, "weighted_l1": 5, "fourth": 9, "fourth_l1": 7}
    squares = sum(value**2 for row in change for value in row)
    if squares != 7 or matrix["frobenius"] ** 2 < squares:
        raise SystemExit("the matrix case contradicts itself")
    return [
        (
            {"kind": "gaussian", "sensitivity": 2, "sigma": 3},
            continuous(lambda x: -(x**2) / 18 - mp.log(3 * mp.sqrt(2 * mp.pi)), 2, order, [-60, 0, 2, 60]),
            "equals",
        ),
        (
            {"kind": "laplace", "sensitivity": 1, "scale": 2},
            continuous(lambda x: -abs(x) / 2 - mp.log(4), 1, order, [-mp.inf, 0, 1, mp.inf]),
            "equals",
        ),
        (
            {"kind": "discrete-laplace", "sensitivity": 3, "scale": 4},
            shifted(discrete_laplace(4), 3, order),
            "equals",
        ),
        (
            {"kind": "discrete-gaussian", "sensitivity": 3, "sigma_squared": 20, "coordinates": 1},
            shifted(discrete_gaussian(mp.mpf(20)), 3, order),
            "bounds",
        ),
        (
            {"kind": "skellam", "l1": 3, "l2": 3, "mu": 20, "coordinates": None},
            shifted(skellam(mp.mpf(20)), 3, order),
            "bounds",
        ),
        (
            {"kind": "skellam", "l1": 3, "l2": 3, "mu": 20, "coordinates": 1},
            shifted(skellam(mp.mpf(20)), 3, order),
            "equals",
        ),
        (
            {"kind": "matrix-skellam", "change": {"kind": "matrix-change", **matrix}, "mu": 30},
            mp.fsum(shifted(skellam(mu), shift, order) for shift, mu in entries),
            "bounds",
        ),
        (
            {"kind": "per-step", "sensitivities": [3, 2], "sigma_squared": 20, "discrete": True},
            mp.fsum(shifted(discrete_gaussian(mp.mpf(20)), shift, order) for shift in (3, 2)),
            "bounds",
        ),
        (
            {"kind": "poisson-binomial", "contributors": 3, "trials": 4, "beta": "1/10", "changed": 1},
            poisson_binomial(3, 4, mp.mpf(1) / 10, order),
            "equals",
        ),
    ]


def main() -> None:
    values = [
        {"event": event, "order": order, "divergence": mp.nstr(value, 17), "rule": rule}
        for order in (2, 5, 16)
        for event, value, rule in cases(order)
    ]
    text = json.dumps({"about": __doc__.strip(), "values": values}, indent=1, ensure_ascii=False)
    Path(__file__).with_name("renyi_values.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
