"""Margin with checks: honest runs are the ideal, and every cheat that reads a person without them stops the run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gradient_tables import NAMES
from lying_parties import adding_to_products, proving_short_rows
from margin_runs import margin_plan, run_margin, silenced, tables_of, watched_rows
from plan_runs import ledgers_for
from typed import there, untyped

from colonnade.errors import FieldTooSmall, GroupMismatch, PlanError, RowsNotProved
from colonnade.methods.margin.curve import Phasors
from colonnade.methods.margin.plan import MarginPlan
from colonnade.methods.margin.protocol import OwnRows, descended, ideal_slopes, summed_slopes
from colonnade.numbers.field import FIELD63, FIELD126
from colonnade.protocols.sharing import Shared
from colonnade.protocols.verified_products import complex_products, paired
from colonnade.randomness import SeededRandomness

PAIR = ("bank", "insurer")
ROWS = 40
Change = Callable[[np.ndarray], np.ndarray]


def checked(
    rows: int = ROWS,
    owners: tuple[str, ...] = PAIR,
    classes: tuple[str, ...] = ("no", "yes"),
    **terms: object,
) -> tuple[Any, ...]:
    tables = tables_of(owners, rows, classes=classes)
    return tables, margin_plan(tables, **untyped({"steps": 2, "harmonics": 3, "verify": "all"} | terms))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, OwnRows]:
    return watched_rows(monkeypatch)


@pytest.mark.parametrize(("owners", "classes"), [(2, "ab"), (2, "abc"), (3, "ab"), (4, "ab")])
def test_a_checked_run_without_noise_is_the_ideal(
    read: Any, monkeypatch: pytest.MonkeyPatch, owners: int, classes: str
) -> None:
    monkeypatch.setattr(MarginPlan, "block", property(lambda self: 25))
    tables, plan = checked(owners=NAMES[:owners], classes=tuple(classes), steps=1)
    plan = silenced(plan)
    seen = run_margin(plan, tables).results["server"]
    ideal = descended(plan, read, SeededRandomness("none"))
    assert plan.verify == "all" and seen.moments.tolist() == ideal.moments.tolist()
    assert [one.tolist() for one in seen.opened] == [one.tolist() for one in ideal.opened]


def test_proved_products_are_complex_ones_and_tables_not_levelled_are_what_they_were() -> None:
    left, right = (FIELD63.encode(np.arange(24).reshape(2, 12) - 7 * k) for k in (1, 2))
    factors = paired(Shared(left, (2, 12), 1), Shared(right, (2, 12), 1), 2)
    found = there(factors[0].share).row_products(there(factors[1].share)).reshape((2, 12))
    assert found.decode().tolist() == complex_products(left, right, 2).decode().tolist()
    curve = checked()[1].phasors.curve
    assert np.array_equal(
        Phasors(curve, 512, 300).plain, Phasors(curve, 512, 300, (10**6,) * curve.harmonics).plain
    )


def test_honest_slopes_keep_the_curve_where_harmonics_are_levelled(read: Any) -> None:
    tables, plan = checked(rows=300, harmonics=6)
    plan = silenced(plan)
    run_margin(plan, tables)
    weights = np.random.default_rng(0).normal(size=(plan.size, 1)) * 3
    rows = np.concatenate([read[owner].features for owner in plan.group.owners], axis=1)
    slopes = ideal_slopes(plan, read, weights)[:, 0] / plan.scale
    signs = np.where(read["bank"].positive[:, 0], 1.0, -1.0)
    curve = plan.phasors.curve
    margins = signs * (rows @ weights)[:, 0] / plan.gamma * (2 * np.pi / 22)
    exact = float(curve.constant) + sum(
        a / 1e6 * np.cos(j * margins) + b / 1e6 * np.sin(j * margins)
        for j, (a, b) in enumerate(zip(curve.cosines, curve.sines, strict=True), start=1)
    )
    assert np.abs(signs * slopes - exact).max() < 2e-3


def test_statements_follow_what_is_checked() -> None:
    tables = tables_of(PAIR, 500)
    unchecked, plan = (
        margin_plan(tables, steps=20, harmonics=3, verify=verify) for verify in ("none", "all")
    )
    before, after = ({one.observer.name: one for one in each.guarantees} for each in (unchecked, plan))
    assert 0.99 < after["server"].epsilon <= 1.0 and plan.hash != unchecked.hash
    # The slope of a label holder that lies may have either sign: it is charged as any other party is.
    assert after["party:bank"].epsilon > 1.3 * before["party:bank"].epsilon
    assert after["party:bank"].epsilon == pytest.approx(after["party:insurer"].epsilon, rel=0.2)
    for name in after:
        assert ("deviate" in after[name].assumption) and "deviate" not in before[name].assumption
    assert plan.to_data()["verify"] == "all"
    assert float(plan.variance) / plan.scale**2 < 1.2 * float(unchecked.variance) / unchecked.scale**2


def test_what_cannot_be_checked_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tables_of(PAIR, ROWS)
    with pytest.raises(PlanError, match="Write verify = 'all', or 'none'"):
        margin_plan(tables, verify="rows")
    with pytest.raises(GroupMismatch, match="t = 2"):
        margin_plan(tables_of(NAMES[:5], ROWS), verify="all")
    assert margin_plan(tables).verify == "none"
    monkeypatch.setattr("colonnade.methods.margin.plan.smallest_field", lambda **_: FIELD126)
    with pytest.raises(FieldTooSmall, match=r"between 2 owners need 126\. Write verify = 'none'"):
        margin_plan(tables, verify="all")


# --- attacks: each works where nobody checks
def joined(plan: MarginPlan, rows: dict[str, OwnRows]) -> np.ndarray:
    return np.concatenate([rows[owner].features for owner in plan.group.owners], axis=1).astype(np.float64)


@pytest.fixture
def dealing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, Change], None]:
    """Let an owner deal other rows ("dealt") or phasors than its own, with pads as for short ones."""

    def arrange(owner: str, what: str, change: Change) -> None:
        honest = getattr(OwnRows, what)

        def lying(self: Any, *given: Any) -> Any:
            found, plan = honest(self, *given), given[-1]
            mine = owner == (plan.label_holder if self.positive is not None else plan.others[0])
            return change(found) if mine else found

        monkeypatch.setattr(OwnRows, what, lying)
        proving_short_rows(monkeypatch)

    return arrange


def one_person(phasors: np.ndarray) -> np.ndarray:
    """Waves of 0 but for one person: what opens is that person's columns, times a number that no noise hides."""
    phasors = phasors.copy()
    phasors[:, :] = 0
    phasors[17, 0] = 1 << 33
    return phasors


def test_a_holder_that_deals_one_long_phasor_reads_a_person_where_nobody_checks(
    dealing: Any, read: Any
) -> None:
    dealing("bank", "phasors", one_person)
    tables, plan = checked(verify="none")
    seen = run_margin(plan, tables).results["server"]
    # Weights are 0 in the first step, so the insurer's first wave is the grid.
    slope, own = (1 << 33) * plan.phasor_grid, plan.widths["bank"]
    found = np.rint(seen.opened[0][own:] / slope).astype(int)
    theirs = read["insurer"].features[17]
    assert np.abs(theirs).max() > 100 and found.tolist() == theirs.tolist()
    assert plan.guarantees[0].epsilon <= 1.0, "and the run says that ε is 1"


@pytest.mark.parametrize("liar", PAIR)
def test_a_long_phasor_stops_the_run(dealing: Any, liar: str) -> None:
    dealing(liar, "phasors", one_person)
    tables, plan = checked()
    with pytest.raises(RowsNotProved, match=f"at step 'waves 0.0': what {liar} dealt was not proved"):
        run_margin(plan, tables)


def test_angles_that_do_not_belong_together_are_covered_by_what_is_charged(dealing: Any, read: Any) -> None:
    """Every harmonic at its own angle: no longer than the table, and no more than what is charged."""

    def apart(phasors: np.ndarray) -> np.ndarray:
        half = phasors.shape[1] // 2
        rotated = np.hypot(phasors[:, :half], phasors[:, half:])
        return np.concatenate([np.trunc(rotated), np.zeros_like(rotated)], axis=1).astype(np.int64)

    tables, plan = checked()
    plan = silenced(plan)
    dealing("bank", "phasors", apart)
    seen = run_margin(plan, tables).results["server"]
    slopes = ideal_slopes(plan, read, np.zeros((plan.size, 1)))
    assert seen.opened[0].tolist() == summed_slopes(joined(plan, read), slopes).tolist()
    assert 0.53 * plan.scale < np.abs(slopes).max() <= plan.slopes.most
    assert float(plan.phasors.curve.bounds[1]) < 0.5001, "no angles that belong together come to that"


def test_a_slope_of_the_other_sign_is_charged(dealing: Any, read: Any) -> None:
    """A holder that turns every sign keeps its norms: the run goes on, and the slope is within what is charged."""
    tables, plan = checked()
    plan = silenced(plan)
    honest = OwnRows.phasors
    dealing("bank", "phasors", lambda phasors: -phasors)
    seen = run_margin(plan, tables).results["server"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnRows, "phasors", honest)
        slopes = ideal_slopes(plan, read, np.zeros((plan.size, 1)))
    constants = np.where(read["bank"].positive, 1, -1) * plan.phasors.constant * plan.phasor_grid
    rotated = 2 * constants - slopes
    assert seen.opened[0].tolist() == summed_slopes(joined(plan, read), rotated).tolist()
    assert (np.sign(rotated) != np.sign(slopes)).any() and plan.slopes.least == -plan.slopes.most


@pytest.mark.parametrize("column", [0, -1])
def test_long_rows_and_long_constants_stop_the_run_before_the_moments(dealing: Any, column: int) -> None:
    def long(rows: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        rows[3, column] = 1 << 20
        return rows

    dealing("bank", "dealt", long)
    tables, plan = checked()
    with pytest.raises(RowsNotProved, match="at step 'columns 0': what bank dealt was not proved"):
        run_margin(plan, tables)


def adding(monkeypatch: pytest.MonkeyPatch, liar: str, plan: MarginPlan) -> None:
    """A computing party adds 2⁴⁶ to its product for one person before it reshares."""
    adding_to_products(monkeypatch, liar, plan.group, place=17, value=1 << 46)


def test_a_keeper_that_adds_to_its_product_reads_a_person_where_nobody_checks(
    monkeypatch: pytest.MonkeyPatch, read: Any
) -> None:
    tables, plan = checked(verify="none")
    adding(monkeypatch, "bank", plan)
    seen = run_margin(plan, tables).results["server"]
    own = plan.widths["bank"]
    found = np.rint(seen.opened[0][own:] / (1 << 46)).astype(int)
    assert found.tolist() == read["insurer"].features[17].tolist()


@pytest.mark.parametrize("liar", ["server", *PAIR])
def test_a_keeper_that_adds_to_its_product_is_stopped(monkeypatch: pytest.MonkeyPatch, liar: str) -> None:
    tables, plan = checked()
    adding(monkeypatch, liar, plan)
    ledgers = ledgers_for(plan.group)
    with pytest.raises(RowsNotProved, match=f"at step 'slopes 0.0': what {liar} dealt was not proved"):
        run_margin(plan, tables, ledgers=ledgers)
    assert "charge" in [entry.kind for entry in ledgers["bank"].entries()], "an attempt is paid for"


def test_a_keeper_of_three_owners_is_stopped_in_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, plan = checked(owners=NAMES[:3])
    adding(monkeypatch, NAMES[1], plan)
    with pytest.raises(RowsNotProved, match=r"at step 'turning 0\.0\.0'"):
        run_margin(plan, tables)
