"""Budgets and charges: what is admitted, what is refused, and what is remembered."""

import datetime
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_samples import DELTA, STEP, book, epsilons, ledger_with_history, release

from colonnade.errors import BudgetExceeded, LedgerAltered, LedgerError, PrivacyError
from colonnade.ledger import Ledger, LedgerLine, Receipt, Release, Total
from colonnade.privacy.events import Approximated, Composed, Event, Gaussian, PoissonSampled, Repeated
from colonnade.privacy.guarantee import account

STRONGER = Gaussian(sensitivity=1, sigma=32)
EVENTS = (STEP, STRONGER, Gaussian(sensitivity=2, sigma=64))


def bank(epsilon: float = 1.0) -> Ledger:
    ledger = Ledger.in_memory("bank")
    ledger.set_budget("adult", "record", "server", epsilon=epsilon, delta=DELTA)
    return ledger


def only_total(ledger: Ledger) -> Total:
    (total,) = ledger.totals()
    return total


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), min_size=1, max_size=8), st.floats(0.05, 1.5))
def test_a_release_is_admitted_exactly_if_it_fits_with_the_rest(events: list[Event], epsilon: float) -> None:
    ledger, admitted = bank(epsilon), list[Event]()
    for index, event in enumerate(events):
        entries = len(ledger.entries())
        together = account(Composed((*admitted, event)), DELTA).epsilon
        if math.isclose(together, epsilon, rel_tol=1e-6):
            return
        if together <= epsilon:
            ledger.charge(release(f"r{index}", event=event), "adult")
            admitted.append(event)
        else:
            with pytest.raises(BudgetExceeded):
                ledger.charge(release(f"r{index}", event=event), "adult")
            assert len(ledger.entries()) == entries
        direct = account(Composed(tuple(admitted)), DELTA).epsilon if admitted else 0.0
        assert only_total(ledger).epsilon == pytest.approx(direct, rel=1e-6)
        assert (only_total(ledger).entries, only_total(ledger).epsilon <= epsilon) == (len(admitted), True)


actions = st.lists(
    st.tuples(
        st.sampled_from(("charge", "budget", "receipt")),
        st.integers(0, 5),
        st.sampled_from(("server", "reader", "party:insurer")),
        st.sampled_from(("record", "record-replaced")),
        st.sampled_from(EVENTS),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions)
def test_a_ledger_opened_again_is_the_same_ledger(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, str, str, Event, bool]]
) -> None:
    path = tmp_path_factory.mktemp("replay") / "bank.ledger"
    live = Ledger.create(path, "bank")
    live.set_budget("adult", "*", "*", epsilon=0.6, delta=DELTA)
    for kind, number, observer, unit, event, seeded in steps:
        try:
            if kind == "charge":
                live.charge(
                    release(f"r{number}", event=event, observer=observer, unit=unit, reproducible=seeded),
                    "adult",
                )
            elif kind == "budget":
                live.set_budget("adult", unit, observer, epsilon=0.3 + number, delta=DELTA)
            else:
                live.keep_receipt(Receipt("insurer", entry=number + 1, head=f"{number:064x}"))
        except (BudgetExceeded, LedgerError):
            pass
    again = Ledger.open(path)
    assert again.totals() == live.totals()
    assert again.entries() == live.entries()
    assert again.budgets() == live.budgets()
    assert again.receipts() == live.receipts()
    assert again.verify([live.receipt()]) == live.verify([again.receipt()])


def test_the_order_of_releases_does_not_change_the_total_and_equal_ones_cost_what_repeating_costs() -> None:
    one, other, equal = bank(50.0), bank(50.0), bank(50.0)
    charges = [release(f"r{index}", event=event) for index, event in enumerate(EVENTS)]
    for mine, theirs in zip(charges, charges[::-1], strict=True):
        one.charge(mine, "adult")
        other.charge(theirs, "adult")
    assert only_total(one).epsilon == pytest.approx(only_total(other).epsilon, rel=1e-9)
    for index in range(10):
        equal.charge(release(f"r{index}"), "adult")
    assert only_total(equal).epsilon == account(Repeated(STEP, 10), DELTA).epsilon


def test_a_refusal_says_who_asked_what_it_costs_and_never_reads_as_if_the_release_would_fit() -> None:
    ledger = bank(0.25)
    ledger.charge(release("r0"), "adult")
    with pytest.raises(BudgetExceeded) as refused:
        ledger.charge(release("r1"), "adult")
    message = str(refused.value)
    assert message.startswith("bank: releasing second moments to server costs ε = 0.")
    assert "is left of 0.25 " in message
    for part in ("data set 'adult'", "unit 'record'", "observer 'server'", "δ = 1e-05"):
        assert part in message
    assert message.endswith("Raise the budget, or lower epsilon in the job.")
    exact = account(STEP, DELTA).epsilon
    ledger = bank(math.nextafter(exact, 0))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.charge(release("r0"), "adult")
    words = str(refused.value).replace(";", "").split()
    cost, left = float(words[words.index("=") + 1]), float(words[words.index("is") - 1])
    assert cost > left


def test_without_a_budget_or_with_one_for_something_else_nothing_leaves() -> None:
    ledger = Ledger.in_memory("bank")
    with pytest.raises(
        BudgetExceeded, match=r"set_budget\('adult', 'record', 'server', epsilon=…, delta=…\)"
    ):
        ledger.charge(release("r0"), "adult")
    assert len(ledger.entries()) == 1
    ledger = Ledger.in_memory("bank")
    ledger.set_budget("census", "record", "server", epsilon=9, delta=DELTA)
    ledger.set_budget("adult", "record-replaced", "server", epsilon=9, delta=DELTA)
    ledger.set_budget("adult", "record", "reader", epsilon=9, delta=DELTA)
    with pytest.raises(BudgetExceeded, match="no budget"):
        ledger.charge(release("r0"), "adult")


def test_a_release_is_charged_to_all_its_accounts_or_to_none_and_two_lines_on_one_both_count() -> None:
    ledger, line = bank(5.0), LedgerLine("server", "record", STEP)
    with pytest.raises(BudgetExceeded, match="observer 'party:insurer'"):
        ledger.charge(release("r0", line, LedgerLine("party:insurer", "others-part", STEP)), "adult")
    assert only_total(ledger).epsilon == 0.0
    assert len(ledger.entries()) == 2
    ledger.charge(release("r0", line, line), "adult")
    assert only_total(ledger).epsilon == account(Repeated(STEP, 2), DELTA).epsilon
    assert only_total(ledger).entries == 1


def test_a_release_without_noise_or_with_a_delta_too_small_is_refused() -> None:
    with pytest.raises(PrivacyError):
        bank(1e6).charge(release("r0", event=Gaussian(sensitivity=1, sigma=1e-9)), "adult")
    drawn = Approximated(STEP, draws=10)
    ledger = bank()
    ledger.charge(release("r0", event=drawn), "adult")
    ledger.set_budget("adult", "record", "server", epsilon=1.0, delta=1e-40)
    assert only_total(ledger).epsilon == math.inf
    assert only_total(ledger).left == 0.0
    with pytest.raises(BudgetExceeded, match="costs ε = ∞; 0 is left of 1 "):
        ledger.charge(release("r1", event=drawn), "adult")


def test_sampling_that_an_observer_can_see_is_no_line_of_a_release() -> None:
    sampled = PoissonSampled(rate=Fraction(1, 100), event=STEP)
    LedgerLine("server", "record", sampled)
    with pytest.raises(PrivacyError, match="secret batches"):
        LedgerLine("party:insurer", "record", sampled)
    with pytest.raises(PrivacyError, match="record-replaced"):
        LedgerLine("server", "record-replaced", sampled)


def test_the_same_release_is_charged_once_and_drawn_for_once(tmp_path: Path) -> None:
    _, receipts = ledger_with_history(tmp_path / "bank.ledger")
    assert Ledger.open(tmp_path / "bank.ledger").charge(release("r0"), "adult") == receipts[0]
    ledger = bank()
    first = ledger.charge(release("r0"), "adult", fresh=True)
    ledger.charge(release("r1"), "adult")
    assert ledger.charge(release("r0"), "adult") == first
    with pytest.raises(LedgerError, match="was charged"):
        ledger.charge(release("r0"), "adult", fresh=True)
    assert only_total(ledger).entries == 2


@pytest.mark.parametrize(
    ("other", "dataset"),
    [
        (release("r0", event=STRONGER), "adult"),
        (release("r0", what="labels"), "adult"),
        (release("r0", reproducible=True), "adult"),
        (release("r0"), "census"),
    ],
)
def test_an_id_cannot_serve_for_something_else(other: Release, dataset: str) -> None:
    ledger = bank()
    ledger.charge(release("r0"), "adult")
    with pytest.raises(LedgerError, match="'r0' was charged at entry 3 for something else"):
        ledger.charge(other, dataset)
    assert only_total(ledger).entries == 1


def test_the_closest_budget_governs_each_observer_by_itself() -> None:
    ledger = Ledger.in_memory("bank")
    ledger.set_budget("adult", "*", "*", epsilon=1, delta=DELTA)
    ledger.set_budget("adult", "record", "*", epsilon=2, delta=DELTA)
    ledger.set_budget("adult", "record", "server", epsilon=3, delta=DELTA)
    assert ledger.what_fits("adult", "record", "server") == 3
    assert ledger.what_fits("adult", "record", "reader") == 2
    assert ledger.what_fits("adult", "record-replaced", "reader") == 1
    assert ledger.what_fits("census", "record", "server") == 0
    exact = account(STEP, DELTA).epsilon
    ledger = Ledger.in_memory("bank")
    ledger.set_budget("adult", "*", "*", epsilon=exact, delta=DELTA)
    ledger.charge(release("r0"), "adult")
    ledger.charge(release("r1", observer="party:insurer"), "adult")
    assert [total.observer for total in ledger.totals()] == ["party:insurer", "server"]
    with pytest.raises(BudgetExceeded):
        ledger.charge(release("r2"), "adult")
    ledger = Ledger.in_memory("bank")
    ledger.set_budget("adult", "record", "coalition:server+insurer", 1.0, DELTA)
    assert ledger.what_fits("adult", "record", "coalition:insurer+server") == 1.0
    with pytest.raises(ValueError, match=r"is written 'coalition:insurer\+server'"):
        LedgerLine("coalition:server+insurer", "record", STEP)


def test_a_budget_can_be_raised_and_lowered_and_the_history_shows_it() -> None:
    ledger = bank(1.0)
    ledger.charge(release("r0"), "adult")
    spent = only_total(ledger).epsilon
    ledger.set_budget("adult", "record", "server", epsilon=spent / 2, delta=DELTA)
    assert only_total(ledger).left == 0.0
    assert only_total(ledger).epsilon == spent
    with pytest.raises(BudgetExceeded):
        ledger.charge(release("r1"), "adult")
    ledger.set_budget("adult", "record", "server", epsilon=2, delta=DELTA)
    ledger.charge(release("r1"), "adult")
    budgets = [entry.body["epsilon"] for entry in ledger.entries() if entry.kind == "budget"]
    assert budgets == [1.0, spent / 2, 2]


def test_seeded_noise_taints_the_total_for_good_and_entries_carry_utc_times() -> None:
    ledger = bank(5.0)
    ledger.charge(release("r0"), "adult")
    assert not only_total(ledger).reproducible
    ledger.charge(release("r1", reproducible=True), "adult")
    ledger.charge(release("r2"), "adult")
    assert only_total(ledger).reproducible
    assert [entry.body["release"]["reproducible"] for entry in ledger.entries()[2:]] == [False, True, False]
    ledger = bank()
    ledger.charge(release("r0"), "adult")
    for entry in ledger.entries():
        assert json.loads(json.dumps(entry.to_data())) == entry.to_data()
        assert datetime.datetime.fromisoformat(entry.time).utcoffset() == datetime.timedelta(0)


def test_a_peer_that_tells_two_histories_is_found_out_and_one_that_goes_on_is_not() -> None:
    ledger = bank()
    one, two = "11" * 32, "22" * 32
    announced = Receipt("insurer", entry=3, head="ab" * 32, origin=one)
    retold = Receipt("insurer", entry=3, head="cd" * 32, origin=one)
    for _ in range(2):
        ledger.keep_receipt(announced)
    assert ledger.receipts("insurer") == (announced,) and ledger.receipts("nobody") == ()
    ledger.keep_receipt(Receipt("insurer", entry=4, head="cd" * 32, origin=one))
    ledger.keep_receipt(Receipt("insurer", entry=3, head="cd" * 32, origin=two))
    ledger.keep_receipt(Receipt("shop", entry=3, head="cd" * 32, origin=one))
    assert ledger.contradictions() == ()
    with pytest.raises(LedgerAltered, match="insurer gives another head for entry 3"):
        ledger.keep_receipt(retold)
    assert ledger.contradictions() == ((announced, retold),)
    with pytest.raises(LedgerError, match="own ledger"):
        ledger.keep_receipt(ledger.receipt())


# One observer in several roles: it takes part in one run, reads the model of another, and has one total.


SMALL, LARGE = STRONGER, Gaussian(sensitivity=1, sigma=8)
IN_PART = ("others-part", "party:bank")


def of(name: str, *lines: LedgerLine) -> Release:
    return replace(release(name), lines=lines)


def run_with(partner: str, name: str, *, own: Event = STEP, replaced: Event = LARGE) -> Release:
    """What a party charges for a run with one partner, as the protocols write it."""
    return of(
        name,
        LedgerLine("server", "record", SMALL),
        LedgerLine("reader", "record", SMALL),
        LedgerLine("reader", "record-replaced", replaced),
        LedgerLine(f"party:{partner}", "others-part", own),
    )


def pair_with(partner: str, name: str) -> Release:
    """The same without a server."""
    return of(name, *(line for line in run_with(partner, name).lines if line.observer != "server"))


def shop(epsilon: float = 50.0) -> Ledger:
    return book("shop", "sales", epsilon)


def cost(*events: Event) -> float:
    return account(events[0] if len(events) == 1 else Composed(events), DELTA).epsilon


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(("bank", "clinic", "alone")), max_size=6), st.floats(0.1, 1.5))
def test_no_known_account_passes_its_budget(partners: list[str], epsilon: float) -> None:
    live = shop()
    live.set_budget("sales", *IN_PART, epsilon=epsilon, delta=DELTA)
    for index, partner in enumerate(partners):
        entries = len(live.entries())
        try:
            live.charge(
                pair_with("bank", f"r{index}") if partner == "alone" else run_with(partner, f"r{index}"),
                "sales",
            )
        except BudgetExceeded as refused:
            assert "observer 'party:bank'" in str(refused)
            assert len(live.entries()) == entries
        assert all(total.epsilon <= total.budget_epsilon for total in live.totals())


@pytest.mark.parametrize("order", [("bank", "clinic"), ("clinic", "bank")])
def test_a_partner_of_one_run_reads_the_other_whichever_came_first(order: tuple[str, str]) -> None:
    ledger = shop()
    for number, partner in enumerate(order):
        ledger.charge(replace(run_with(partner, partner), reproducible=number == 1), "sales")
    assert all(total.reproducible for total in ledger.totals()), "a seed taints whoever only reads"
    both = cost(STEP, LARGE)
    assert both > max(cost(STEP), cost(LARGE))
    for partner in order:
        assert epsilons(ledger)["others-part", f"party:{partner}"] == pytest.approx(both, rel=1e-9)
        assert ledger.what_fits("sales", "others-part", f"party:{partner}") == pytest.approx(
            50 - both, rel=1e-9
        )


def test_servers_and_accounts_named_by_budgets_read_what_is_published() -> None:
    ledger = shop()
    ledger.set_budget("sales", "record", "server", epsilon=cost(SMALL) * 1.2, delta=DELTA)
    ledger.charge(run_with("bank", "r0"), "sales")
    with pytest.raises(BudgetExceeded, match=r"observer 'server'.*server takes no part in this and reads"):
        ledger.charge(pair_with("bank", "r1"), "sales")
    ledger.set_budget("sales", "record", "server", epsilon=5.0, delta=DELTA)
    ledger.charge(pair_with("bank", "r1"), "sales")
    assert epsilons(ledger)["record", "server"] == pytest.approx(cost(SMALL, SMALL), rel=1e-9)
    ledger = shop()
    ledger.set_budget("sales", *IN_PART, epsilon=cost(LARGE) * 0.9, delta=DELTA)
    with pytest.raises(BudgetExceeded, match="unit 'others-part', observer 'party:bank'"):
        ledger.charge(run_with("clinic", "r0"), "sales")
    assert epsilons(ledger) == {IN_PART: 0.0}


def test_an_observer_that_takes_part_is_charged_its_own_lines_and_nothing_beside() -> None:
    ledger = shop()
    ledger.set_budget("staff", "*", "*", epsilon=50.0, delta=DELTA)
    ledger.charge(run_with("bank", "r0"), "sales")
    assert epsilons(ledger)[IN_PART] == cost(STEP)
    assert epsilons(ledger)["record", "server"] == cost(SMALL)
    assert epsilons(ledger)["record", "reader"] == cost(SMALL)
    # Neither another data set nor what nobody reads adds to those whom it does not name.
    ledger.charge(of("r1", LedgerLine("server", "record", LARGE)), "sales")
    ledger.charge(of("r2"), "sales")
    ledger.charge(run_with("clinic", "r3"), "staff")
    sales = {
        (total.unit, total.observer): total.epsilon for total in ledger.totals() if total.dataset == "sales"
    }
    assert sales[IN_PART] == cost(STEP)
