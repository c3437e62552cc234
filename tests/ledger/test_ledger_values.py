"""What a ledger writes down is refused for one bad field among good ones, and kept at the last value that is right."""

import math
from dataclasses import replace
from typing import Any

import pytest
from ledger_samples import DECISION, DELTA, release

from colonnade.errors import BudgetExceeded, InputError
from colonnade.ledger import CoalitionBound, Decision, Ledger, LedgerLine
from colonnade.ledger.bounds import MOST_EPSILON, Account, Budget, bound
from colonnade.ledger.state import Comparison, LedgerState, remaining_epsilon
from colonnade.privacy.events import Gaussian
from colonnade.privacy.renyi import gaussian_mu

COMPARISON = Comparison("customers", ("insurer", "shop"), run="5f0c", time="2030-01-01T00:00:00+00:00")
RECORD = Account("adult", "record", "server")
COALITION = Account("adult", "record", "coalition:bank+insurer")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("by", ""), ("job", ""), ("party", "")),
        *(("request", "ab" * 31), ("request", "ab" * 32 + "0"), ("request", "AB" * 32), ("request", "")),
        *(("approved", 1), ("approved", 0), ("approved", None), ("approved", "no")),
    ],
)
def test_a_decision_with_one_bad_field_is_none(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match="a decision"):
        replace(DECISION, **{field: value})


@pytest.mark.parametrize("approved", [True, False])
def test_a_decision_is_read_as_it_was_written_and_states_all_but_its_signature(approved: bool) -> None:
    signature = (("key", "k"), ("scheme", "s"), ("value", "v"))
    one = replace(DECISION, approved=approved, because="enough is left", signature=signature)
    again = Decision.from_data(one.to_data())
    assert again == one and again.statement == replace(one, signature=(), time="later").statement
    others: dict[str, Any] = {
        **{"by": "Bob", "job": "j2", "party": "shop", "what": "a mean", "because": "", "request": "cd" * 32},
        **{"approved": not approved, "costs": (("server", "record", 0.75),)},
    }
    for field, value in others.items():
        assert replace(one, **{field: value}).statement != one.statement, field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("partners", ()),
        ("partners", ("insurer", "")),
        ("partners", ("", "insurer")),
        ("partners", ("insurer", 3)),
        ("partners", (None, "insurer")),
        ("dataset", None),
        ("dataset", 7),
        ("run", None),
        ("run", 7),
    ],
)
def test_a_comparison_with_one_bad_field_is_none(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"ids are compared|a comparison names"):
        replace(COMPARISON, **{field: value})


@pytest.mark.parametrize("epsilon", [0.0, -1.0, -math.inf, math.nan, True, "1", None])
def test_a_budget_of_no_positive_number_is_refused(epsilon: Any) -> None:
    for where in (RECORD, COALITION):
        with pytest.raises(InputError, match="greater than 0"):
            Budget(where, epsilon=epsilon, delta=DELTA)


@pytest.mark.parametrize("delta", [0.0, 1.0, -DELTA, 1.5, math.nan, math.inf, True, "1e-5", None])
def test_a_budget_whose_delta_is_no_small_probability_is_refused(delta: Any) -> None:
    with pytest.raises(InputError, match="δ"):
        Budget(RECORD, epsilon=1.0, delta=delta)


def test_a_budget_may_be_anything_up_to_what_bounds_something() -> None:
    least, most = math.nextafter(0.0, 1.0), float(MOST_EPSILON)
    for epsilon in (least, most):
        assert Budget(RECORD, epsilon=epsilon, delta=DELTA).epsilon == epsilon
    for delta in (least, math.nextafter(1.0, 0.0)):
        assert Budget(RECORD, epsilon=1.0, delta=delta).delta == delta
    for where in (RECORD, COALITION):
        with pytest.raises(InputError, match="bounds nothing"):
            Budget(where, epsilon=math.nextafter(most, math.inf), delta=DELTA)
    assert Budget(COALITION, epsilon=math.inf, delta=DELTA).epsilon == math.inf
    with pytest.raises(InputError, match="only a coalition"):
        Budget(RECORD, epsilon=math.inf, delta=DELTA)


@pytest.mark.parametrize(
    ("unit", "observer", "matched"),
    [
        ("record", "server", True),
        ("*", "server", True),
        ("record", "*", True),
        ("*", "*", True),
        ("record", "party:bank", False),
        ("record: row zeroed out", "server", False),
    ],
)
def test_a_budget_governs_what_it_names_and_nothing_of_another_data_set(
    unit: str, observer: str, matched: bool
) -> None:
    budget = Budget(Account("adult", unit, observer), epsilon=1.0, delta=DELTA)
    assert budget.matches(RECORD) == matched
    assert not budget.matches(replace(RECORD, dataset="credit"))


def remaining(ledger: Ledger, where: Account) -> float:
    state = LedgerState("bank")
    for entry in ledger.entries():
        state.read(entry)
    return remaining_epsilon(state, where)


@pytest.mark.parametrize(
    "budgets", [((1.0, 1e-5),), ((4.0, 1e-5),), ((2.0, 1e-5), (1.0, 1e-3)), ((30.0, 1e-5),)]
)
@pytest.mark.parametrize("charges", [0, 2])
def test_what_remains_is_charged_and_two_hundredths_more_are_not(
    budgets: tuple[tuple[float, float], ...], charges: int
) -> None:
    """It is told in hundredths, rounded down, and found to a part in a thousand."""

    def book() -> Ledger:
        ledger = Ledger.in_memory("bank")
        # Two that are equally close both hold.
        for (epsilon, delta), (unit, observer) in zip(
            budgets, [("record", "*"), ("*", "server")], strict=False
        ):
            ledger.set_budget("adult", unit, observer, epsilon=epsilon, delta=delta)
        for number in range(charges):
            ledger.charge(release(f"r{number}"), "adult")
        return ledger

    fits = remaining(book(), RECORD)
    assert fits > 0 and round(100 * fits) == pytest.approx(100 * fits, abs=1e-9)
    # The largest cost of a release at any of the δ: the one at which it is told.
    least = min(delta for _, delta in budgets)

    def charged(epsilon: float) -> bool:
        event = Gaussian(sensitivity=1.0, sigma=1.0 / gaussian_mu(epsilon, least))
        try:
            book().charge(release("next", event=event), "adult")
        except BudgetExceeded:
            return False
        return True

    assert charged(fits)
    assert not charged(fits * 1.002 + 0.02)


def test_nothing_remains_without_a_budget_and_everything_of_one_without_end() -> None:
    ledger = Ledger.in_memory("bank")
    assert remaining(ledger, RECORD) == 0.0
    ledger.set_budget("adult", "record", COALITION.observer, epsilon=math.inf, delta=DELTA)
    assert remaining(ledger, COALITION) == math.inf
    ledger.set_budget("adult", "record", "server", epsilon=0.5, delta=DELTA)
    with pytest.raises(BudgetExceeded):
        ledger.charge(release("all", event=Gaussian(sensitivity=1, sigma=1)), "adult")
    assert 0.45 < remaining(ledger, RECORD) <= 0.5


ALONE, TWO, THREE = (Gaussian(sensitivity=1, sigma=sigma) for sigma in (16, 8, 4))


@pytest.mark.parametrize(
    ("coalition", "event"),
    [
        ("a+b", TWO),
        ("a+server", TWO),  # one owner, and nobody who deals noise
        ("b+d+server", TWO),
        ("a+b+c", THREE),
        ("c+d+e", THREE),
        ("a+b+c+d", None),
        ("a+b+c+d+e", None),
    ],
)
def test_a_coalition_of_owners_is_bounded_by_what_is_said_of_as_many_and_by_no_more(
    coalition: str, event: Gaussian | None
) -> None:
    """No share is held here, so what counts is how many parts of the noise they know together."""
    owners = ("a", "b", "c", "d", "e")
    one = release(
        "r",
        LedgerLine("reader", "record-replaced", ALONE),
        owners=owners,
        coalitions=(CoalitionBound(2, TWO), CoalitionBound(3, THREE)),
        published=True,
        noise_from=owners,
    )
    found = bound(one, Account("adult", "others-part", f"coalition:{coalition}"), DELTA)
    assert found.events == (() if event is None else (event,))
    assert found.unbounded == (event is None)
