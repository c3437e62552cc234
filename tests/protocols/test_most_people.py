"""How many people a plan can be for at its δ."""

from fractions import Fraction

import pytest

from colonnade.protocols.session import most_people


@pytest.mark.parametrize("rows", [1, 2, 10, 999, 1000, 1001, 5000])
@pytest.mark.parametrize("delta", [0.9, 0.5, 0.3, 1e-3, 3e-4, 1e-4, 1e-7])
def test_it_is_the_most_of_whom_delta_is_below_one_in_all(rows: int, delta: float) -> None:
    """δ below one over the number of people: one more of them, or another row, would have no plan."""
    exact = Fraction(str(delta))
    most = max((people for people in range(1, rows + 1) if people * exact < 1), default=1)
    assert most_people(rows, {"delta": delta, "accepted_delta": None}) == most


def test_a_delta_that_is_accepted_or_left_to_the_rule_bounds_nobody() -> None:
    assert most_people(5000, {"delta": 1e-3, "accepted_delta": 1e-3}) == 5000
    assert most_people(5000, {"delta": 1e-3, "accepted_delta": 1e-2}) == 999
    assert most_people(5000, {"delta": None, "accepted_delta": None}) == 5000
