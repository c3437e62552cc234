"""Every number on docs/soundness.md, computed by the library (or, for counterexamples, by tests/oracles).

`TABLES` holds the tables, `NUMBERS` the figures inside sentences. `draw.py` writes them into the page and a test
compares the page with them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "oracles"))

from functional_formulas import linear_part_ordered_l1, logistic_part_ordered_l1
from paper_counterexamples import (
    breakdown_epsilon,
    longest_rounding_of_a_flat_row,
    masked_certainty,
    masked_total_variation,
    most_uses,
    packed_values,
    residual_geometric_inflation,
    row_norm_squared,
    sample_factor,
)
from unclipped_messages import achieved_delta

from colonnade.privacy import (
    paper as functional_mechanism,
)
from colonnade.privacy import (
    paper as hdp_vfl,
)
from colonnade.privacy import (
    paper as pbm_vfl,
)
from colonnade.privacy import (
    paper as skellam_moments,
)
from colonnade.privacy import (
    paper as vertical_logistic,
)
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import PoissonBinomial, Repeated, Skellam
from colonnade.privacy.guarantee import account
from colonnade.privacy.renyi import gaussian_delta, gaussian_epsilon, gaussian_mu, renyi
from colonnade.privacy.sensitivity import functional
from colonnade.privacy.sensitivity.matrix import (
    Rounding,
    RowShape,
    rounded_norm_squared,
    triangle_change_replace,
    triangle_change_zero_out,
)
from colonnade.privacy.sensitivity.messages import (
    Schedule,
    active_messages,
    encrypted_messages,
    logistic_bounds,
    passive_messages,
)

DELTA = 1e-5
COLUMNS = CLIENTS = 117
SERVER_EPSILONS = (0.25, 0.5, 1, 2, 4, 8, 16)
PRINTED_CLIENTS = ("0.77", "1.54", "3.14", "6.53", "13.75", "29.92", "70.33")
"""The client row of SPCA's Tables 1 and 2, as printed there."""

FLOAT_DRAWS = 400_000


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(value: float, digits: int = 4) -> str:
    """A number to so many significant digits, without an exponent where that is short."""
    text = f"{value:.{digits}g}"
    return text if "e" not in text or abs(value) >= 10**9 or abs(value) < 1e-3 else f"{value:.0f}"


def classical() -> str:
    rows = []
    for delta in (0.01, DELTA):
        for epsilon in (0.1, 1, 10, 100):
            sigma = hdp_vfl.classical_sigma(epsilon, delta).value
            rows.append(
                (
                    f"{epsilon:g}",
                    f"{delta:g}",
                    figure(sigma),
                    figure(1 / gaussian_mu(epsilon, delta)),
                    figure(gaussian_epsilon(1 / sigma, delta)),
                )
            )
    return markdown(("target ε", "δ", "classical σ/Δ", "needed σ/Δ", "ε that the classical σ gives"), rows)


def passive_paper(rows: int, batch: int) -> float:
    steps = 10 * -(-rows // batch)
    return hdp_vfl.passive_sensitivity(
        batch=batch, epochs=10, steps=steps, radius=1, step_size=0.1, lipschitz=1
    ).value


def active_paper(rows: int, batch: int) -> float:
    steps = 10 * -(-rows // batch)
    return hdp_vfl.active_sensitivity(
        batch=batch,
        epochs=10,
        steps=steps,
        radius=1,
        step_size=0.1,
        lipschitz=1,
        slope=0.25,
        label_slope=1.1,
        label_bound=1,
    ).value


def sound_messages(sender: str, rows: int, batch: int) -> float:
    schedule = Schedule(rows, batch, 10)
    if sender == "passive":
        return passive_messages(schedule, radius=1, cap=1, step_size=0.1, clip=1).total
    bounds = logistic_bounds(radius=1, active_cap=1)
    return active_messages(schedule, bounds, radius=1, cap=1, step_size=0.1).total


def messages() -> str:
    rows = []
    for sender, paper_of in (("passive", passive_paper), ("active", active_paper)):
        for count, batch in ((569, 569), (30000, 3200), (569, 32)):
            paper, sound = paper_of(count, batch), sound_messages(sender, count, batch)
            row = [sender, f"{count}, {batch}", figure(paper, 5), figure(sound, 5)]
            for epsilon, delta in ((1, 0.01), (1, DELTA), (10, 0.01)):
                claimed = hdp_vfl.classical_sigma(epsilon, delta, sensitivity=paper).value
                needed = sound / gaussian_mu(epsilon, delta)
                row.append(f"{figure(claimed)} → {figure(needed)}")
            rows.append(row)
    head = (
        "sender",
        "rows, batch",
        "Δ, paper",
        "Δ, ours",
        "σ at (1, 0.01)",
        "σ at (1, 1e-05)",
        "σ at (10, 0.01)",
    )
    return markdown(head, rows)


def unclipped() -> str:
    rows = []
    for count, batch in ((4000, 200), (569, 32), (569, 569), (30000, 3200)):
        reached, error = achieved_delta(
            rows=count, batch=batch, epochs=10, step_size=0.1, radius=1, epsilon=1, delta=DELTA, seed=1
        )
        rows.append(
            (
                f"{count}, {batch}",
                "1",
                f"{DELTA:g}",
                f"{reached:.1e} ± {error:.0e}",
                "yes" if reached > DELTA else "no",
            )
        )
    return markdown(("rows, batch", "ε", "δ promised", "δ reached", "broken?"), rows)


def implied_constant(contributors: int, trials: int, beta: Fraction, order: float) -> float:
    divergence = renyi(PoissonBinomial(contributors, trials, beta), order)
    return divergence * contributors / (trials * float(beta) ** 2 * order)


def pbm_constant() -> str:
    rows = []
    for contributors, trials, beta in (
        (4, 4, "0.05"),
        (5, 4, "0.1"),
        (4, 16, "0.15"),
        (2, 16, "0.25"),
        (9, 2, "0.25"),
    ):
        exact = Fraction(beta)
        limit = 8 / (1 - 4 * float(exact) ** 2)
        rows.append(
            (
                f"{contributors}, {trials}, {beta}",
                figure(renyi(PoissonBinomial(contributors, trials, exact), 2.0)),
                figure(implied_constant(contributors, trials, exact, 2.0)),
                figure(implied_constant(contributors, trials, exact, 4.0)),
                figure(limit),
            )
        )
    return markdown(
        ("M, b, β", "divergence at α = 2", "C₀ at α = 2", "C₀ at α = 4", "C₀ of a Gaussian"), rows
    )


def pbm_server(contributors: int, trials: int, beta: str, uses: int) -> float:
    return account(Repeated(PoissonBinomial(contributors, trials, Fraction(beta)), 16 * uses), DELTA).epsilon


def pbm_paper(contributors: int, trials: int, beta: str, uses: int) -> float:
    return pbm_vfl.feature_epsilon(
        DELTA, contributors=contributors, trials=trials, beta=float(beta), coordinates=16, uses=uses
    ).value


def pbm_epsilon() -> str:
    rows = []
    for case in (
        (2, 4, "0.05", 1),
        (5, 4, "0.1", 1),
        (5, 4, "0.1", 10),
        (10, 4, "0.05", 10),
        (4, 4, "0.05", 600),
    ):
        contributors, trials, beta, epochs = case
        rows.append(
            (
                ", ".join(map(str, case)),
                figure(pbm_paper(*case), 3),
                figure(pbm_server(*case), 3),
                figure(pbm_server(contributors - 1, trials, beta, epochs), 3),
            )
        )
    return markdown(("M, b, β, epochs", "paper formula, C₀ = 1", "server", "another party"), rows)


def pbm_sample() -> str:
    rows = []
    for contributors in (2, 5, 10):
        paper = sample_factor(contributors, 2.0)
        whole = renyi(PoissonBinomial(contributors, 16, Fraction(1, 10), contributors), 2.0)
        part = renyi(PoissonBinomial(contributors, 16, Fraction(1, 10)), 2.0)
        rows.append((str(contributors), figure(paper / 2), figure(whole / part), str(contributors**2)))
    return markdown(("M", "S_M(2)/2, paper", "whole record over one part, exact", "M²"), rows)


def paillier() -> str:
    schedule = Schedule(12665, 256, 30)
    common: dict[str, Any] = {
        "gradient_bound": 1,
        "epochs": 30,
        "steps": schedule.steps,
        "step_size": 0.01,
        "batch": 256,
    }
    sides = (
        (
            "active",
            vertical_logistic.active_sigma,
            encrypted_messages(schedule, active=True, radius=2, peer_clip=2, step_size=0.01),
        ),
        (
            "passive",
            vertical_logistic.passive_sigma,
            encrypted_messages(schedule, active=False, radius=2, peer_clip=4, step_size=0.01),
        ),
    )
    rows = []
    for name, paper, sound in sides:
        row = [name, figure(sound.total)]
        for delta in (0.1, DELTA):
            claimed = paper(0.5, delta, **common).value
            row += [figure(claimed), figure(sound.total / gaussian_mu(0.5, delta))]
        rows.append(row)
    return markdown(
        ("sender", "Δ, ours", "σ at (0.5, 0.1), paper", "ours", "σ at (0.5, 1e-05), paper", "ours"), rows
    )


def label_attack() -> str:
    rows = []
    for step in (0.1, 0.01, 0.001):
        rows.append(
            (
                f"{step:g}",
                str(vertical_logistic.label_attack_steps(step).value),
                str(vertical_logistic.label_attack_steps_minimax(step).value),
            )
        )
    return markdown(("step size η", "steps, Taylor", "steps, minimax"), rows)


def reachable_norm_squared(columns: int, gamma: int) -> int:
    """‖x̄‖² of a row with ‖γx‖² < γ² whose entries lie just above k or k + 1 and are all rounded up."""
    low = math.isqrt((gamma**2 - 1) // columns)
    higher = min(columns, (gamma**2 - 1 - columns * low**2) // (2 * low + 1))
    return higher * (low + 2) ** 2 + (columns - higher) * (low + 1) ** 2


def spca_rows() -> str:
    rows = []
    for exponent in (4, 6, 12):
        gamma = 2**exponent
        bounds = [
            str(rounded_norm_squared(gamma, 1, columns=COLUMNS, rounding=rounding))
            for rounding in ("stochastic", "retry", "nearest", "toward_zero")
        ]
        claimed = row_norm_squared(COLUMNS, gamma)
        rows.append((f"2^{exponent}", str(claimed), str(reachable_norm_squared(COLUMNS, gamma)), *bounds))
    head = ("γ", "equation (13)", "some row reaches", "bound, stochastic", "retry", "nearest", "toward zero")
    return markdown(head, rows)


@cache
def spca_mu(server_epsilon: float, rounding: Rounding) -> Fraction:
    row = RowShape(COLUMNS, rounded_norm_squared(2**12, 1, columns=COLUMNS, rounding=rounding))
    change = triangle_change_zero_out(row)
    return calibrate(lambda mu: Skellam(change.l1, change.l2, mu), epsilon=server_epsilon, delta=DELTA)


@cache
def spca_client(server_epsilon: float, clients: int) -> float:
    """What one of so many clients learns, when the server's ε is this: √2 and the noise of the others."""
    row = RowShape(COLUMNS, rounded_norm_squared(2**12, 1, columns=COLUMNS, rounding="retry"))
    change = triangle_change_replace(row)
    mu = spca_mu(server_epsilon, "retry") * Fraction(clients - 1, clients)
    return account(Skellam(change.l1, change.l2, mu), DELTA).epsilon


def spca_claims(server_epsilon: float) -> tuple[float, float, float]:
    """A client's ε by equation (9), by its proof and by what the tables follow."""
    moments = skellam_moments.gram_moments(COLUMNS, 2**12)
    mu = skellam_moments.server_mu(moments, server_epsilon, DELTA).value
    return (
        skellam_moments.client_epsilon(moments, mu, DELTA, clients=CLIENTS, columns=COLUMNS).value,
        skellam_moments.client_epsilon_of_proof(moments, mu, DELTA, clients=CLIENTS).value,
        skellam_moments.client_epsilon_of_tables(moments, mu, DELTA).value,
    )


def spca_clients() -> str:
    rows = []
    for server, printed in zip(SERVER_EPSILONS, PRINTED_CLIENTS, strict=True):
        equation, proof, tables = spca_claims(server)
        sound = [f"{spca_client(server, clients):.3f}" for clients in (CLIENTS, 3)]
        rows.append((f"{server:g}", f"{equation:.3f}", f"{proof:.3f}", f"{tables:.3f}", printed, *sound))
    head = (
        "server's ε",
        "equation (9)",
        "its proof",
        "factor 8",
        "printed",
        "sound, 117 clients",
        "sound, 3 clients",
    )
    return markdown(head, rows)


def functional_whole() -> str:
    rows = []
    for d in (1, 3, 10, 14):
        zeroed, logistic = functional.linear_zero_out(d), functional.logistic_zero_out(d)
        rows.append(
            (
                str(d),
                figure(functional_mechanism.linear_sensitivity(d).value),
                str(linear_part_ordered_l1(d, own=d, holds_label=True)),
                figure(float(zeroed.l1)),
                figure(zeroed.l2),
                figure(functional_mechanism.logistic_sensitivity(d).value),
                figure(float(logistic_part_ordered_l1(d, own=d, holds_label=True))),
                figure(float(logistic.l1)),
                figure(logistic.l2),
            )
        )
    head = (
        "d",
        "linear: paper L1",
        "exact",
        "triangle L1",
        "triangle L2",
        "logistic: paper L1",
        "exact",
        "triangle L1",
        "triangle L2",
    )
    return markdown(head, rows)


def functional_party() -> str:
    rows = []
    for d, own, label in ((10, 1, False), (10, 1, True), (14, 3, False), (800, 200, False)):
        paper = functional_mechanism.linear_party_sensitivity(d, own=own, holds_label=label).value
        exact = linear_part_ordered_l1(d, own=own, holds_label=label)
        rows.append(
            (str(d), str(own), "yes" if label else "no", str(paper), str(exact), f"{exact / paper:.2f}")
        )
    return markdown(("features", "own", "holds the label", "paper", "exact", "ε too small by"), rows)


def laplace_or_gaussian() -> str:
    rows = []
    for d in (1, 2, 3, 5, 14):
        change = functional.linear_zero_out(d)
        paper = math.sqrt(2) * functional_mechanism.linear_sensitivity(d).value
        laplace = math.sqrt(2) * float(change.l1)
        normal = change.l2 / gaussian_mu(1.0, DELTA)
        rows.append((str(d), figure(paper, 3), figure(laplace, 3), figure(normal, 3)))
    return markdown(("d", "Laplace, paper's L1", "Laplace, triangle", "Gaussian, triangle"), rows)


def polya() -> str:
    rows = []
    for parties in (2, 3, 5, 10):
        inflated = [figure(residual_geometric_inflation(scale, parties), 3) for scale in (1, 10, 100)]
        rows.append((str(parties), *inflated))
    return markdown(("owners K", "scale 1", "scale 10", "scale 100"), rows)


def floats() -> str:
    source = np.random.default_rng(2012)
    rows = []
    for name, draw in (("Laplace", source.laplace), ("normal", source.normal)):
        counts = []
        for value in (0.0, 1.0):
            outputs = value + draw(size=FLOAT_DRAWS)
            near = outputs[np.abs(outputs) < 0.25]
            counts.append(str(int(np.count_nonzero(near * 2.0**53 % 1 != 0))))
        rows.append((name, *counts))
    return markdown(("noise in doubles", "seen for the value 0", "seen for the value 1"), rows)


TABLES: dict[str, Callable[[], str]] = {
    table.__name__: table
    for table in (
        classical,
        messages,
        unclipped,
        pbm_constant,
        pbm_epsilon,
        pbm_sample,
        paillier,
        label_attack,
        spca_rows,
        spca_clients,
        functional_whole,
        functional_party,
        laplace_or_gaussian,
        polya,
        floats,
    )
}


def _breakdown(delta: float) -> str:
    """Up to which ε the classical σ still reaches its δ."""

    def reached(epsilon: float) -> float:
        return gaussian_delta(1 / hdp_vfl.classical_sigma(epsilon, delta).value, epsilon)

    return f"{breakdown_epsilon(reached, delta):.2f}"


def _mean_sign(looks: int) -> str:
    """How often the sign of the mean of so many looks at ±2 under noise of deviation 10 is right."""
    return f"{NormalDist().cdf(2 * math.sqrt(looks) / 10):.3f}"


NUMBERS: dict[str, Callable[[], str]] = {
    "breaks-at-0.01": partial(_breakdown, 0.01),
    "breaks-at-1e-5": partial(_breakdown, DELTA),
    "row-logistic": lambda: f"{logistic_bounds(radius=1, active_cap=1).row:.4f}",
    "sign-1": partial(_mean_sign, 1),
    "sign-30": partial(_mean_sign, 30),
    "flat-row": lambda: str(longest_rounding_of_a_flat_row(COLUMNS, 16)),
    "mask-distance": lambda: f"{masked_total_variation(0, 16, masks=16, parties=2):.2f}",
    "mask-certainty": lambda: f"{masked_certainty(0, 16, masks=16, parties=2):.2f}",
    "most-uses": lambda: str(most_uses(7353, batch=100, steps=7353, failure=1e-6)),
    "baseline": lambda: f"{8 / (1 - 4 * 0.1**2):.2f}",
    "delta-1": lambda: str(triangle_change_zero_out(RowShape(COLUMNS, COLUMNS)).l1),
    "delta-1-paper": lambda: f"{math.sqrt(COLUMNS) * COLUMNS:.1f}",
    "fields": lambda: str(packed_values(2048, 64)),
}
"""Figures inside sentences."""
