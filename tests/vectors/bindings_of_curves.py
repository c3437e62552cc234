"""Bindings of conversions, curves and composed costs: Gaussian, Poisson binomial, Skellam, SPCA."""

import math
from re import Match
from typing import Any

import matrix_brute_force as matrix_brute
import numpy as np
import paper_counterexamples as counterexamples
from homogeneous_loss import homogeneous_epsilon, homogeneous_renyi
from vector_registry import Inputs, binds

from colonnade.privacy import paper as hdp_vfl
from colonnade.privacy import paper as pbm_vfl
from colonnade.privacy import paper as skellam_moments
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.distributions import (
    exact_skellam_renyi,
    poisson_binomial_renyi,
    sampled_renyi,
)
from colonnade.privacy.events import PoissonBinomial, Repeated, Skellam, itemise
from colonnade.privacy.guarantee import account
from colonnade.privacy.loss import loss_distribution
from colonnade.privacy.renyi import (
    epsilon_from_renyi,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_sigma,
    least_epsilon,
    skellam_bound,
)
from colonnade.privacy.sensitivity.matrix import (
    RowShape,
    norm_squared_bound,
    triangle_change_replace,
    triangle_change_zero_out,
)

# Conversions and the Gaussian mechanism


@binds("cks_conversion_a#_t#_d#")
def _(given: Inputs, _name: Match[str]) -> float:
    return epsilon_from_renyi(given["alpha"], given["tau"], given["delta"])


@binds("eps_of_mu#_delta#")
def _(given: Inputs, _name: Match[str]) -> float:
    return gaussian_epsilon(given["mu"], given["delta"])


@binds("mu_gdp_eps#_delta#")
def _(given: Inputs, _name: Match[str]) -> float:
    return gaussian_mu(given["eps"], given["delta"])


@binds("gauss_sigma_analytic_eps#_delta#")
def _(given: Inputs, _name: Match[str]) -> float:
    return gaussian_sigma(given["eps"], given["delta"], sensitivity=given["sens"])


@binds("gauss_sigma_classical_eps#_delta#")
def _(given: Inputs, _name: Match[str]) -> float:
    return hdp_vfl.classical_sigma(given["eps"], given["delta"], sensitivity=given["sens"]).value


def classical_mu(epsilon: float, delta: float) -> float:
    return 1 / hdp_vfl.classical_sigma(epsilon, delta).value


@binds("gauss_true_(delta|eps)_of_classical_eps#_delta#")
def _(given: Inputs, name: Match[str]) -> float:
    mu = classical_mu(given["eps"], given["delta"])
    return gaussian_delta(mu, given["eps"]) if name[1] == "delta" else gaussian_epsilon(mu, given["delta"])


@binds("classical_gaussian_breakdown_eps_delta#")
def _(given: Inputs, _name: Match[str]) -> float:
    delta = given["delta"]
    return counterexamples.breakdown_epsilon(
        lambda epsilon: gaussian_delta(classical_mu(epsilon, delta), epsilon), delta
    )


@binds("grid_round_l2_inflation_.*")
def _(given: Inputs, _name: Match[str]) -> float:
    return float(given["Delta"] + given["grid"] * math.sqrt(given["d"]))


# PBM-VFL


@binds("pbm_S_M_#_a#")
def _(given: Inputs, _name: Match[str]) -> float:
    return pbm_vfl.sample_factor(given["M"], given["alpha"]).value


def composed(given: Inputs) -> Repeated:
    return Repeated(PoissonBinomial(given["M"], given["b"], given["beta"]), times=given["compositions"])


@binds("pbm_eps_(paperC0eq1|pld|rdp|suppld)_M#_b#_beta#_e#")
def _(given: Inputs, name: Match[str]) -> float:
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
def _(given: Inputs, _name: Match[str]) -> float:
    return homogeneous_renyi(given["M"] - 1, given["b"], given["beta"], given["alpha"])


@binds("pbm_renyi_M#_b#_beta#_a#")
def _(given: Inputs, _name: Match[str]) -> float:
    return homogeneous_renyi(given["M"], given["b"], given["beta"], given["alpha"])


@binds("pbm_sample_renyi_M#_b#_beta#_a#")
def _(given: Inputs, _name: Match[str]) -> float:
    event = PoissonBinomial(given["M"], given["b"], given["beta"], changed=given["M"])
    return poisson_binomial_renyi(event, given["alpha"])


@binds("pbm_usecount_unionbound")
def _(given: Inputs, _name: Match[str]) -> float:
    return counterexamples.most_uses(given["N"], batch=given["B"], steps=given["T"], failure=given["fail"])


@binds("protocol0_(tv|delta_inf)_b#(?:_.*)?")
def _(given: Inputs, name: Match[str]) -> float:
    figure = {"tv": counterexamples.masked_total_variation, "delta_inf": counterexamples.masked_certainty}
    return figure[name[1]](*given["q"], masks=given["b"], parties=given["M"])


# Skellam, subsampling


@binds("poisson_subsampling_formula_(f3_)?a#_q#_c#")
def _(given: Inputs, name: Match[str]) -> float:
    factor, divisor = map(float, given["tau_l"].split("*l/"))

    def divergence(order: float) -> float:
        return factor * order / divisor

    formula = counterexamples.general_subsampling if name[1] else sampled_renyi
    return formula(given["q"], divergence, given["alpha"])


@binds("skellam_bound_rdp_mu#_D#_a#")
def _(given: Inputs, _name: Match[str]) -> float:
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
def _(given: Inputs, _name: Match[str]) -> float:
    return exact_skellam_renyi(given["Delta"], given["mu"], given["alpha"])


@binds("skellam_poisson_subsampled_rdp_mu#_D#_q#_a#")
def _(given: Inputs, _name: Match[str]) -> float:
    return sampled_renyi(
        given["q"], lambda order: exact_skellam_renyi(given["Delta"], given["mu"], order), given["alpha"]
    )


# SPCA


@binds("spca_B2_(paper|sound)_n#_g#")
def _(given: Inputs, name: Match[str]) -> float:
    if name[1] == "paper":
        return skellam_moments.row_norm_squared(given["n"], given["gamma"]).value
    return norm_squared_bound(given["gamma"], 1, columns=given["n"], rounding="stochastic")


def sound_mu(given: Inputs, rounding: Any) -> tuple[float, float]:
    """(μ for the server at ε, the squared norm it rests on)."""
    bound = norm_squared_bound(given["gamma"], 1, columns=given["n"], rounding=rounding)
    l1 = (given["n"] + 1) / 2 * bound
    mu = calibrate(lambda mu: Skellam(l1, bound, mu), epsilon=given["eps"], delta=given["delta"], digits=9)
    return float(mu), bound


def paper_mu(given: Inputs) -> tuple[float, skellam_moments.Moments]:
    moments = skellam_moments.gram_moments(given["n"], given["gamma"])
    return skellam_moments.server_mu(moments, given["eps"], given["delta"]).value, moments


@binds("spca_mu_paper_g#_eps#")
def _(given: Inputs, _name: Match[str]) -> float:
    return paper_mu(given)[0]


@binds("spca_mu_sound_(stoch|retry|trunc)_g#_eps#")
def _(given: Inputs, name: Match[str]) -> float:
    roundings = {"stoch": "stochastic", "retry": "retry", "trunc": "toward_zero"}
    return sound_mu(given, roundings[name[1]])[0]


@binds("spca_client_(eq9|proof|table)_g#_eps#")
def _(given: Inputs, name: Match[str]) -> float:
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
def _(given: Inputs, name: Match[str]) -> float:
    mu, bound = sound_mu(given, "retry" if name[1] else "stochastic")
    n, clients = given["n"], given["N"]
    event = Skellam(math.sqrt(n * (n + 1)) * bound, math.sqrt(2) * bound, mu * (clients - 1) / clients)
    return account(event, given["delta"]).epsilon


@binds("spca_delta1_counterexample_L1")
def _(given: Inputs, _name: Match[str]) -> float:
    ones = np.ones((1, given["n"]), dtype=np.int64)
    return float(matrix_brute.measures(matrix_brute.outer(ones))[0, 4])


@binds("spca_delta1_factor_n#")
def _(given: Inputs, _name: Match[str]) -> float:
    even = 2 * given["n"] ** 2  # so that (n + 1)/2 of it is an integer
    change = triangle_change_zero_out(RowShape(features=given["n"], norm_squared=even))
    return float(change.l1 / change.l2)


@binds("spca_eq13_counterexample_norm_sq")
def _(given: Inputs, _name: Match[str]) -> float:
    return counterexamples.longest_rounding_of_a_flat_row(given["n"], given["gamma"])


@binds("spca_replace_one_L2_factor")
def _(_given: Inputs, _name: Match[str]) -> float:
    change = triangle_change_replace(RowShape(features=2, norm_squared=2**40))
    return float(change.l2) / 2**40
