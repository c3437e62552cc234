"""Bindings of sensitivities: functional mechanism, HDP-VFL, SLR, vertical logistic regression."""

import math
from re import Match

import functional_brute_force as functional_brute
import functional_formulas
import paper_counterexamples as counterexamples
from typed import untyped
from unclipped_messages import achieved_delta
from vector_registry import Inputs, binds

from colonnade.privacy import (
    paper as functional_mechanism,
)
from colonnade.privacy import (
    paper as hdp_vfl,
)
from colonnade.privacy import (
    paper as skellam_moments,
)
from colonnade.privacy import (
    paper as vertical_logistic,
)
from colonnade.privacy.renyi import gaussian_sigma
from colonnade.privacy.sensitivity import functional
from colonnade.privacy.sensitivity import messages as losses
from colonnade.privacy.sensitivity.gradient import GradientShape, fused_zero_out
from colonnade.privacy.sensitivity.matrix import norm_squared_bound
from colonnade.privacy.sensitivity.messages import (
    Schedule,
    active_messages,
    encrypted_messages,
    passive_messages,
)

MONTE_CARLO_SEED = 1

# Functional mechanism


@binds("fm_crossover_(linear|logistic)(_ball|_box)?(_addremove|_replace)?_d")
def _(given: Inputs, name: Match[str]) -> float:
    zero_out = {
        "linear_ball": functional_formulas.linear_zero_out_in_ball,
        "linear": functional.linear_zero_out,
        "logistic_ball": functional_formulas.logistic_zero_out_in_ball,
        "logistic": functional.logistic_zero_out,
    }
    replace = {"linear": functional_formulas.linear_replace, "logistic": functional_formulas.logistic_replace}
    change = (replace if name[3] == "_replace" else zero_out)[name[1] + (name[2] or "").replace("_box", "")]
    return functional_brute.crossover(
        lambda d: float(change(d).l1),
        lambda d: change(d).l2,
        epsilon=given["eps"],
        sigma_per_unit=gaussian_sigma(given["eps"], given["delta"]),
    )


@binds("fm_geom_client_inflation_s#_K#")
def _(given: Inputs, _name: Match[str]) -> float:
    return counterexamples.residual_geometric_inflation(given["scale"], given["K"])


@binds("fm_(?:linear_exact_L1|sound_Delta_linear)_d#")
def _(given: Inputs, _name: Match[str]) -> float:
    return functional.linear_part_ordered_l1(given["d"], own=given["d"], holds_label=True)


@binds("fm_(?:logistic_exact_L1|sound_Delta_logistic)_d#")
def _(given: Inputs, _name: Match[str]) -> float:
    return float(functional.logistic_part_ordered_l1(given["d"], own=given["d"], holds_label=True))


@binds("fm_logistic_upper_L([12])_addremove_d#")
def _(given: Inputs, name: Match[str]) -> float:
    change = functional.logistic_zero_out(given["d"])
    return float(change.l1) if name[1] == "1" else change.l2


@binds("fm_logistic_upper_L([12])_replace_d#")
def _(given: Inputs, name: Match[str]) -> float:
    return functional_brute.logistic_part(given["d"], int(name[1]), own=given["d"], holds_label=True)


@binds("fm_upper_replace_L1_m#")
def _(given: Inputs, _name: Match[str]) -> float:
    return float(functional_formulas.linear_replace(given["m"] - 1).l1)


@binds("fm_upper_replace_L2_m#")
def _(given: Inputs, _name: Match[str]) -> float:
    return functional_brute.linear_part(given["m"], 2, own=given["m"])


@binds("fm_paper_Delta_(linear|logistic)_d#")
def _(given: Inputs, name: Match[str]) -> float:
    paper = {
        "linear": functional_mechanism.linear_sensitivity,
        "logistic": functional_mechanism.logistic_sensitivity,
    }
    return paper[name[1]](given["d"]).value


@binds("fm_party_(linear|logistic)_(exact|paper)_d#_a#_label[01]")
def _(given: Inputs, name: Match[str]) -> float:
    function = {
        "linear exact": functional.linear_part_ordered_l1,
        "logistic exact": functional.logistic_part_ordered_l1,
        "linear paper": functional_mechanism.linear_party_sensitivity,
        "logistic paper": functional_mechanism.logistic_party_sensitivity,
    }[f"{name[1]} {name[2]}"]
    result = function(given["d"], own=given["d_k"], holds_label=bool(given["label"]))
    return untyped(result).value if name[2] == "paper" else float(untyped(result))


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
def _(given: Inputs, _name: Match[str]) -> float:
    return losses.logistic_bounds(radius=given["k"], active_cap=given["cA"]).row


@binds("hdp_paper_Delta([AB])_n#_b#_e#_k#_eta#")
def _(given: Inputs, name: Match[str]) -> float:
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
def _(given: Inputs, name: Match[str]) -> float:
    return message_total(name[1], given, name[2] or given.get("loss", "logistic"))


@binds("hdp_sigma([AB])_sound_n#_b#_eps#_delta#")
def _(given: Inputs, name: Match[str]) -> float:
    total = message_total(name[1], given, given.get("loss", "logistic"))
    return gaussian_sigma(given["eps"], given["delta"], sensitivity=total)


@binds("hdp_unclipped_achieved_delta_n#_b#_eta#_eps#_delta#")
def _(given: Inputs, _name: Match[str]) -> float:
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


# SLR


def three_parts(gamma: float, *, row_norm: float, weight_norm: float) -> tuple[float, float, float]:
    """B, ‖w̄‖B² and γB for a real bound B on ‖x̄‖: the formula of `three_part_zero_out`."""
    return row_norm, weight_norm * row_norm**2, gamma * row_norm


@binds("slr_Delta2_(paper|sound)_h([123])_n#_g#")
def _(given: Inputs, name: Match[str]) -> float:
    part = int(name[2]) - 1
    if name[1] == "paper":
        return skellam_moments.gradient_moments(given["n"], given["gamma"], given["c_w"])[part].l2

    def norm(cap: float) -> float:
        square = norm_squared_bound(given["gamma"], cap**2, columns=given["n"], rounding="stochastic")
        return math.sqrt(square)

    return three_parts(given["gamma"], row_norm=norm(1), weight_norm=norm(given["c_w"]))[part]


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
def _(given: Inputs, _name: Match[str]) -> float:
    return float(fused_unit(given["c_w"], given["x_norm"]) / given["x_norm"])


@binds("slr_variance_ratio_(separate|optimal_separate)_over_fused(?:_.*)?")
def _(given: Inputs, name: Match[str]) -> float:
    gamma, cap = 2.0**10, given["c_w"]
    parts = three_parts(gamma, row_norm=gamma, weight_norm=cap * gamma)
    scales = (1 / (2 * gamma), 1 / (4 * gamma**3), 1 / gamma**2)
    optimal = [part / scale for part, scale in zip(parts, scales, strict=True)]
    shares = [gamma**2, gamma**6, gamma**4] if name[1] == "separate" else optimal
    return counterexamples.separate_over_fused(parts, scales, fused_unit(cap), shares)


# Vertical logistic regression


@binds("vlr_T_(minimax_)?eta#_eps#")
def _(given: Inputs, name: Match[str]) -> float:
    steps = vertical_logistic.label_attack_steps_minimax if name[1] else vertical_logistic.label_attack_steps
    return steps(given["eta"], largest_score=given["eps0"]).value


@binds("vlr_pack_u_#_#")
def _(given: Inputs, _name: Match[str]) -> float:
    return vertical_logistic.packed_values(given["kappa"], given["iota"]).value


@binds("vlr_sigma([AB])_eps#_e#_T#")
def _(given: Inputs, name: Match[str]) -> float:
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
def _(given: Inputs, name: Match[str]) -> float:
    radius, peer = {"A": ("kA", "clip_mB"), "B": ("kB", "clip_mA")}[name[1]]
    schedule = Schedule(rows=given["n"], batch=given["s"], epochs=given["e"])
    settings = {"radius": given[radius], "peer_clip": given[peer], "step_size": given["eta"]}
    return encrypted_messages(schedule, active=name[1] == "A", **settings).total
