"""The paper's block sensitivities and its two budgets, as written, and where they disagree with each other."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.privacy import paper
from colonnade.privacy.sensitivity.functional import linear_zero_out, logistic_zero_out

FAMILIES = {
    "linear": (paper.linear_block_sensitivity, paper.linear_sensitivity),
    "logistic": (paper.logistic_block_sensitivity, paper.logistic_sensitivity),
}


def blocks_of(family: str, widths: list[int], holder: int) -> tuple[list[float], list[float]]:
    of_block, _ = FAMILIES[family]
    single = [of_block(own, label=0 if k == holder else None).value for k, own in enumerate(widths)]
    cross = [
        of_block(widths[k], other=widths[j], label=(k, j).index(holder) if holder in (k, j) else None).value
        for k, j in combinations(range(len(widths)), 2)
    ]
    return single, cross


@given(st.sampled_from(sorted(FAMILIES)), st.lists(st.integers(1, 30), min_size=2, max_size=5), st.data())
def test_the_papers_blocks_make_its_whole(family: str, widths: list[int], data: st.DataObject) -> None:
    holder = data.draw(st.integers(0, len(widths) - 1))
    single, cross = blocks_of(family, widths, holder)
    assert sum(single) + sum(cross) == pytest.approx(FAMILIES[family][1](sum(widths)).value)


@given(st.sampled_from(sorted(FAMILIES)), st.lists(st.integers(1, 30), min_size=2, max_size=4))
def test_corollary_1_returns_as_many_epsilon_as_there_are_blocks(family: str, widths: list[int]) -> None:
    """With the noise of the top-down case plain composition returns ε; the corollary does not."""
    single, cross = blocks_of(family, widths, 0)
    whole = FAMILIES[family][1](sum(widths)).value
    shares = [[(size, size / whole) for size in sizes] for sizes in (single, cross)]
    assert sum(spent for sizes in shares for _, spent in sizes) == pytest.approx(1.0)
    figure = paper.bottom_up_epsilon(whole, single=shares[0], cross=shares[1])
    assert figure.value == pytest.approx(len(single) + len(cross))


@pytest.mark.parametrize("features", [1, 5, 14, 41])
def test_the_papers_whole_is_several_times_what_a_zeroed_record_needs(features: int) -> None:
    # Ordered pairs twice over, and the square of the label: four times for many features.
    assert paper.linear_sensitivity(features).value >= 2 * linear_zero_out(features).l1
    assert paper.logistic_sensitivity(features).value >= 2 * logistic_zero_out(features).l1 - features / 4


def test_every_figure_says_what_it_is_not() -> None:
    for figure in (paper.linear_block_sensitivity(2, other=3), paper.logistic_block_sensitivity(2, other=3)):
        assert "paper formula, not a guarantee" in str(figure)
