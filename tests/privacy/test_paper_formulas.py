"""The papers' formulas, as printed: they reproduce the printed tables, say why they are no guarantee, and fail."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typed import untyped

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
from colonnade.privacy.distributions import poisson_binomial_renyi
from colonnade.privacy.events import PoissonBinomial
from colonnade.privacy.paper import LABEL, Moments, PaperFigure
from colonnade.privacy.renyi import gaussian_delta
from colonnade.privacy.sensitivity.functional import linear_part_ordered_l1
from colonnade.privacy.sensitivity.matrix import rounded_norm_squared

GRAM = skellam_moments.gram_moments(117, 64)
MU = skellam_moments.server_mu(GRAM, 1.0, 1e-5).value
PARTS = [(skellam_moments.Moments(1.0, 1.0), 10.0)]
LINEAR = functional_mechanism.linear_sensitivity(10)
PARTY = functional_mechanism.linear_party_sensitivity(10, own=1, holds_label=False)
PBM: dict[str, Any] = {"contributors": 5, "trials": 4, "beta": 0.1}
VLR: dict[str, Any] = {"gradient_bound": 1, "epochs": 30, "steps": 30, "step_size": 0.01, "batch": 256}
HDP: dict[str, Any] = {"batch": 569, "epochs": 10, "steps": 10, "radius": 1, "step_size": 0.1, "lipschitz": 1}

FIGURES = [
    hdp_vfl.passive_sensitivity(**HDP),
    hdp_vfl.active_sensitivity(**HDP, slope=0.25, label_slope=1.1, label_bound=1),
    hdp_vfl.classical_sigma(1.0, 1e-5),
    pbm_vfl.feature_renyi(2.0, **PBM, coordinates=16, uses=1),
    pbm_vfl.feature_epsilon(1e-5, **PBM, coordinates=16, uses=1),
    pbm_vfl.sample_factor(5, 2.0),
    pbm_vfl.local_variance(**PBM),
    vertical_logistic.active_sigma(0.5, 0.1, **VLR),
    vertical_logistic.passive_sigma(0.5, 0.1, **VLR),
    vertical_logistic.label_attack_steps(0.01),
    vertical_logistic.label_attack_steps_minimax(0.01),
    vertical_logistic.packed_values(2048, 64),
    skellam_moments.row_norm_squared(117, 16),
    skellam_moments.server_epsilon(GRAM, MU, 1e-5),
    skellam_moments.server_mu(GRAM, 1.0, 1e-5),
    skellam_moments.client_epsilon(GRAM, MU, 1e-5, clients=117, columns=117),
    skellam_moments.client_epsilon_of_proof(GRAM, MU, 1e-5, clients=117),
    skellam_moments.client_epsilon_of_tables(GRAM, MU, 1e-5),
    skellam_moments.gradient_server_epsilon(
        PARTS, 1e-5, rate=0.01, steps=10, orders=skellam_moments.ORDERS[:9]
    ),
    skellam_moments.gradient_client_epsilon(PARTS, 1e-5, clients=3, uses=2),
    LINEAR,
    functional_mechanism.logistic_sensitivity(10),
    PARTY,
    functional_mechanism.linear_party_sensitivity(10, own=1, holds_label=True),
    functional_mechanism.logistic_party_sensitivity(10, own=1, holds_label=True),
    functional_mechanism.party_epsilon(1.0, party_sensitivity=PARTY, sensitivity=LINEAR),
    functional_mechanism.bottom_up_epsilon(18.0, single=[(8.0, 0.5)], cross=[(8.0, 0.5)]),
]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.formula)
def test_every_figure_prints_its_label_and_one_sentence_of_reason(figure: PaperFigure) -> None:
    assert LABEL in str(figure)
    assert str(figure).endswith(figure.why_not)
    assert figure.why_not.endswith(".") and ". " not in figure.why_not


def test_a_figure_is_not_a_number() -> None:
    assert not isinstance(FIGURES[0], float)
    with pytest.raises(TypeError):
        untyped(FIGURES[0]) + 1.0


def test_figures_with_equal_contents_are_equal() -> None:
    assert PaperFigure(1.0, "a", "b.") == PaperFigure(1.0, "a", "b.")


TABLE_1 = [(0.25, 0.77), (0.5, 1.54), (1, 3.14), (2, 6.53), (4, 13.75), (8, 29.92), (16, 70.33)]


@pytest.mark.parametrize(("server", "printed"), TABLE_1)
def test_the_factor_of_eight_reproduces_tables_1_and_2_of_spca(server: float, printed: float) -> None:
    mu = skellam_moments.server_mu(GRAM, server, 1e-5).value
    assert skellam_moments.client_epsilon_of_tables(GRAM, mu, 1e-5).value == pytest.approx(printed, rel=0.01)
    assert skellam_moments.server_epsilon(GRAM, mu, 1e-5).value == pytest.approx(server, rel=1e-9)


def test_neither_equation_9_nor_its_proof_reproduces_them() -> None:
    figures = [
        skellam_moments.client_epsilon(GRAM, MU, 1e-5, clients=117, columns=117),
        skellam_moments.client_epsilon_of_proof(GRAM, MU, 1e-5, clients=117),
    ]
    assert all(figure.value < 0.7 * 3.14 for figure in figures)


def test_lemmas_13_and_14_with_expected_counts_reproduce_table_3_of_slr() -> None:
    gamma, rate, epochs = 4096, 0.001, 5
    moments = skellam_moments.gradient_moments(816, gamma, 1.0)

    def parts(multiplier: float) -> list[tuple[Moments, float]]:
        return [(part, multiplier * gamma**power) for part, power in zip(moments, (2, 6, 4), strict=True)]

    def server(multiplier: float) -> float:
        return skellam_moments.gradient_server_epsilon(
            parts(multiplier),
            1e-5,
            rate=rate,
            steps=round(epochs / rate),
            orders=skellam_moments.ORDERS[10:30],
        ).value

    low, high = 0.01, 10.0
    while high - low > 1e-4 * high:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if server(middle) > 0.5 else (low, middle)
    client = skellam_moments.gradient_client_epsilon(parts(high), 1e-5, clients=816, uses=epochs)
    assert client.value == pytest.approx(24.62, rel=0.01)


@given(st.integers(2, 12), st.floats(1.01, 64))
def test_the_sample_factor_solves_its_recursion(parties: int, order: float) -> None:
    def recursion(k: int, a: float) -> float:
        return a if k == 1 else 2 * a + 1 + 1 / (a - 1) + recursion(k - 1, 2 * a - 1)

    assert pbm_vfl.sample_factor(parties, order).value == pytest.approx(recursion(parties, order), rel=1e-9)


@pytest.mark.parametrize(("parties", "order"), [(1, 2.0), (3, 1.0)])
def test_the_sample_factor_is_refused_where_it_is_not_stated(parties: int, order: float) -> None:
    with pytest.raises(ValueError):
        pbm_vfl.sample_factor(parties, order)


def test_with_a_constant_of_one_the_papers_divergence_lies_far_below_the_true_one() -> None:
    paper = pbm_vfl.feature_renyi(2.0, **PBM, coordinates=1, uses=1).value
    assert poisson_binomial_renyi(PoissonBinomial(5, 4, 0.1), 2.0) > 8 * paper


def test_the_classical_sigma_misses_its_delta_at_large_epsilon_and_wastes_at_small() -> None:
    def true_delta(epsilon: float, delta: float) -> float:
        return gaussian_delta(1 / hdp_vfl.classical_sigma(epsilon, delta).value, epsilon)

    assert true_delta(10, 0.01) > 4 * 0.01
    assert true_delta(0.1, 0.01) < 1e-5


def test_the_papers_party_sensitivity_is_exceeded_by_a_party_with_few_features() -> None:
    assert linear_part_ordered_l1(10, own=1, holds_label=False) == 40 > PARTY.value == 24
    large = functional_mechanism.linear_party_sensitivity(800, own=200, holds_label=False).value
    assert linear_part_ordered_l1(800, own=200, holds_label=False) == 1.5 * large - 400


def test_the_papers_row_norm_is_exceeded_by_rounding() -> None:
    claimed = skellam_moments.row_norm_squared(117, 16).value
    assert rounded_norm_squared(16, 1, columns=117, rounding="stochastic") > claimed


def test_top_down_noise_makes_corollary_1_charge_once_per_block() -> None:
    blocks = [(8.0, 8 / 18), (2.0, 2 / 18), (8.0, 8 / 18)]
    figure = functional_mechanism.bottom_up_epsilon(18.0, single=blocks[:2], cross=blocks[2:])
    assert figure.value == pytest.approx(3.0)
    assert sum(spent for _, spent in blocks) == pytest.approx(1.0)


@given(st.floats(1e-4, 0.5), st.floats(0, 1.99))
def test_the_label_attack_count_is_the_last_step_below_the_threshold(step_size: float, start: float) -> None:
    steps = vertical_logistic.label_attack_steps(step_size, largest_score=start).value
    growth = 1 + step_size / 4
    assert (2 + start) * growth ** (steps - 1) < 4 * (1 + 1e-9)
    assert (2 + start) * growth**steps >= 4 * (1 - 1e-9)


@pytest.mark.parametrize(("step_size", "start"), [(0.0, 0.0), (0.1, 2.0), (0.1, -1.0)])
def test_the_label_attack_count_is_refused_outside_its_statement(step_size: float, start: float) -> None:
    with pytest.raises(ValueError):
        vertical_logistic.label_attack_steps(step_size, largest_score=start)


@pytest.mark.parametrize("mu", [0.3, 2.0, 5000.0])
def test_divergences_are_the_printed_equations_term_by_term(mu: float) -> None:
    l1, squares = 7, 5**2
    moments, orders = Moments(5, l1), skellam_moments.ORDERS[:40].tolist()
    server, client = (
        skellam_moments.server_renyi(moments, mu),
        skellam_moments.client_renyi(moments, mu, clients=4, columns=3),
    )
    for place, a in enumerate(orders):
        second = min(((2 * a - 1) * squares + 6 * l1) / (16 * mu**2), 3 * l1 / (4 * mu))
        assert server[place] == pytest.approx(a * squares / (4 * mu) + second, rel=1e-12)
        second = min(4 * 9 / 9 * ((2 * a - 1) * squares + 3 * l1) / (4 * mu**2), 9 * l1 / (6 * mu))
        assert client[place] == pytest.approx(16 * a * squares / (9 * mu) + second, rel=1e-12)


def test_a_server_mu_below_one_is_found() -> None:
    tiny = skellam_moments.Moments(0.1, 0.1)
    mu = skellam_moments.server_mu(tiny, 4.0, 1e-5).value
    assert mu < 1
    assert skellam_moments.server_epsilon(tiny, mu, 1e-5).value == pytest.approx(4.0, rel=1e-9)


def test_the_constants_of_a_poisson_loss_are_those_of_the_ball() -> None:
    constants = hdp_vfl.poisson_constants(radius=1, label_bound=9)
    assert (constants.lipschitz, constants.label_slope, constants.label_bound) == (9, 1.0, 9)
    assert constants.slope == pytest.approx(math.e)


def test_the_multiplier_of_gradients_is_the_least_at_which_the_lemma_gives_epsilon() -> None:
    parts = skellam_moments.gradient_moments(4, 16, 1.0)
    found = skellam_moments.gradient_multiplier(parts, 16, 8.0, 1e-5, rate=0.5, steps=2)
    assert found.value == pytest.approx(0.895, abs=5e-4)

    def epsilon(multiplier: float) -> float:
        scaled = [(part, multiplier * 16.0**power) for part, power in zip(parts, (2, 6, 4), strict=True)]
        orders = skellam_moments.ORDERS[:255]
        return skellam_moments.gradient_server_epsilon(scaled, 1e-5, rate=0.5, steps=2, orders=orders).value

    assert epsilon(found.value) <= 8.0 < epsilon(0.999 * found.value)
