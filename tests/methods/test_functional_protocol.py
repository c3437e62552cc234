"""The functional mechanism against its ideal twin, its door, its noise and its refusals."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from functional_parties import NAMES, group_of, plan_for, run_plan, tables_of, with_noise
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ideals import ideal_objective
from numpy.typing import NDArray
from plan_runs import inputs_for, ledgers_for
from scipy import stats
from training_specs import requested
from typed import untyped

from colonnade.data.table import AlignedTable, Table
from colonnade.errors import DataError, LocalProtocolError, PlansDiffer, RemoteProtocolError
from colonnade.federation.federation import Federation
from colonnade.methods.functional import protocol as module
from colonnade.methods.functional.plan import FunctionalOptions, FunctionalPlan
from colonnade.methods.functional.protocol import functional_session, integer_rows
from colonnade.protocols.plans import Task
from colonnade.randomness import SeededRandomness
from colonnade.runtime.party import Party
from colonnade.runtime.run import run_here

FALSE_ALARM = 1e-9


@settings(max_examples=14, deadline=None)
@given(
    st.sampled_from(["classification", "regression"]),
    st.sampled_from(["ball", "box"]),
    st.integers(2, 5),
    st.integers(1, 200),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
    st.just({}),
)
@example("classification", "ball", 2, 40, 0, True, False, {"computing_parties": ("one", "two", "three")})
def test_without_noise_the_protocol_is_the_ideal(
    task: Task, domain: str, count: int, rows: int, active: int, intercept: bool, bare: bool, roles: Any
) -> None:
    parties = NAMES[:count]
    holder = parties[active % count]
    tables = tables_of(parties, rows, task=task, active=holder, empty=(holder,) if bare else ())
    group = group_of(tables, **roles)
    plan = plan_for(tables, group=group, task=task, domain=domain, intercept=intercept, delta=1e-6)
    plan = with_noise(plan, silent=True)
    outcome = run_plan(plan, tables)
    opened, _ = outcome.results["server"]
    aligned = {name: outcome.results[name][1] for name in parties}
    assert opened.tolist() == ideal_objective(aligned, plan).tolist()
    assert all(outcome.results[name][0] is None for name in parties), "only the server opens"


@pytest.mark.parametrize("noise", ["laplace", "skellam"])
@pytest.mark.parametrize("bottom_up", [False, True])
def test_what_is_opened_is_the_ideal_plus_every_owners_noise(noise: str, bottom_up: bool) -> None:
    parties = NAMES[: 2 if bottom_up else 3]
    tables = tables_of(parties, 60)
    plan = plan_for(tables, noise=noise, domain="box", gamma=64)
    if bottom_up:
        epsilons = {block.name: 0.1 for block in plan.dissection.blocks}
        plan = plan_for(tables, noise=noise, domain="box", gamma=64, epsilons=epsilons)
    plan = with_noise(plan, silent=False)
    outcome = run_plan(plan, tables)
    ideal = ideal_objective({name: outcome.results[name][1] for name in plan.group.owners}, plan)
    noises = [plan.noise_of(block) for block in plan.dissection.blocks]
    if bottom_up:
        drawn = np.concatenate([sum(untyped(each).drawn) for each in noises])
        assert all(len(untyped(each).drawn) == (2 if noise == "laplace" else 3) for each in noises)
    else:
        parts, size = untyped(plan.noises[0]).drawn, len(noises)
        # Owners draw in turn, block by block.
        drawn = untyped(sum)(
            np.concatenate(parts[start : start + size]) for start in range(0, len(parts), size)
        )
        assert len(parts) == 3 * size
    assert (outcome.results["server"][0] - ideal.astype(np.int64)).tolist() == drawn.tolist()
    assert np.count_nonzero(drawn) > len(drawn) // 2


def test_the_blocks_have_every_product_once_and_no_square_of_label_or_constant() -> None:
    tables = tables_of(NAMES[:4], 10, active="shop")
    plan = plan_for(tables, domain="box")
    found = plan.dissection
    seen = [(int(i), int(j)) for b in found.blocks for i, j in zip(b.left, b.right, strict=True)]
    assert len(seen) == len(set(seen)) == found.coefficients
    everything = {(i, j) for i in range(found.columns) for j in range(i, found.columns)}
    assert everything - set(seen) == {(found.label, found.label), (found.constant, found.constant)}
    owner = {int(place): name for name, places in found.features_of.items() for place in places}
    owner[found.label] = "shop"
    for block in found.blocks:
        for i, j in zip(block.left.tolist(), block.right.tolist(), strict=True):
            involved = {owner[place] for place in (i, j) if place != found.constant}
            assert involved == set(block.owners), "a block needs the columns of its owners and of nobody else"
    matrix = found.matrix(np.arange(1, found.coefficients + 1))
    assert np.array_equal(matrix, matrix.T) and matrix[found.label, found.label] == 0
    assert matrix[np.triu_indices(found.columns)][found.opened].tolist() == list(
        range(1, found.coefficients + 1)
    )


@given(
    st.sampled_from(["ball", "box"]), st.sampled_from(["classification", "regression"]), st.integers(0, 99)
)
@settings(max_examples=20, deadline=None)
def test_no_row_passes_the_bounds_that_the_noise_was_calibrated_to(
    domain: str, task: Task, seed: int
) -> None:
    tables = tables_of(("bank", "insurer"), 50, task=task, seed=seed)
    plan = plan_for(tables, task=task, domain=domain)
    for table, bounds in zip(tables, plan.row.parts, strict=True):
        (rows,) = table.blocks(50)
        dealt = integer_rows(plan, table.party, rows)
        features = dealt[:, : bounds.features]
        assert (np.square(features).sum(axis=1) <= bounds.square).all()
        assert np.abs(features).max() <= bounds.largest
        if table.party == plan.label_holder:
            assert np.abs(dealt[:, -1]).max() <= plan.label_size
            assert set(dealt[:, -2]) == {plan.constant_size}


def drawn_noise(plan: FunctionalPlan, owners: tuple[str, ...], seed: int) -> NDArray[np.int64]:
    """All owners' parts of a plan's noise, from seeded coins."""
    total = np.zeros(plan.dissection.coefficients, dtype=np.int64)
    for owner in owners:
        randomness = SeededRandomness(f"{seed}/{owner}")
        total = total + np.concatenate(
            [plan.noise_of(b).part(plan.group).draw(b.size, randomness) for b in plan.dissection.blocks]
        )
    return total


def chi_square(values: NDArray[np.int64], law: Any) -> np.float64:
    """p of the law's fit over twenty bins of equal probability."""
    edges = law.ppf(np.linspace(0, 1, 21)[1:-1])
    counts = np.bincount(np.searchsorted(edges, values, side="left"), minlength=20)
    # Probabilities of the bins as the discrete law has them.
    cumulative = np.concatenate([[0.0], law.cdf(edges), [1.0]])
    result: np.float64 = stats.chisquare(counts, np.diff(cumulative) * len(values)).pvalue
    return result


@pytest.mark.parametrize(
    ("noise", "parties"), [("laplace", 2), ("laplace", 3), ("skellam", 3), ("gaussian", 3), ("gaussian", 2)]
)
def test_the_parts_of_k_minus_t_owners_make_the_noise_that_was_calibrated(noise: str, parties: int) -> None:
    tables = tables_of(NAMES[:parties], 20, width=8)
    plan = plan_for(tables, noise=noise, domain="box", gamma=16, epsilon=2.0)
    dealers = plan.noises[0].dealers(plan.group)
    honest = dealers[plan.group.threshold :]
    values = np.concatenate([drawn_noise(plan, honest, seed) for seed in range(40)])
    parameter = float(plan.noises[0].parameter)
    if noise == "laplace":
        law, worse = stats.dlaplace(1 / parameter), stats.dlaplace(1 / (1.15 * parameter))
    else:
        deviation = math.sqrt(parameter if noise == "gaussian" else 2 * parameter)
        law, worse = stats.norm(0, deviation), stats.norm(0, 1.15 * deviation)
    assert chi_square(values, law) > FALSE_ALARM
    assert chi_square(values, worse) < FALSE_ALARM, "this test would notice fifteen percent"


def test_what_the_opened_noise_deviates_by_is_what_the_plan_says() -> None:
    tables = tables_of(NAMES[:3], 20, width=8)
    for noise in ("laplace", "skellam"):
        plan = plan_for(tables, noise=noise, domain="box", gamma=16)
        values = np.concatenate([drawn_noise(plan, plan.group.owners, seed) for seed in range(20)])
        ratio = float(values.var()) / plan.noises[0].variance(plan.group)
        spread = math.sqrt(5.0 / len(values))  # of a sample variance, kurtosis at most 6
        assert abs(ratio - 1) < 6.1 * spread  # false alarm 1e-9
        assert 6.1 * spread < 0.33, "owners' parts left out, two of three, would be noticed"


def test_exact_cross_coefficients_would_give_the_last_record_away() -> None:
    """What parties decrypt in the paper: whoever knows all other records reads the last one; ours has noise in it."""
    tables = tables_of(("bank", "insurer"), 40, task="regression")
    plan = with_noise(plan_for(tables, task="regression", domain="box"), silent=False)
    outcome = run_plan(plan, tables)
    aligned = {name: outcome.results[name][1] for name in plan.group.owners}
    cross = slice(plan.dissection.coefficients - plan.dissection.blocks[-1].size, None)
    exact = ideal_objective(aligned, plan)[cross].astype(float)
    dealt = {}
    for name in plan.group.owners:
        (block,) = aligned[name].blocks(40)
        dealt[name] = integer_rows(plan, name, block).astype(float)
    mine, theirs = dealt["bank"], dealt["insurer"]
    features = plan.dissection.features_of["bank"]
    held = np.column_stack([mine[:, features], mine[:, -1]])  # its features and the label

    def last_record(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        known = held[:-1].T @ theirs[:-1]
        left = coefficients.reshape(known.shape) - known
        result: NDArray[np.float64] = left[0] / held[-1, 0]
        return result

    assert np.allclose(last_record(exact), theirs[-1]), "the attack works on exact coefficients"
    noisy = last_record(outcome.results["server"][0][cross].astype(float))
    assert np.abs(noisy - theirs[-1]).max() > plan.gamma, "and misses by more than the whole range with noise"


@pytest.mark.parametrize(
    ("field", "other"),
    [("epsilon", 2.0), ("domain", "box"), ("noise", "skellam"), ("intercept", False), ("gamma", 8192)],
)
def test_different_jobs_stop_the_run_and_name_the_field(field: str, other: float | str) -> None:
    request = requested(FunctionalOptions, "classification", 1.0, delta=1e-5)
    own = field in FunctionalOptions.model_fields
    theirs = request.with_options(**{field: other}) if own else replace(request, **untyped({field: other}))
    tables = tables_of(("bank", "insurer"), 20)
    group = group_of(tables)

    async def program(party: Party, table: Table | None) -> Any:
        return await functional_session(party, table, theirs if party.name == "insurer" else request)

    ledgers = ledgers_for(group)
    with pytest.raises(PlansDiffer, match=f"do not agree on '{field}'"):
        run_here(program, group, inputs_for(group, tables, ledgers))
    assert all(len(ledger.entries()) <= 2 for ledger in ledgers.values()), "nothing was charged"


def test_rows_that_are_not_those_of_the_plan_or_no_numbers_are_refused() -> None:
    tables = tables_of(("bank", "insurer"), 30)
    plan = plan_for(tables, rows=31)
    with pytest.raises(LocalProtocolError, match="should bring 31 aligned rows, brought 30 rows"):
        run_plan(plan, tables)
    tables = tables_of(("bank", "insurer"), 5)
    plan = plan_for(tables, domain="box")
    (rows,) = tables[1].blocks(5)
    broken = replace(rows, columns={**rows.columns, "insurer0": np.full(5, np.nan)})
    with pytest.raises(DataError, match="not a finite number"):
        integer_rows(plan, "insurer", broken)
    (rows,) = tables[0].blocks(5)
    with pytest.raises(LocalProtocolError, match="should bring a label"):
        integer_rows(plan, "bank", replace(rows, label=None))


def test_every_owner_reads_the_same_objective_and_a_mere_keeper_none() -> None:
    tables = tables_of(("bank", "insurer"), 30)
    federation = Federation(tables, budget=(20.0, 1e-5), computing_parties=("one", "two", "three"))
    run = federation.run(functional_session, requested(FunctionalOptions, "classification", 1.0, delta=1e-5))
    read = [run.result(name).coefficients for name in ("server", "bank", "insurer")]
    assert (
        all(np.array_equal(each, read[0]) for each in read)
        and read[0].size == run.plan.dissection.coefficients
    )
    assert run.result("one").coefficients.size == 0 and run.result("one").aligned is None
    spent = {(total.unit, total.observer): total.epsilon for total in federation.ledgers["bank"].totals()}
    assert 0.99 < spent["record", "server"] <= 1.0


def test_a_server_that_publishes_what_no_objective_is_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    request = requested(FunctionalOptions, "regression", 1.0, delta=1e-5)
    tables = tables_of(("bank", "insurer"), 30, task="regression")
    group = group_of(tables)
    real = module.functional_mechanism

    async def lying(
        party: Party, aligned: AlignedTable | None, plan: FunctionalPlan
    ) -> NDArray[np.int64] | None:
        opened = await real(party, aligned, plan)
        return None if opened is None else np.full_like(opened, 2**62 + 2**61)

    monkeypatch.setattr(module, "functional_mechanism", lying)
    with pytest.raises(RemoteProtocolError, match="larger than any of this plan"):
        run_here(functional_session, group, inputs_for(group, tables), request)
