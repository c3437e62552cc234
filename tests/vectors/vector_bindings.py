"""Which function computes which reference value: a name pattern, and a function of the value's inputs.

Most are functions of the library. Counterexamples, Monte-Carlo figures and brute force live in tests/oracles.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "oracles"))

import functional_brute_force as functional_brute
import matrix_brute_force as matrix_brute
import numpy as np
import paper_counterexamples as counterexamples
from homogeneous_loss import homogeneous_epsilon
from unclipped_messages import achieved_delta

from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.composition import itemise
from colonnade.privacy.conversion import epsilon_from_renyi
from colonnade.privacy.events import PoissonBinomial, Repeated, Skellam
from colonnade.privacy.gdp import gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_sigma
from colonnade.privacy.guarantee import account
from colonnade.privacy.loss import loss_distribution
from colonnade.privacy.paper import (
    functional_mechanism,
    hdp_vfl,
    pbm_vfl,
    skellam_moments,
    vertical_logistic,
)
from colonnade.privacy.poisson_binomial import homogeneous_renyi, poisson_binomial_renyi
from colonnade.privacy.renyi import least_epsilon, skellam_bound
from colonnade.privacy.sensitivity import functional, losses
from colonnade.privacy.sensitivity.gradient import GradientShape, fused_zero_out, three_part_formula
from colonnade.privacy.sensitivity.matrix import RowShape, triangle_change_replace, triangle_change_zero_out
from colonnade.privacy.sensitivity.messages import (
    Schedule,
    active_messages,
    encrypted_active_messages,
    encrypted_passive_messages,
    passive_messages,
)
from colonnade.privacy.sensitivity.rows import grid_sensitivity, norm_squared_bound
from colonnade.privacy.skellam import exact_skellam_renyi
from colonnade.privacy.subsampling import sampled_renyi

Inputs = Mapping[str, Any]
Binding = Callable[[Inputs, re.Match[str]], float]
BINDINGS: list[tuple[re.Pattern[str], Binding]] = []
NUMBER = r"[0-9.e+-]+"
MONTE_CARLO_SEED = 1


def binds(pattern: str) -> Callable[[Binding], Binding]:
    """Bind the names that match the whole pattern, in which # stands for a number."""

    def remember(function: Binding) -> Binding:
        BINDINGS.append((re.compile(pattern.replace("#", NUMBER)), function))
        return function

    return remember


def compute(name: str, inputs: Inputs) -> float:
    """The value that our code gives; a name without exactly one binding is an error."""
    found = [(match, function) for pattern, function in BINDINGS if (match := pattern.fullmatch(name))]
    if len(found) != 1:
        raise LookupError(f"{name} matches {len(found)} bindings; bind it to exactly one in {__file__}")
    match, function = found[0]
    return function(inputs, match)


# Conversions and the Gaussian mechanism


@binds("cks_conversion_a#_t#_d#")
def _(given, _name):
    return epsilon_from_renyi(given["alpha"], given["tau"], given["delta"])


@binds("eps_of_mu#_delta#")
def _(given, _name):
    return gaussian_epsilon(given["mu"], given["delta"])


@binds("mu_gdp_eps#_delta#")
def _(given, _name):
    return gaussian_mu(given["eps"], given["delta"])


@binds("gauss_sigma_analytic_eps#_delta#")
def _(given, _name):
    return gaussian_sigma(given["eps"], given["delta"], sensitivity=given["sens"])


@binds("gauss_sigma_classical_eps#_delta#")
def _(given, _name):
    return hdp_vfl.classical_sigma(given["eps"], given["delta"], sensitivity=given["sens"]).value


def classical_mu(epsilon: float, delta: float) -> float:
    return 1 / hdp_vfl.classical_sigma(epsilon, delta).value


@binds("gauss_true_(delta|eps)_of_classical_eps#_delta#")
def _(given, name):
    mu = classical_mu(given["eps"], given["delta"])
    return gaussian_delta(mu, given["eps"]) if name[1] == "delta" else gaussian_epsilon(mu, given["delta"])


@binds("classical_gaussian_breakdown_eps_delta#")
def _(given, _name):
    delta = given["delta"]
    return counterexamples.breakdown_epsilon(
        lambda epsilon: gaussian_delta(classical_mu(epsilon, delta), epsilon), delta
    )


@binds("grid_round_l2_inflation_.*")
def _(given, _name):
    return grid_sensitivity(given["Delta"], grid=given["grid"], coordinates=given["d"])


# Functional mechanism


@binds("fm_crossover_(linear|logistic)(_ball|_box)?(_addremove|_replace)?_d")
def _(given, name):
    zero_out = {
        "linear_ball": functional.linear_zero_out_in_ball,
        "linear": functional.linear_zero_out,
        "logistic_ball": functional.logistic_zero_out_in_ball,
        "logistic": functional.logistic_zero_out,
    }
    replace = {"linear": functional.linear_replace, "logistic": functional.logistic_replace}
    change = (replace if name[3] == "_replace" else zero_out)[name[1] + (name[2] or "").replace("_box", "")]
    return functional_brute.crossover(
        lambda d: float(change(d).l1),
        lambda d: change(d).l2,
        epsilon=given["eps"],
        sigma_per_unit=gaussian_sigma(given["eps"], given["delta"]),
    )


@binds("fm_geom_client_inflation_s#_K#")
def _(given, _name):
    return counterexamples.residual_geometric_inflation(given["scale"], given["K"])


@binds("fm_(?:linear_exact_L1|sound_Delta_linear)_d#")
def _(given, _name):
    return functional.linear_part_ordered_l1(given["d"], own=given["d"], holds_label=True)


@binds("fm_(?:logistic_exact_L1|sound_Delta_logistic)_d#")
def _(given, _name):
    return float(functional.logistic_part_ordered_l1(given["d"], own=given["d"], holds_label=True))


@binds("fm_logistic_upper_L([12])_addremove_d#")
def _(given, name):
    change = functional.logistic_zero_out(given["d"])
    return float(change.l1) if name[1] == "1" else change.l2


@binds("fm_logistic_upper_L([12])_replace_d#")
def _(given, name):
    return functional_brute.logistic_part(given["d"], int(name[1]), own=given["d"], holds_label=True)


@binds("fm_upper_replace_L1_m#")
def _(given, _name):
    return float(functional.linear_replace(given["m"] - 1).l1)


@binds("fm_upper_replace_L2_m#")
def _(given, _name):
    return functional_brute.linear_part(given["m"], 2, own=given["m"])


@binds("fm_paper_Delta_(linear|logistic)_d#")
def _(given, name):
    paper = {
        "linear": functional_mechanism.linear_sensitivity,
        "logistic": functional_mechanism.logistic_sensitivity,
    }
    return paper[name[1]](given["d"]).value


@binds("fm_party_(linear|logistic)_(exact|paper)_d#_a#_label[01]")
def _(given, name):
    function = {
        "linear exact": functional.linear_part_ordered_l1,
        "logistic exact": functional.logistic_part_ordered_l1,
        "linear paper": functional_mechanism.linear_party_sensitivity,
        "logistic paper": functional_mechanism.logistic_party_sensitivity,
    }[f"{name[1]} {name[2]}"]
    result = function(given["d"], own=given["d_k"], holds_label=bool(given["label"]))
    return result.value if name[2] == "paper" else float(result)


# HDP-VFL

LOSSES = r"logistic|least_squares|l2svm|poisson|gamma"


def loss_bounds(loss: str, given: Inputs) -> losses.LossBounds:
    radius, active, passive = given["k"], given.get("cA", 1), given.get("cB", 1)
    label = given.get("ky", given.get("k_y", 1.0))
    if loss == "logistic":
        return losses.logistic_bounds(radius=radius, active_cap=active)
    if loss == "l2svm":
        return losses.squared_hinge_bounds(radius=radius, active_cap=active, passive_cap=passive)
    bounds = {
        "least_squares": losses.least_squares_bounds,
        "poisson": losses.poisson_bounds,
        "gamma": losses.gamma_bounds,
    }[loss]
    return bounds(radius=radius, active_cap=active, passive_cap=passive, label_bound=label)


def clip_of(given: Inputs, bounds: losses.LossBounds) -> float:
    clip = given.get("clip", bounds.size)
    return float(clip.strip("[]").split(",")[1]) if isinstance(clip, str) else clip


def message_total(side: str, given: Inputs, loss: str) -> float:
    schedule = Schedule(rows=given["n"], batch=given["b"], epochs=given["e"])
    bounds = loss_bounds(loss, given)
    steps = {"radius": given["k"], "step_size": given["eta"], "ridge": given.get("lam", 0)}
    if side == "A":
        return active_messages(schedule, bounds, cap=given.get("cA", 1), **steps).total
    return passive_messages(schedule, cap=given.get("cB", 1), clip=clip_of(given, bounds), **steps).total


@binds("hdp_logistic_row_sens_k#(?:_.*)?")
def _(given, _name):
    return losses.logistic_bounds(radius=given["k"], active_cap=given["cA"]).row


@binds("hdp_paper_Delta([AB])_n#_b#_e#_k#_eta#")
def _(given, name):
    shared = {
        "batch": given["b"],
        "epochs": given["e"],
        "steps": given["T"],
        "radius": given["k"],
        "step_size": given["eta"],
        "lipschitz": given["L"],
    }
    if name[1] == "B":
        return hdp_vfl.passive_sensitivity(**shared).value
    return hdp_vfl.active_sensitivity(
        **shared, slope=given["beta_theta"], label_slope=given["beta_y"], label_bound=given["k_y"]
    ).value


@binds(f"hdp_sound_Delta([AB])(?:_clip#)?(?:_({LOSSES}))?(?:_n#)(?:_b#)?(?:_e#)?(?:_k#)?(?:_eta#)?(?:_c#)?")
def _(given, name):
    return message_total(name[1], given, name[2] or given.get("loss", "logistic"))


@binds("hdp_sigma([AB])_sound_n#_b#_eps#_delta#")
def _(given, name):
    total = message_total(name[1], given, given.get("loss", "logistic"))
    return gaussian_sigma(given["eps"], given["delta"], sensitivity=total)


@binds("hdp_unclipped_achieved_delta_n#_b#_eta#_eps#_delta#")
def _(given, _name):
    mean, _ = achieved_delta(
        rows=given["n"],
        batch=given["b"],
        epochs=given["e"],
        step_size=given["eta"],
        radius=given["k"],
        epsilon=given["eps"],
        delta=given["delta_target"],
        seed=MONTE_CARLO_SEED,
    )
    return mean


# PBM-VFL


@binds("pbm_S_M_#_a#")
def _(given, _name):
    return pbm_vfl.sample_factor(given["M"], given["alpha"]).value


def composed(given: Inputs) -> Repeated:
    return Repeated(PoissonBinomial(given["M"], given["b"], given["beta"]), times=given["compositions"])


@binds("pbm_eps_(paperC0eq1|pld|rdp|suppld)_M#_b#_beta#_e#")
def _(given, name):
    if name[1] == "paperC0eq1":
        return pbm_vfl.feature_epsilon(
            given["delta"],
            contributors=given["M"],
            trials=given["b"],
            beta=given["beta"],
            coordinates=given["P"],
            uses=given["epochs"],
        ).value
    if name[1] == "pld":
        return homogeneous_epsilon(
            given["M"],
            given["b"],
            given["beta"],
            times=given["compositions"],
            delta=given["delta"],
            interval=given["disc"],
        )
    items = itemise(composed(given))
    epsilon, _ = least_epsilon(items, given["delta"])
    if name[1] == "rdp":
        return epsilon
    distribution = loss_distribution(items, epsilon)
    assert distribution is not None
    return distribution.epsilon(given["delta"])


@binds("pbm_otherparty_renyi_M#_b#_beta#_a#")
def _(given, _name):
    return homogeneous_renyi(given["M"] - 1, given["b"], given["beta"], given["alpha"])


@binds("pbm_renyi_M#_b#_beta#_a#")
def _(given, _name):
    return homogeneous_renyi(given["M"], given["b"], given["beta"], given["alpha"])


@binds("pbm_sample_renyi_M#_b#_beta#_a#")
def _(given, _name):
    event = PoissonBinomial(given["M"], given["b"], given["beta"], changed=given["M"])
    return poisson_binomial_renyi(event, given["alpha"])


@binds("pbm_usecount_unionbound")
def _(given, _name):
    return counterexamples.most_uses(given["N"], batch=given["B"], steps=given["T"], failure=given["fail"])


@binds("protocol0_(tv|delta_inf)_b#(?:_.*)?")
def _(given, name):
    figure = {"tv": counterexamples.masked_total_variation, "delta_inf": counterexamples.masked_certainty}
    return figure[name[1]](*given["q"], masks=given["b"], parties=given["M"])


# Skellam, subsampling


@binds("poisson_subsampling_formula_(f3_)?a#_q#_c#")
def _(given, name):
    factor, divisor = map(float, given["tau_l"].split("*l/"))

    def divergence(order: float) -> float:
        return factor * order / divisor

    formula = counterexamples.general_subsampling if name[1] else sampled_renyi
    return formula(given["q"], divergence, given["alpha"])


@binds("skellam_bound_rdp_mu#_D#_a#")
def _(given, _name):
    squares = given["D2"] ** 2
    return skellam_bound(
        given["alpha"],
        mu=given["mu"],
        squares=squares,
        absolutes=given["D1"],
        fourth=squares,
        fourth_absolutes=given["D1"],
    )


@binds("skellam_exact_rdp_mu#_D#_a#")
def _(given, _name):
    return exact_skellam_renyi(given["Delta"], given["mu"], given["alpha"])


@binds("skellam_poisson_subsampled_rdp_mu#_D#_q#_a#")
def _(given, _name):
    return sampled_renyi(
        given["q"], lambda order: exact_skellam_renyi(given["Delta"], given["mu"], order), given["alpha"]
    )


# SLR


@binds("slr_Delta2_(paper|sound)_h([123])_n#_g#")
def _(given, name):
    part = int(name[2]) - 1
    if name[1] == "paper":
        return skellam_moments.gradient_moments(given["n"], given["gamma"], given["c_w"])[part].l2

    def norm(cap: float) -> float:
        square = norm_squared_bound(given["gamma"], cap**2, columns=given["n"], rounding="stochastic")
        return math.sqrt(square)

    return three_part_formula(given["gamma"], row_norm=norm(1), weight_norm=norm(given["c_w"]))[part]


GRADIENT_GRID = 2**20


def fused_unit(weight_cap: float, row_norm: float = 1.0) -> float:
    """The fused gradient's sensitivity in units of the gradient, on a grid fine enough to leave no trace."""
    shape = GradientShape(
        gamma=GRADIENT_GRID,
        columns=1,
        norm_squared=round((row_norm * GRADIENT_GRID) ** 2),
        weight_squared=round((weight_cap * GRADIENT_GRID) ** 2),
    )
    return float(fused_zero_out(shape).l2) / (4 * GRADIENT_GRID**3)


@binds("slr_fused_coeff_bound(?:_.*)?")
def _(given, _name):
    return fused_unit(given["c_w"], given["x_norm"]) / given["x_norm"]


@binds("slr_variance_ratio_(separate|optimal_separate)_over_fused(?:_.*)?")
def _(given, name):
    gamma, cap = 2.0**10, given["c_w"]
    parts = three_part_formula(gamma, row_norm=gamma, weight_norm=cap * gamma)
    scales = (1 / (2 * gamma), 1 / (4 * gamma**3), 1 / gamma**2)
    optimal = [part / scale for part, scale in zip(parts, scales, strict=True)]
    shares = [gamma**2, gamma**6, gamma**4] if name[1] == "separate" else optimal
    return counterexamples.separate_over_fused(parts, scales, fused_unit(cap), shares)


# SPCA


@binds("spca_B2_(paper|sound)_n#_g#")
def _(given, name):
    if name[1] == "paper":
        return skellam_moments.row_norm_squared(given["n"], given["gamma"]).value
    return norm_squared_bound(given["gamma"], 1, columns=given["n"], rounding="stochastic")


def sound_mu(given: Inputs, rounding: str) -> tuple[float, float]:
    """(μ for the server at ε, the squared norm it rests on)."""
    bound = norm_squared_bound(given["gamma"], 1, columns=given["n"], rounding=rounding)
    l1 = (given["n"] + 1) / 2 * bound
    mu = calibrate(lambda mu: Skellam(l1, bound, mu), epsilon=given["eps"], delta=given["delta"], digits=9)
    return float(mu), bound


def paper_mu(given: Inputs) -> tuple[float, skellam_moments.Moments]:
    moments = skellam_moments.gram_moments(given["n"], given["gamma"])
    return skellam_moments.server_mu(moments, given["eps"], given["delta"]).value, moments


@binds("spca_mu_paper_g#_eps#")
def _(given, _name):
    return paper_mu(given)[0]


@binds("spca_mu_sound_(stoch|retry|trunc)_g#_eps#")
def _(given, name):
    roundings = {"stoch": "stochastic", "retry": "retry", "trunc": "toward_zero"}
    return sound_mu(given, roundings[name[1]])[0]


@binds("spca_client_(eq9|proof|table)_g#_eps#")
def _(given, name):
    mu, moments = paper_mu(given)
    if name[1] == "eq9":
        figure = skellam_moments.client_epsilon(
            moments, mu, given["delta"], clients=given["N"], columns=given["n"]
        )
    elif name[1] == "proof":
        figure = skellam_moments.client_epsilon_of_proof(moments, mu, given["delta"], clients=given["N"])
    else:
        figure = skellam_moments.client_epsilon_of_tables(moments, mu, given["delta"])
    return figure.value


@binds("spca_client_sound(_retry_N#)?_g#_eps#")
def _(given, name):
    mu, bound = sound_mu(given, "retry" if name[1] else "stochastic")
    n, clients = given["n"], given["N"]
    event = Skellam(math.sqrt(n * (n + 1)) * bound, math.sqrt(2) * bound, mu * (clients - 1) / clients)
    return account(event, given["delta"]).epsilon


@binds("spca_delta1_counterexample_L1")
def _(given, _name):
    ones = np.ones((1, given["n"]), dtype=np.int64)
    return float(matrix_brute.measures(matrix_brute.outer(ones))[0, 4])


@binds("spca_delta1_factor_n#")
def _(given, _name):
    even = 2 * given["n"] ** 2  # so that (n + 1)/2 of it is an integer
    change = triangle_change_zero_out(RowShape(features=given["n"], norm_squared=even))
    return float(change.l1 / change.l2)


@binds("spca_eq13_counterexample_norm_sq")
def _(given, _name):
    return counterexamples.longest_rounding_of_a_flat_row(given["n"], given["gamma"])


@binds("spca_replace_one_L2_factor")
def _(_given, _name):
    change = triangle_change_replace(RowShape(features=2, norm_squared=2**40))
    return float(change.l2) / 2**40


# Vertical logistic regression


@binds("vlr_T_(minimax_)?eta#_eps#")
def _(given, name):
    steps = vertical_logistic.label_attack_steps_minimax if name[1] else vertical_logistic.label_attack_steps
    return steps(given["eta"], largest_score=given["eps0"]).value


@binds("vlr_pack_u_#_#")
def _(given, _name):
    return vertical_logistic.packed_values(given["kappa"], given["iota"]).value


@binds("vlr_sigma([AB])_eps#_e#_T#")
def _(given, name):
    sigma = {"A": vertical_logistic.active_sigma, "B": vertical_logistic.passive_sigma}[name[1]]
    return sigma(
        given["eps"],
        given["delta"],
        gradient_bound=given["G"],
        epochs=given["e"],
        steps=given["T"],
        step_size=given["eta"],
        batch=given["s"],
    ).value


@binds("vlr_sound_sens_([AB])(?:_.*)?")
def _(given, name):
    messages, radius, peer = {
        "A": (encrypted_active_messages, "kA", "clip_mB"),
        "B": (encrypted_passive_messages, "kB", "clip_mA"),
    }[name[1]]
    schedule = Schedule(rows=given["n"], batch=given["s"], epochs=given["e"])
    return messages(schedule, radius=given[radius], peer_clip=given[peer], step_size=given["eta"]).total
