"""Draw the figures of docs/soundness.md and write its tables and numbers: `python docs/figures/draw.py`.

The same library gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import soundness_tables as tables
from functional_formulas import linear_part_ordered_l1

from colonnade.privacy import paper as functional_mechanism
from colonnade.privacy import paper as hdp_vfl
from colonnade.privacy.events import PoissonBinomial, Repeated
from colonnade.privacy.guarantee import account
from colonnade.privacy.renyi import gaussian_mu
from colonnade.privacy.sensitivity import functional
from colonnade.report.charts import Axes, Series, draw

HERE = Path(__file__).parent
PAGE = HERE.parent / "soundness.md"
TABLE = re.compile(r"<!-- table: ([a-z_]+) -->\n(.*?)<!-- end -->", re.DOTALL)
NUMBER = re.compile(r"<!--=([a-z0-9.-]+)-->(.*?)<!---->")


def gaussian_lines() -> tuple[list[Series], Axes, str]:
    epsilons = tuple(10 ** (step / 8) for step in range(-8, 17))
    lines = []
    for delta in (0.01, 1e-5):
        classical = tuple(hdp_vfl.classical_sigma(epsilon, delta).value for epsilon in epsilons)
        needed = tuple(1 / gaussian_mu(epsilon, delta) for epsilon in epsilons)
        for name, sigmas in (("classical formula", classical), ("needed", needed)):
            lines.append(Series(f"{name}, δ = {delta:g}", epsilons, sigmas))
    return (
        lines,
        Axes("target ε", "σ/Δ", log_x=True, log_y=True),
        "Gaussian noise: classical formula and what is needed",
    )


def pbm_lines() -> tuple[list[Series], Axes, str]:
    epochs = (1, 2, 5, 10, 20, 50, 100)

    def exact(contributors: int) -> tuple[float, ...]:
        leaf = PoissonBinomial(contributors, 4, Fraction(1, 10))
        return tuple(account(Repeated(leaf, 16 * count), tables.DELTA).epsilon for count in epochs)

    places = tuple(map(float, epochs))
    lines = [
        Series("another party's view", places, exact(4)),
        Series("server's view", places, exact(5)),
        Series(
            "paper formula, C₀ = 1", places, tuple(tables.pbm_paper(5, 4, "0.1", count) for count in epochs)
        ),
    ]
    title = "PBM-VFL, M = 5, b = 4, β = 0.1, 16 coordinates: ε at δ = 1e-05"
    return lines, Axes("epochs", "ε", log_x=True, log_y=True), title


def spca_lines() -> tuple[list[Series], Axes, str]:
    places = tuple(map(float, tables.SERVER_EPSILONS))
    claims = [tables.spca_claims(server) for server in places]
    lines = [
        Series("printed in the tables", places, tuple(map(float, tables.PRINTED_CLIENTS))),
        Series("equation (9)", places, tuple(claim[0] for claim in claims)),
        Series("sound, 3 clients", places, tuple(tables.spca_client(server, 3) for server in places)),
        Series("sound, 117 clients", places, tuple(tables.spca_client(server, 117) for server in places)),
    ]
    title = "SPCA, n = 117, γ = 2¹²: what a client learns"
    return lines, Axes("server's ε", "client's ε", log_x=True, log_y=True), title


def functional_lines() -> tuple[list[Series], Axes, str]:
    features = (1, 2, 3, 5, 8, 14, 25, 50)
    places = tuple(map(float, features))
    lines = [
        Series(
            "paper, L1",
            places,
            tuple(float(functional_mechanism.linear_sensitivity(d).value) for d in features),
        ),
        Series(
            "all pairs, exact L1",
            places,
            tuple(float(linear_part_ordered_l1(d, own=d, holds_label=True)) for d in features),
        ),
        Series(
            "each pair once, L1", places, tuple(float(functional.linear_zero_out(d).l1) for d in features)
        ),
        Series("each pair once, L2", places, tuple(functional.linear_zero_out(d).l2 for d in features)),
    ]
    title = "Functional mechanism, linear regression: how far a record moves it"
    return lines, Axes("features d", "sensitivity", log_x=True, log_y=True), title


FIGURES: dict[str, Callable[[], tuple[list[Series], Axes, str]]] = {
    "classical-gaussian": gaussian_lines,
    "pbm-epsilon": pbm_lines,
    "spca-client": spca_lines,
    "functional-sensitivity": functional_lines,
}


def fill(page: str) -> str:
    """The page with every marked table and number computed anew."""
    page = TABLE.sub(
        lambda found: f"<!-- table: {found[1]} -->\n{tables.TABLES[found[1]]()}\n<!-- end -->", page
    )
    return NUMBER.sub(lambda found: f"<!--={found[1]}-->{tables.NUMBERS[found[1]]()}<!---->", page)


def main() -> None:
    for name, lines_of in FIGURES.items():
        lines, axes, title = lines_of()
        draw(HERE / f"{name}.svg", lines, axes, title=title)
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
