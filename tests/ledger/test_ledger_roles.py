"""One observer in several roles: it takes part in one run, reads the model of another, and has one total."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_samples import DELTA, STEP, book, epsilons, release
from training_specs import requested

from colonnade import Federation, Schema, Table
from colonnade.errors import BudgetExceeded
from colonnade.ledger import Ledger, LedgerLine, Release
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.privacy.events import Composed, Event, Gaussian
from colonnade.privacy.guarantee import account
from colonnade.runtime.party import Group

SMALL, LARGE = Gaussian(sensitivity=1, sigma=32), Gaussian(sensitivity=1, sigma=8)
ROWS = 100
IN_PART = ("others-part", "party:bank")


def of(name: str, *lines: LedgerLine, reproducible: bool = False) -> Release:
    return replace(release(name, reproducible=reproducible), lines=lines)


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


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(("bank", "clinic", "alone")), max_size=6), st.floats(0.1, 1.5))
def test_no_known_account_passes_its_budget_and_the_file_tells_the_same(
    tmp_path_factory: pytest.TempPathFactory, partners: list[str], epsilon: float
) -> None:
    path = tmp_path_factory.mktemp("roles") / "shop.ledger"
    live = Ledger.create(path, "shop")
    live.set_budget("sales", "*", "*", epsilon=50.0, delta=DELTA)
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
    again = Ledger.open(path)
    assert again.totals() == live.totals()
    assert again.verify([live.receipt()]).entries == len(live.entries())


@pytest.mark.parametrize("order", [("bank", "clinic"), ("clinic", "bank")])
def test_a_partner_of_one_run_reads_the_other_whichever_came_first(order: tuple[str, str]) -> None:
    ledger = shop()
    for partner in order:
        ledger.charge(run_with(partner, partner), "sales")
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


def test_an_overdrawn_account_refuses_only_what_adds_to_it_and_seeded_noise_taints_who_only_reads() -> None:
    ledger = shop()
    ledger.charge(run_with("bank", "r0"), "sales")
    ledger.charge(of("r1", *run_with("clinic", "r1").lines, reproducible=True), "sales")
    tainted = {(total.unit, total.observer): total.reproducible for total in ledger.totals()}
    assert tainted[IN_PART]
    ledger.set_budget("sales", *IN_PART, epsilon=cost(STEP) / 2, delta=DELTA)
    ledger.charge(of("r2", LedgerLine("server", "record", SMALL)), "sales")
    with pytest.raises(BudgetExceeded, match="party:bank"):
        ledger.charge(run_with("clinic", "r3"), "sales")


@cache
def table(party: str) -> Table:
    rng = np.random.default_rng(len(party))
    schema = Schema.parse('id = "n"\n[columns.value]\nkind = "numeric"\nlow = 0\nhigh = 1')
    return Table.from_arrays(party, {"value": rng.uniform(0, 1, ROWS)}, schema)


def moments_plan(*owners: str) -> MomentsPlan:
    schemas = tuple(table(owner).public() for owner in owners)
    made: MomentsPlan = requested(MomentsOptions, task="pca", epsilon=1.0, delta=DELTA).plan(
        Group.of(owners), schemas, ROWS
    )
    return made


@pytest.mark.parametrize("owners", [("shop", "bank"), ("shop", "bank", "a", "b", "c")])
def test_the_readers_line_for_a_replaced_record_costs_no_less_than_any_partys_line(
    owners: tuple[str, ...],
) -> None:
    lines = moments_plan(*owners).release("shop", run="r", reproducible=False).lines
    (replaced,) = (line for line in lines if (line.observer, line.unit) == ("reader", "record-replaced"))
    parts = [line for line in lines if line.unit == "others-part"]
    assert len(parts) == len(owners) - 1
    assert all(cost(replaced.event) >= cost(line.event) for line in lines)


def test_a_run_with_one_partner_is_refused_for_what_another_partner_would_read(tmp_path: Path) -> None:
    """Two runs at ε = 1 with different partners cost each partner about 2, not 1.4."""

    def second_run(ledger: Ledger) -> None:
        for partner in ("bank", "clinic"):
            federation = Federation(
                [table("shop"), table(partner)], budget=(9.0, DELTA), ledgers={"shop": ledger}
            )
            federation.moments(task="pca", epsilon=1.0, delta=DELTA)

    free = Ledger.in_memory("shop")
    free.set_budget("shop", "*", "*", epsilon=9.0, delta=DELTA)
    second_run(free)
    once = cost(moments_plan("shop", "bank").release("shop", run="r", reproducible=False).lines[-1].event)
    assert once < 1.5 < 1.9 < epsilons(free)[IN_PART] < 2 * once

    held = Ledger.create(tmp_path / "shop.ledger", "shop")
    held.set_budget("shop", "*", "*", epsilon=9.0, delta=DELTA)
    held.set_budget("shop", *IN_PART, epsilon=1.5, delta=DELTA)
    with pytest.raises(BudgetExceeded, match="observer 'party:bank'"):
        second_run(held)
    assert [entry.kind for entry in held.entries()].count("charge") == 1
    assert epsilons(Ledger.open(tmp_path / "shop.ledger"))[IN_PART] == pytest.approx(once, rel=1e-9)
