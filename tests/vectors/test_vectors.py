"""Every reference value, computed by our code from its inputs: a name pattern, and a function of the value's inputs.

Most are functions of the library. Counterexamples, Monte-Carlo figures and brute force live in tests/oracles. Further
files of the same form may be named in the environment variable COLONNADE_VECTORS, separated as in PATH. A name that no
binding matches fails.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import functional_brute_force as functional_brute
import functional_formulas as functional
import matrix_brute_force as matrix_brute
import numpy as np
import paper_counterexamples as counterexamples
import pytest
from homogeneous_loss import homogeneous_epsilon, homogeneous_renyi
from unclipped_messages import achieved_delta

from colonnade.privacy import paper
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.distributions import exact_skellam_renyi, poisson_binomial_renyi, sampled_renyi
from colonnade.privacy.events import PoissonBinomial, Repeated, Skellam, itemise
from colonnade.privacy.guarantee import account
from colonnade.privacy.loss import loss_distribution
from colonnade.privacy.renyi import (
    epsilon_from_renyi,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    least_epsilon,
    skellam_bound,
)
from colonnade.privacy.sensitivity import messages as losses
from colonnade.privacy.sensitivity.functional import linear_zero_out, logistic_zero_out
from colonnade.privacy.sensitivity.gradient import GradientShape, fused_zero_out
from colonnade.privacy.sensitivity.matrix import (
    RowShape,
    norm_squared_bound,
    triangle_change_replace,
    triangle_change_zero_out,
)
from colonnade.privacy.sensitivity.messages import (
    Schedule,
    active_messages,
    encrypted_messages,
    passive_messages,
)

MONTE_CARLO_SEED = 1

Inputs = Mapping[str, Any]
Binding = Callable[[Inputs, re.Match[str]], float]
BINDINGS: list[tuple[re.Pattern[str], Binding]] = []
NUMBER = r"[0-9.e+-]+"


def binds(pattern: str) -> Callable[[Binding], Binding]:
    """Bind the names that match the whole pattern, in which # stands for a number."""

    def remember(function: Binding) -> Binding:
        BINDINGS.append((re.compile(pattern.replace("#", NUMBER)), function))
        return function

    return remember


def compute(name: Any, inputs: Any) -> float:
    """The value that our code gives; a name without exactly one binding is an error."""
    found = [(match, function) for pattern, function in BINDINGS if (match := pattern.fullmatch(name))]
    if len(found) != 1:
        raise LookupError(f"{name} matches {len(found)} bindings; bind it to exactly one")
    match, function = found[0]
    return function(inputs, match)


ONE_LINE: dict[str, Binding] = {
    # Conversions and the Gaussian mechanism
    "cks_conversion_a#_t#_d#": lambda g, _: epsilon_from_renyi(g["alpha"], g["tau"], g["delta"]),
    "eps_of_mu#_delta#": lambda g, _: gaussian_epsilon(g["mu"], g["delta"]),
    "mu_gdp_eps#_delta#": lambda g, _: gaussian_mu(g["eps"], g["delta"]),
    "gauss_sigma_analytic_eps#_delta#": lambda g, _: g["sens"] / gaussian_mu(g["eps"], g["delta"]),
    "gauss_sigma_classical_eps#_delta#": lambda g, _: (
        paper.classical_sigma(g["eps"], g["delta"], sensitivity=g["sens"]).value
    ),
    "grid_round_l2_inflation_.*": lambda g, _: float(g["Delta"] + g["grid"] * math.sqrt(g["d"])),
    # PBM-VFL
    "pbm_S_M_#_a#": lambda g, _: counterexamples.sample_factor(g["M"], g["alpha"]),
    "pbm_otherparty_renyi_M#_b#_beta#_a#": lambda g, _: homogeneous_renyi(
        g["M"] - 1, g["b"], g["beta"], g["alpha"]
    ),
    "pbm_renyi_M#_b#_beta#_a#": lambda g, _: homogeneous_renyi(g["M"], g["b"], g["beta"], g["alpha"]),
    "pbm_sample_renyi_M#_b#_beta#_a#": lambda g, _: poisson_binomial_renyi(
        PoissonBinomial(g["M"], g["b"], g["beta"], changed=g["M"]), g["alpha"]
    ),
    "pbm_usecount_unionbound": lambda g, _: counterexamples.most_uses(
        g["N"], batch=g["B"], steps=g["T"], failure=g["fail"]
    ),
    "protocol0_tv_b#(?:_.*)?": lambda g, _: counterexamples.masked_total_variation(
        *g["q"], masks=g["b"], parties=g["M"]
    ),
    "protocol0_delta_inf_b#(?:_.*)?": lambda g, _: counterexamples.masked_certainty(
        *g["q"], masks=g["b"], parties=g["M"]
    ),
    # Skellam
    "skellam_exact_rdp_mu#_D#_a#": lambda g, _: exact_skellam_renyi(g["Delta"], g["mu"], g["alpha"]),
    "skellam_poisson_subsampled_rdp_mu#_D#_q#_a#": lambda g, _: sampled_renyi(
        g["q"], lambda order: exact_skellam_renyi(g["Delta"], g["mu"], order), g["alpha"]
    ),
    # SPCA
    "spca_B2_paper_n#_g#": lambda g, _: counterexamples.row_norm_squared(g["n"], g["gamma"]),
    "spca_B2_sound_n#_g#": lambda g, _: norm_squared_bound(
        g["gamma"], 1, columns=g["n"], rounding="stochastic"
    ),
    "spca_mu_paper_g#_eps#": lambda g, _: paper_mu(g)[0],
    "spca_mu_sound_(stoch|retry|trunc)_g#_eps#": lambda g, name: sound_mu(
        g, {"stoch": "stochastic", "retry": "retry", "trunc": "toward_zero"}[name[1]]
    )[0],
    "spca_delta1_counterexample_L1": lambda g, _: float(
        matrix_brute.measures(matrix_brute.outer(np.ones((1, g["n"]), dtype=np.int64)))[0, 4]
    ),
    "spca_eq13_counterexample_norm_sq": lambda g, _: counterexamples.longest_rounding_of_a_flat_row(
        g["n"], g["gamma"]
    ),
    "spca_replace_one_L2_factor": lambda _g, _: (
        float(triangle_change_replace(RowShape(features=2, norm_squared=2**40)).l2) / 2**40
    ),
    # Functional mechanism
    "fm_geom_client_inflation_s#_K#": lambda g, _: counterexamples.residual_geometric_inflation(
        g["scale"], g["K"]
    ),
    "fm_(?:linear_exact_L1|sound_Delta_linear)_d#": lambda g, _: functional.linear_part_ordered_l1(
        g["d"], own=g["d"], holds_label=True
    ),
    "fm_(?:logistic_exact_L1|sound_Delta_logistic)_d#": lambda g, _: float(
        functional.logistic_part_ordered_l1(g["d"], own=g["d"], holds_label=True)
    ),
    "fm_logistic_upper_L1_addremove_d#": lambda g, _: float(logistic_zero_out(g["d"]).l1),
    "fm_logistic_upper_L2_addremove_d#": lambda g, _: logistic_zero_out(g["d"]).l2,
    "fm_logistic_upper_L([12])_replace_d#": lambda g, name: functional_brute.logistic_part(
        g["d"], int(name[1]), own=g["d"], holds_label=True
    ),
    "fm_upper_replace_L1_m#": lambda g, _: float(functional.linear_replace(g["m"] - 1).l1),
    "fm_upper_replace_L2_m#": lambda g, _: functional_brute.linear_part(g["m"], 2, own=g["m"]),
    "fm_paper_Delta_linear_d#": lambda g, _: paper.linear_sensitivity(g["d"]).value,
    "fm_paper_Delta_logistic_d#": lambda g, _: paper.logistic_sensitivity(g["d"]).value,
    # HDP-VFL
    "hdp_logistic_row_sens_k#(?:_.*)?": lambda g, _: (
        losses.logistic_bounds(radius=g["k"], active_cap=g["cA"]).row
    ),
    # SLR
    "slr_fused_coeff_bound(?:_.*)?": lambda g, _: fused_unit(g["c_w"], g["x_norm"]) / g["x_norm"],
    # Vertical logistic regression
    "vlr_T_eta#_eps#": lambda g, _: paper.label_attack_steps(g["eta"], largest_score=g["eps0"]).value,
    "vlr_T_minimax_eta#_eps#": lambda g, _: (
        paper.label_attack_steps_minimax(g["eta"], largest_score=g["eps0"]).value
    ),
    "vlr_pack_u_#_#": lambda g, _: counterexamples.packed_values(g["kappa"], g["iota"]),
}
for _pattern, _function in ONE_LINE.items():
    binds(_pattern)(_function)


def classical_mu(epsilon: float, delta: float) -> float:
    return 1 / paper.classical_sigma(epsilon, delta).value


@binds("gauss_true_(delta|eps)_of_classical_eps#_delta#")
def _(given: Inputs, name: re.Match[str]) -> float:
    mu = classical_mu(given["eps"], given["delta"])
    return gaussian_delta(mu, given["eps"]) if name[1] == "delta" else gaussian_epsilon(mu, given["delta"])


@binds("classical_gaussian_breakdown_eps_delta#")
def _(given: Inputs, _name: re.Match[str]) -> float:
    delta = given["delta"]
    return counterexamples.breakdown_epsilon(
        lambda epsilon: gaussian_delta(classical_mu(epsilon, delta), epsilon), delta
    )


@binds("pbm_eps_(paperC0eq1|pld|rdp|suppld)_M#_b#_beta#_e#")
def _(given: Inputs, name: re.Match[str]) -> float:
    parties, trials, beta, delta = (given[key] for key in ("M", "b", "beta", "delta"))
    if name[1] == "paperC0eq1":
        coordinates, uses = given["P"], given["epochs"]
        return paper.feature_epsilon(
            delta, contributors=parties, trials=trials, beta=beta, coordinates=coordinates, uses=uses
        ).value
    times = given["compositions"]
    if name[1] == "pld":
        return homogeneous_epsilon(parties, trials, beta, times=times, delta=delta, interval=given["disc"])
    items = itemise(Repeated(PoissonBinomial(parties, trials, beta), times=times))
    epsilon, _ = least_epsilon(items, delta)
    if name[1] == "rdp":
        return epsilon
    distribution = loss_distribution(items, epsilon)
    assert distribution is not None
    return distribution.epsilon(delta)


@binds("poisson_subsampling_formula_(f3_)?a#_q#_c#")
def _(given: Inputs, name: re.Match[str]) -> float:
    factor, divisor = map(float, given["tau_l"].split("*l/"))
    formula = counterexamples.general_subsampling if name[1] else sampled_renyi
    return formula(given["q"], lambda order: factor * order / divisor, given["alpha"])


@binds("skellam_bound_rdp_mu#_D#_a#")
def _(given: Inputs, _name: re.Match[str]) -> float:
    squares, l1 = given["D2"] ** 2, given["D1"]
    return skellam_bound(
        given["alpha"], mu=given["mu"], squares=squares, absolutes=l1, fourth=squares, fourth_absolutes=l1
    )


def sound_mu(given: Inputs, rounding: Any) -> tuple[float, float]:
    """(μ for the server at ε, the squared norm it rests on)."""
    bound = norm_squared_bound(given["gamma"], 1, columns=given["n"], rounding=rounding)
    l1 = (given["n"] + 1) / 2 * bound
    mu = calibrate(lambda mu: Skellam(l1, bound, mu), epsilon=given["eps"], delta=given["delta"], digits=9)
    return float(mu), bound


def paper_mu(given: Inputs) -> tuple[float, paper.Moments]:
    moments = paper.gram_moments(given["n"], given["gamma"])
    return paper.server_mu(moments, given["eps"], given["delta"]).value, moments


@binds("spca_client_(eq9|proof|table)_g#_eps#")
def _(given: Inputs, name: re.Match[str]) -> float:
    mu, moments = paper_mu(given)
    delta, clients = given["delta"], given["N"]
    if name[1] == "eq9":
        return paper.client_epsilon(moments, mu, delta, clients=clients, columns=given["n"]).value
    if name[1] == "proof":
        return paper.client_epsilon_of_proof(moments, mu, delta, clients=clients).value
    return paper.client_epsilon_of_tables(moments, mu, delta).value


@binds("spca_client_sound(_retry_N#)?_g#_eps#")
def _(given: Inputs, name: re.Match[str]) -> float:
    mu, bound = sound_mu(given, "retry" if name[1] else "stochastic")
    n, clients = given["n"], given["N"]
    event = Skellam(math.sqrt(n * (n + 1)) * bound, math.sqrt(2) * bound, mu * (clients - 1) / clients)
    return account(event, given["delta"]).epsilon


@binds("spca_delta1_factor_n#")
def _(given: Inputs, _name: re.Match[str]) -> float:
    even = 2 * given["n"] ** 2  # so that (n + 1)/2 of it is an integer
    change = triangle_change_zero_out(RowShape(features=given["n"], norm_squared=even))
    return float(change.l1 / change.l2)


@binds("fm_crossover_(linear|logistic)(_ball|_box)?(_addremove|_replace)?_d")
def _(given: Inputs, name: re.Match[str]) -> float:
    changes: dict[str, Callable[[int], Any]] = {
        "linear": linear_zero_out,
        "linear_ball": functional.linear_zero_out_in_ball,
        "linear_replace": functional.linear_replace,
        "logistic": logistic_zero_out,
        "logistic_ball": functional.logistic_zero_out_in_ball,
        "logistic_replace": functional.logistic_replace,
    }
    change = changes[name[1] + ("_replace" if name[3] == "_replace" else (name[2] or "").replace("_box", ""))]
    return functional_brute.crossover(
        lambda d: float(change(d).l1),
        lambda d: change(d).l2,
        epsilon=given["eps"],
        sigma_per_unit=1 / gaussian_mu(given["eps"], given["delta"]),
    )


@binds("fm_party_(linear|logistic)_(exact|paper)_d#_a#_label[01]")
def _(given: Inputs, name: re.Match[str]) -> float:
    function: Callable[..., Any] = {
        "linear exact": functional.linear_part_ordered_l1,
        "logistic exact": functional.logistic_part_ordered_l1,
        "linear paper": paper.linear_party_sensitivity,
        "logistic paper": paper.logistic_party_sensitivity,
    }[f"{name[1]} {name[2]}"]
    result = function(given["d"], own=given["d_k"], holds_label=bool(given["label"]))
    return float(result.value if name[2] == "paper" else result)


LOSSES = r"logistic|least_squares|l2svm|poisson|gamma"


def loss_bounds(loss: str, given: Inputs) -> losses.LossBounds:
    radius, active, passive = given["k"], given.get("cA", 1), given.get("cB", 1)
    label = given.get("ky", given.get("k_y", 1.0))
    if loss == "logistic":
        return losses.logistic_bounds(radius=radius, active_cap=active)
    if loss == "l2svm":
        return losses.squared_hinge_bounds(radius=radius, active_cap=active, passive_cap=passive)
    bounds: Callable[..., losses.LossBounds] = getattr(losses, f"{loss}_bounds")
    return bounds(radius=radius, active_cap=active, passive_cap=passive, label_bound=label)


def message_total(side: str, given: Inputs, loss: str) -> float:
    schedule = Schedule(rows=given["n"], batch=given["b"], epochs=given["e"])
    bounds = loss_bounds(loss, given)
    steps = {"radius": given["k"], "step_size": given["eta"], "ridge": given.get("lam", 0)}
    if side == "A":
        return active_messages(schedule, bounds, cap=given.get("cA", 1), **steps).total
    clip = given.get("clip", bounds.size)
    clip = float(clip.strip("[]").split(",")[1]) if isinstance(clip, str) else clip
    return passive_messages(schedule, cap=given.get("cB", 1), clip=clip, **steps).total


@binds("hdp_paper_Delta([AB])_n#_b#_e#_k#_eta#")
def _(given: Inputs, name: re.Match[str]) -> float:
    shared = {
        "batch": given["b"],
        "epochs": given["e"],
        "steps": given["T"],
        "radius": given["k"],
        "step_size": given["eta"],
        "lipschitz": given["L"],
    }
    if name[1] == "B":
        return paper.passive_sensitivity(**shared).value
    return paper.active_sensitivity(
        **shared, slope=given["beta_theta"], label_slope=given["beta_y"], label_bound=given["k_y"]
    ).value


@binds(f"hdp_sound_Delta([AB])(?:_clip#)?(?:_({LOSSES}))?(?:_n#)(?:_b#)?(?:_e#)?(?:_k#)?(?:_eta#)?(?:_c#)?")
def _(given: Inputs, name: re.Match[str]) -> float:
    return message_total(name[1], given, name[2] or given.get("loss", "logistic"))


@binds("hdp_sigma([AB])_sound_n#_b#_eps#_delta#")
def _(given: Inputs, name: re.Match[str]) -> float:
    total = message_total(name[1], given, given.get("loss", "logistic"))
    return total / gaussian_mu(given["eps"], given["delta"])


@binds("hdp_unclipped_achieved_delta_n#_b#_eta#_eps#_delta#")
def _(given: Inputs, _name: re.Match[str]) -> float:
    keys = {"rows": "n", "batch": "b", "epochs": "e", "step_size": "eta", "radius": "k", "epsilon": "eps"}
    how = {name: given[key] for name, key in keys.items()}
    return achieved_delta(**how, delta=given["delta_target"], seed=MONTE_CARLO_SEED)[0]


def three_parts(gamma: float, *, row_norm: float, weight_norm: float) -> tuple[float, float, float]:
    """B, ‖w̄‖B² and γB for a real bound B on ‖x̄‖: the formula of `three_part_zero_out`."""
    return row_norm, weight_norm * row_norm**2, gamma * row_norm


@binds("slr_Delta2_(paper|sound)_h([123])_n#_g#")
def _(given: Inputs, name: re.Match[str]) -> float:
    part = int(name[2]) - 1
    if name[1] == "paper":
        return paper.gradient_moments(given["n"], given["gamma"], given["c_w"])[part].l2

    def norm(cap: float) -> float:
        square = norm_squared_bound(given["gamma"], cap**2, columns=given["n"], rounding="stochastic")
        return math.sqrt(square)

    return three_parts(given["gamma"], row_norm=norm(1), weight_norm=norm(given["c_w"]))[part]


def fused_unit(weight_cap: float, row_norm: float = 1.0) -> float:
    """The fused gradient's sensitivity in units of the gradient, on a grid fine enough to leave no trace."""
    grid = 2**20
    norm, weight = (round((length * grid) ** 2) for length in (row_norm, weight_cap))
    shape = GradientShape(gamma=grid, columns=1, norm_squared=norm, weight_squared=weight)
    return float(fused_zero_out(shape).l2) / (4 * grid**3)


@binds("slr_variance_ratio_(separate|optimal_separate)_over_fused(?:_.*)?")
def _(given: Inputs, name: re.Match[str]) -> float:
    gamma, cap = 2.0**10, given["c_w"]
    parts = three_parts(gamma, row_norm=gamma, weight_norm=cap * gamma)
    scales = (1 / (2 * gamma), 1 / (4 * gamma**3), 1 / gamma**2)
    optimal = [part / scale for part, scale in zip(parts, scales, strict=True)]
    shares = [gamma**2, gamma**6, gamma**4] if name[1] == "separate" else optimal
    return counterexamples.separate_over_fused(parts, scales, fused_unit(cap), shares)


@binds("vlr_sigma([AB])_eps#_e#_T#")
def _(given: Inputs, name: re.Match[str]) -> float:
    sigma = {"A": paper.active_sigma, "B": paper.passive_sigma}[name[1]]
    keys = {"gradient_bound": "G", "epochs": "e", "steps": "T", "step_size": "eta", "batch": "s"}
    return sigma(given["eps"], given["delta"], **{name: given[key] for name, key in keys.items()}).value


@binds("vlr_sound_sens_([AB])(?:_.*)?")
def _(given: Inputs, name: re.Match[str]) -> float:
    radius, peer = {"A": ("kA", "clip_mB"), "B": ("kB", "clip_mA")}[name[1]]
    schedule = Schedule(rows=given["n"], batch=given["s"], epochs=given["e"])
    settings = {"radius": given[radius], "peer_clip": given[peer], "step_size": given["eta"]}
    return encrypted_messages(schedule, active=name[1] == "A", **settings).total


OWN = Path(__file__).with_name("reference_values.json")
FURTHER = [Path(name) for name in os.environ.get("COLONNADE_VECTORS", "").split(os.pathsep) if name]
VECTORS = [vector for path in (OWN, *FURTHER) for vector in json.loads(path.read_text("utf-8"))["values"]]
PARTS = 8


def agrees(found: float, expected: Any, *, tolerance: Any, kind: str) -> bool:
    allowed = tolerance * abs(expected) if kind == "relative" else tolerance
    return math.isfinite(found) and abs(found - expected) <= allowed


def difference(vector: dict[str, Any]) -> str:
    """In which way our code does not reproduce a value, or nothing."""
    found = compute(vector["name"], vector["inputs"])
    kind = vector.get("tolerance_kind", "relative")
    assert kind in ("relative", "absolute")
    if agrees(found, vector["value"], tolerance=vector["tolerance"], kind=kind):
        return ""
    return f"{vector['name']}: {found!r}, not {vector['value']!r} within {vector['tolerance']} ({kind})"


@pytest.mark.parametrize("part", range(PARTS))
def test_our_code_reproduces(part: int) -> None:
    assert len(VECTORS) > 200
    assert [wrong for vector in VECTORS[part::PARTS] if (wrong := difference(vector))] == []


def test_a_name_that_nothing_binds_fails() -> None:
    with pytest.raises(LookupError, match="matches 0 bindings"):
        compute("eps_of_everything", {})


def test_names_are_unique_and_every_binding_is_used() -> None:
    names = [vector["name"] for vector in VECTORS]
    assert len(set(names)) == len(names) or FURTHER
    unused = [pattern.pattern for pattern, _ in BINDINGS if not any(map(pattern.fullmatch, names))]
    assert unused == []


def test_the_comparison_would_notice_a_value_just_outside_its_tolerance() -> None:
    assert agrees(1.0 + 1e-9, 1.0, tolerance=1e-9 * (1 + 1e-6), kind="relative")
    assert not agrees(1.0 + 1.1e-9, 1.0, tolerance=1e-9, kind="relative")
    assert not agrees(4.0000001, 4.0, tolerance=0, kind="absolute")
    assert not agrees(math.nan, 1.0, tolerance=1.0, kind="absolute")
