"""The moment protocol against its ideal twin, its door, and its refusals."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ideals import ideal_moments
from numpy.typing import NDArray
from training_specs import requested
from typed import untyped

from colonnade.crypto.sharing import Shamir
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import (
    BudgetExceeded,
    DataError,
    FieldTooSmall,
    LedgerAltered,
    LedgerError,
    LedgerReplaced,
    LocalProtocolError,
    NotMasked,
    PlanError,
    PlansDiffer,
    RemoteProtocolError,
)
from colonnade.federation.federation import Federation
from colonnade.ledger import Ledger, Release
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.moments.protocol import moments_session, noisy_moments
from colonnade.noise.discrete_gaussian import MatrixGaussianNoise
from colonnade.numbers.field import FIELD63
from colonnade.privacy.guarantee import account
from colonnade.protocols.agreement import meet
from colonnade.protocols.alignment import align
from colonnade.protocols.plans import Task, default_delta
from colonnade.protocols.sharing import MomentSum, Shared, open_to, share, total
from colonnade.randomness import SystemRandomness
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_here

NAMES = ("bank", "insurer", "shop", "clinic", "school")
LABELS = {
    "classification": "[label]\ncolumn='y'\nkind='classes'\nclasses=['no','maybe','yes']\n",
    "regression": "[label]\ncolumn='y'\nkind='real'\nlow=-2\nhigh=2\n",
    "pca": "",
}


class Silence:
    """No noise at all, so that the protocol can be compared with its ideal on integers."""

    support = 0

    def part(self, parts: int) -> Silence:
        return self

    def draw_symmetric(self, size: int, randomness: SystemRandomness) -> NDArray[np.int64]:
        return np.zeros((size, size), dtype=np.int64)


def silence(plan: Any) -> None:
    plan.__dict__.update(noise=Silence(), views=(), _read_elsewhere=())


class Witnessed:
    """Real noise whose parts are remembered."""

    def __init__(self, noise: MatrixGaussianNoise, drawn: list[NDArray[np.int64]]) -> None:
        self.noise, self.drawn = noise, drawn

    def __getattr__(self, name: str) -> Any:
        return getattr(self.noise, name)

    def part(self, parts: int) -> Witnessed:
        return Witnessed(self.noise.part(parts), self.drawn)

    def draw_symmetric(self, size: int, randomness: SystemRandomness) -> NDArray[np.int64]:
        self.drawn.append(self.noise.draw_symmetric(size, randomness))
        return self.drawn[-1].copy()


def table_of(
    party: str, rows: int, *, task: str, active: str, seed: int = 0, ids: Any = None, width: int = 2
) -> Table:
    rng = np.random.default_rng([seed, NAMES.index(party)])
    text = "id='n'\n" + "".join(
        f"[columns.{party}{i}]\nkind='numeric'\nlow=-1\nhigh=1\n" for i in range(width)
    )
    text += f"[columns.{party}_kind]\nkind='categorical'\ncategories=['a','b','c']\n"
    arrays = {f"{party}{i}": rng.uniform(-1.2, 1.2, rows) for i in range(width)}
    arrays[f"{party}_kind"] = rng.choice(["a", "b", "c"], rows)
    if party == active and task != "pca":
        text += LABELS[task]
        arrays["y"] = (
            rng.choice(["no", "maybe", "yes"], rows) if task == "classification" else rng.normal(size=rows)
        )
    return Table.from_arrays(party, arrays, Schema.parse(text), ids=ids)


def tables_of(
    parties: tuple[str, ...],
    rows: int,
    *,
    task: str = "classification",
    active: str | None = None,
    seed: int = 0,
) -> list[Table]:
    active = active or parties[0]
    return [table_of(party, rows, task=task, active=active, seed=seed) for party in parties]


def ledgers_for(group: Group, epsilon: float = 10.0) -> dict[str, Ledger]:
    ledgers = {name: Ledger.in_memory(name) for name in group.members}
    for name in group.owners:
        ledgers[name].set_budget(name, "*", "*", epsilon=epsilon, delta=1e-5)
    return ledgers


def run_plan(plan: Any, tables: Any, *, record: bool = False, ledgers: Any = None) -> Any:
    """The protocol between alignment and opening, as every party runs it."""

    async def program(party: Party, table: Any) -> Any:
        await meet(party)
        aligned = await align(party, table, "equal")
        return await noisy_moments(party, aligned, plan), aligned

    by_name = {table.party: table for table in tables}
    books = ledgers or ledgers_for(plan.group)
    desks = {name: PartyInputs(books[name], by_name.get(name), dataset=name) for name in plan.group.members}
    return run_here(program, plan.group, desks, record=record)


def plan_for(
    tables: list[Table],
    group: Group,
    *,
    task: Task = "classification",
    rows: Any = None,
    epsilon: float = 1.0,
    **more: Any,
) -> MomentsPlan:
    schemas = tuple(table.public() for table in tables)
    made: MomentsPlan = requested(MomentsOptions, task=task, epsilon=epsilon, delta=1e-5, **more).plan(
        group, schemas, rows or tables[0].rows
    )
    return made


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["classification", "regression", "pca"]),
    st.integers(2, 5),
    st.integers(1, 300),
    st.integers(0, 4),
    st.integers(0, 1000),
)
def test_without_noise_the_protocol_is_the_ideal(
    task: Any, count: int, rows: Any, active: Any, seed: int
) -> None:
    parties = NAMES[:count]
    holder = parties[active % count]
    tables = tables_of(parties, rows, task=task, active=holder, seed=seed)
    group = Group.of(parties, active=None if task == "pca" else holder)
    plan = plan_for(tables, group, task=task)
    silence(plan)
    outcome = run_plan(plan, tables)
    opened, _ = outcome.results["server"]
    aligned = {name: outcome.results[name][1] for name in parties}
    assert opened.tolist() == ideal_moments(aligned, plan).tolist()
    assert all(outcome.results[name][0] is None for name in parties), "only the server opens"


def test_what_is_opened_is_the_ideal_plus_every_owners_noise() -> None:
    tables = tables_of(("bank", "insurer", "shop"), 50)
    plan = plan_for(tables, Group.of(("bank", "insurer", "shop"), active="bank"))
    drawn: list[Any] = []
    plan.__dict__["noise"] = Witnessed(untyped(plan.noise), drawn)
    outcome = run_plan(plan, tables)
    opened, _ = outcome.results["server"]
    ideal = ideal_moments({name: outcome.results[name][1] for name in plan.group.owners}, plan)
    assert len(drawn) == 3
    # The label block is dealt behind bank's features and arranged to the end; diagonals suffice to compare.
    difference = np.sort(np.diag(opened - ideal.astype(np.int64)))
    assert difference.tolist() == np.sort(np.diag(sum(drawn))).tolist()
    labels = opened[-3:, -3:]
    assert np.count_nonzero(labels - np.diag(np.diag(labels))) == 0, "products of classes are not released"


def test_keepers_that_own_nothing_can_keep_the_shares() -> None:
    tables = tables_of(("bank", "insurer"), 40)
    group = Group.of(("bank", "insurer"), active="bank", computing_parties=("one", "two", "three"))
    plan = plan_for(tables, group)
    silence(plan)
    outcome = run_plan(plan, tables)
    aligned = {name: outcome.results[name][1] for name in group.owners}
    assert outcome.results["server"][0].tolist() == ideal_moments(aligned, plan).tolist()


def opening(prepare: Any, *, threshold: int = 1) -> Any:
    """Run the door on whatever `prepare` makes of freshly dealt secrets."""
    group = Group.of(NAMES[: 2 * threshold + 1], active="bank")
    scheme = Shamir(len(group.computing_parties), FIELD63)
    release = Release("r/x", "r", "plan", "a test", "server", (), False)

    async def program(party: Party, table: Any) -> Any:
        mine = np.arange(6, dtype=np.int64).reshape(3, 2) if party.name == "bank" else None
        dealt = await share(party, mine, {"bank": (3, 2)}, scheme=scheme, degree=threshold, step="columns")
        sums = MomentSum(FIELD63, 2, keeps_shares=party.keeps_shares)
        sums.add([dealt["bank"]])
        value = await prepare(party, sums.upper_triangle(), dealt["bank"], scheme)
        return await open_to(party, group.server, value, scheme=scheme, release=release, step="open")

    desks = {name: PartyInputs(ledger) for name, ledger in ledgers_for(group).items()}
    return run_here(program, group, desks, record=True)


async def noise_of(party: Party, dealers: Any, scheme: Any, degree: Any, step: str = "noise") -> Any:
    mine = np.zeros((1, 3), dtype=np.int64) if party.name in dealers else None
    shares = await share(party, mine, dict.fromkeys(dealers, (1, 3)), scheme=scheme, degree=degree, step=step)
    return total(shares.values())


def test_the_door_opens_a_product_that_enough_parties_masked() -> None:
    async def masked(party: Party, product: Any, dealt: Any, scheme: Any) -> Any:
        return product + await noise_of(party, party.group.owners, scheme, 2)

    assert opening(masked).results["server"].tolist() == [[20, 26, 35]]


def test_the_door_refuses_a_bare_product() -> None:
    async def bare(party: Party, product: Any, dealt: Any, scheme: Any) -> Any:
        return product

    with pytest.raises(NotMasked, match="masks from 2 parties are needed, 0 are in it"):
        opening(bare)


def test_the_door_refuses_a_product_that_only_possible_colluders_masked() -> None:
    async def one(party: Party, product: Any, dealt: Any, scheme: Any) -> Any:
        return product + await noise_of(party, ("insurer",), scheme, 2)

    with pytest.raises(NotMasked, match="1 are in it"):
        opening(one)


def test_the_door_refuses_a_mask_that_was_used_before() -> None:
    async def again(party: Party, product: Any, dealt: Any, scheme: Any) -> Any:
        noise = await noise_of(party, party.group.owners, scheme, 2)
        release = Release("r/y", "r", "plan", "another test", "server", (), False)
        await open_to(party, "server", product + noise, scheme=scheme, release=release, step="first")
        return product + product + noise

    with pytest.raises(NotMasked, match="was used in an earlier opening"):
        opening(again)


def test_a_mask_of_degree_t_cannot_be_added_to_a_product() -> None:
    async def low(party: Party, product: Any, dealt: Any, scheme: Any) -> Any:
        return product + await noise_of(party, party.group.owners, scheme, 1)

    with pytest.raises(LocalProtocolError, match="cannot add shares of degree 2"):
        opening(low)


def test_nobody_can_branch_on_a_secret() -> None:
    with pytest.raises(LocalProtocolError, match="nobody can branch on a secret"):
        bool(Shared(None, (1, 1), 1))


def test_a_refused_release_leaves_no_column_on_the_wire() -> None:
    tables = tables_of(("bank", "insurer"), 30)
    group = Group.of(("bank", "insurer"), active="bank")
    plan = plan_for(tables, group)
    ledgers = ledgers_for(group) | {"bank": ledgers_for(group, epsilon=0.5)["bank"]}
    steps: list[Any] = []

    async def program(party: Party, table: Any) -> None:
        try:
            await meet(party)
            aligned = await align(party, table, "equal")
            await noisy_moments(party, aligned, plan)
        finally:
            steps.extend(step for _, step in party.traffic.sent)

    by_name = {table.party: table for table in tables}
    with pytest.raises(BudgetExceeded, match="bank"):
        run_here(
            program,
            group,
            {name: PartyInputs(ledgers[name], by_name.get(name), dataset=name) for name in group.members},
        )
    assert "hello" in steps and not {"columns", "noise", "moments"} & set(steps)
    assert [entry.kind for entry in ledgers["bank"].entries()] == ["opened", "budget", "compared"]


def test_every_owner_and_keeper_is_charged_before_the_first_column() -> None:
    order = []

    class Noting:
        def __init__(self, name: str, ledger: Any) -> None:
            self.name, self.ledger = name, ledger

        def charge(self, release: Any, dataset: Any, *, fresh: bool = False) -> Any:
            order.append(("charge", self.name))
            return self.ledger.charge(release, dataset, fresh=fresh)

        def opening(self) -> Any:
            return self.ledger.opening()

        def recognise(self, opening: Any) -> Any:
            return self.ledger.recognise(opening)

        def prove(self, claim: Any) -> bytes:
            return bytes(self.ledger.prove(claim))

        def keep_receipt(self, receipt: Any, *, after: int | None = None) -> None:
            self.ledger.keep_receipt(receipt, after=after)

        def note_comparison(self, dataset: Any, partners: Any, *, run: Any, through: Any = "") -> None:
            self.ledger.note_comparison(dataset, partners, run=run, through=through)

    tables = tables_of(("bank", "insurer"), 30)
    group = Group.of(("bank", "insurer"), active="bank")
    plan = plan_for(tables, group)
    ledgers = {name: Noting(name, ledger) for name, ledger in ledgers_for(group).items()}
    original = type(plan.quantizers["bank"]).quantize

    def recorded(self: Any, values: Any, randomness: Any = None) -> Any:
        order.append(("rows", "somebody"))
        return original(self, values, randomness)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(plan.quantizers["bank"]), "quantize", recorded)
        run_plan(plan, tables, ledgers=ledgers)
    first_rows = order.index(("rows", "somebody"))
    assert {name for what, name in order[:first_rows] if what == "charge"} == {"bank", "insurer", "server"}


def test_a_second_draw_under_the_same_run_is_refused() -> None:
    """Noise drawn again for a release that was charged would be a second release for the price of one."""
    tables = tables_of(("bank", "insurer"), 30)
    group = Group.of(("bank", "insurer"), active="bank")
    plan = plan_for(tables, group)

    async def twice(party: Party, table: Any) -> None:
        await meet(party)
        aligned = await align(party, table, "equal")
        await noisy_moments(party, aligned, plan)
        await noisy_moments(party, aligned, plan)

    by_name = {table.party: table for table in tables}
    books = ledgers_for(group)
    with pytest.raises(LedgerError, match="was charged before"):
        run_here(twice, group, {n: PartyInputs(books[n], by_name.get(n), dataset=n) for n in group.members})


def test_the_same_seed_on_the_same_ledger_is_no_free_release() -> None:
    tables = tables_of(("bank", "insurer"), 30)
    first = Federation(tables, budget=(5.0, 1e-5), noise_seed=1)
    first.moments(task="classification", epsilon=1.0, delta=1e-5)
    again = Federation(tables, ledgers=first.ledgers, noise_seed=1)
    with pytest.raises(LedgerError, match="was charged before"):
        again.moments(task="classification", epsilon=1.0, delta=1e-5)


def test_statements_name_every_way_in_which_they_would_be_false() -> None:
    tables = tables_of(("bank", "insurer", "shop"), 100)
    schemas = tuple(table.public() for table in tables)

    def assumption(observer: Any, **roles: Any) -> Any:
        group = Group.of(("bank", "insurer", "shop"), active="bank", **roles)
        plan = requested(MomentsOptions, task="classification", epsilon=1.0, delta=1e-5).plan(
            group, schemas, 100
        )
        return next(view.assumption for view in plan.views if view.observer.name == observer)

    for roles in (
        {},
        {"computing_parties": ("k1", "k2", "k3")},
        {"computing_parties": ("server", "k1", "k2")},
    ):
        assert "noise" in assumption("reader", **roles) and "computing party" in assumption("reader", **roles)
        assert "noise" in assumption("server", **roles) and "computing party" in assumption("server", **roles)


def test_a_ledger_cut_short_between_runs_stops_the_next_run(tmp_path: Path) -> None:
    tables = tables_of(("bank", "insurer"), 30)
    path, copy = tmp_path / "bank.ledger", tmp_path / "copy"
    bank = Ledger.create(path, "bank")
    bank.set_budget("bank", "*", "*", epsilon=9.0, delta=1e-5)
    copy.write_bytes(path.read_bytes())
    federation = Federation(tables, budget=(9.0, 1e-5), ledgers={"bank": bank})
    federation.moments(task="classification", epsilon=1.0, delta=1e-5)
    for leftover in (tmp_path / "bank.ledger-wal", tmp_path / "bank.ledger-shm"):
        leftover.unlink(missing_ok=True)
    path.write_bytes(copy.read_bytes())
    ledgers = {**federation.ledgers, "bank": Ledger.open(path)}
    with pytest.raises(LedgerAltered, match="holds a receipt for entry 4"):
        Federation(tables, ledgers=ledgers).moments(task="classification", epsilon=1.0, delta=1e-5)
    assert not any(entry.kind == "charge" for entry in ledgers["bank"].entries())


def test_peers_keep_receipts_that_show_another_ledger(tmp_path: Path) -> None:
    tables = tables_of(("bank", "insurer"), 30)
    federation = Federation(tables, budget=(2.0, 1e-5))
    federation.moments(task="classification", epsilon=1.0, delta=1e-5)
    receipts = federation.ledgers["insurer"].receipts("bank")
    assert federation.ledgers["bank"].verify(receipts).receipts == 1
    with pytest.raises(LedgerReplaced):
        Ledger.create(tmp_path / "bank.ledger", "bank").verify(receipts)


@pytest.mark.parametrize("field", ["epsilon", "gamma", "task"])
def test_different_jobs_stop_the_run_and_name_the_field(field: Any) -> None:
    request = requested(MomentsOptions, "classification", 1.0, delta=1e-5)
    other = replace(request, **untyped({field: {"epsilon": 2.0, "gamma": 8192, "task": "pca"}[field]}))
    tables = {table.party: table for table in tables_of(("bank", "insurer"), 20)}
    group = Group.of(("bank", "insurer"), active="bank")

    async def program(party: Party, table: Any) -> Any:
        return await moments_session(party, table, other if party.name == "insurer" else request)

    ledgers = ledgers_for(group)
    with pytest.raises(PlansDiffer, match=f"do not agree on '{field}'"):
        run_here(
            program, group, {n: PartyInputs(ledgers[n], tables.get(n), dataset=n) for n in group.members}
        )
    assert all(len(ledger.entries()) <= 2 for ledger in ledgers.values()), "nothing was charged"


def test_a_lying_introduction_is_refused() -> None:
    group = Group.of(("bank", "insurer"), active="bank")
    tables = {table.party: table for table in tables_of(("bank", "insurer"), 20)}

    class Lying:
        rows = 20

        def check(self, progress: Any = None) -> Any:
            return self

        class schema:
            @staticmethod
            def public(name: str) -> Any:
                return tables["bank"].public()

    ledgers = ledgers_for(group)
    desks = {
        n: PartyInputs(ledgers[n], Lying() if n == "insurer" else tables.get(n), dataset=n)
        for n in group.members
    }
    with pytest.raises(RemoteProtocolError, match="insurer introduced itself with the columns of bank"):
        run_here(moments_session, group, desks, requested(MomentsOptions, "classification", 1.0, delta=1e-5))


def aligned_with(bank_ids: Any, insurer_ids: Any) -> Any:
    group = Group.of(("bank", "insurer"), active="bank")
    tables = {
        "bank": table_of("bank", len(bank_ids), task="classification", active="bank", ids=bank_ids),
        "insurer": table_of(
            "insurer", len(insurer_ids), task="classification", active="bank", ids=insurer_ids
        ),
    }

    async def program(party: Party, table: Any) -> Any:
        await meet(party)
        return await align(party, table, "equal")

    ledgers = ledgers_for(group)
    return run_here(
        program, group, {n: PartyInputs(ledgers[n], tables.get(n)) for n in group.members}, record=True
    )


def test_equal_ids_align() -> None:
    outcome = aligned_with(["a", "b", "c"], ["a", "b", "c"])
    assert outcome.results["bank"].digest == outcome.results["insurer"].digest
    assert outcome.results["server"] is None
    assert all(b"ids" not in seen.frame for seen in outcome.seen["server"]), "the server sees no digest"


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (["a", "b"], "do not match"),
        (["c", "b", "a"], "same ids in different orders"),
        (["a", "b", "d"], "do not match"),
    ],
)
def test_ids_that_do_not_match_are_an_error_that_shows_none_of_them(theirs: Any, message: Any) -> None:
    with pytest.raises(DataError, match=message) as caught:
        aligned_with(["a", "b", "c"], theirs)
    assert "'d'" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": 0.0}, PlanError, "positive number"),
        ({"epsilon": float("nan")}, PlanError, "positive number"),
        ({"delta": 0.5}, PlanError, "not below 1/n"),
        ({"delta": 2.0}, PlanError, "between 0 and 1"),
        ({"gamma": 16}, PlanError, "gamma"),
        ({"rows": 2**60, "delta": 1e-20}, FieldTooSmall, "rows"),
        ({"task": "regression"}, PlanError, "needs a label of kind real or count"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(change: Any, error: Any, message: Any) -> None:
    tables = tables_of(("bank", "insurer"), 100)
    arguments = {"task": "classification", "epsilon": 1.0, "delta": 1e-5} | change
    rows = arguments.pop("rows", 100)
    with pytest.raises(error, match=message):
        requested(MomentsOptions, **arguments).plan(
            Group.of(("bank", "insurer"), active="bank"),
            tuple(table.public() for table in tables),
            rows,
        )


def test_a_delta_above_one_over_n_must_be_named_explicitly() -> None:
    tables = tables_of(("bank", "insurer"), 100)
    schemas = tuple(table.public() for table in tables)
    group = Group.of(("bank", "insurer"), active="bank")
    plan = requested(
        MomentsOptions, task="classification", epsilon=1.0, delta=0.02, accepted_delta=0.02
    ).plan(group, schemas, 100)
    assert plan.delta == 0.02
    assert default_delta(100) < 1 / 1000 + 1e-12


@pytest.mark.parametrize("rows", [1, 1000, 10_000, 10_001, 99_999, 100_000, 125_541, 10**6, 10**7 + 1])
def test_the_default_delta_is_what_is_said_of_it(rows: int) -> None:
    powers = [Fraction(1, 10**places) for places in range(5, 20)]
    wanted = max(power for power in powers if power <= Fraction(1, 10 * rows))
    assert default_delta(rows) == pytest.approx(float(min(wanted, powers[0])), rel=1e-12)
    root = Path(__file__).parents[2]
    said = [(root / page).read_text() for page in ("SECURITY.md", "docs/how-to/choose-epsilon.md")]
    for text in (*said, str(default_delta.__doc__)):
        assert "1e-5, or a tenth of 1/n rounded down to a power of ten where that is smaller" in text


@pytest.mark.parametrize("labels", [(), ("bank", "insurer"), ("insurer",)])
def test_the_label_must_be_where_the_job_says(labels: Any) -> None:
    tables = [
        table_of("bank", 10, task="classification", active="bank" if "bank" in labels else "nobody"),
        table_of("insurer", 10, task="classification", active="insurer" if "insurer" in labels else "nobody"),
    ]
    with pytest.raises(PlanError, match="label"):
        plan_for(tables, Group.of(("bank", "insurer"), active="bank"))


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_the_plan_spends_at_most_its_epsilon_and_knows_what_a_party_knows(count: int) -> None:
    tables = tables_of(NAMES[:count], 1000)
    plan = plan_for(tables, Group.of(NAMES[:count], active="bank"), epsilon=0.7)
    by_observer = {item.observer.name: item.epsilon for item in plan.guarantees}
    assert 0.69 < by_observer["server"] <= 0.7
    assert by_observer["reader"] == by_observer["server"]
    assert all(by_observer[f"party:{name}"] >= 0.7 for name in NAMES[:count]), "replacing costs a party more"
    dealers = len(plan.group.dealers)
    assert dealers == (3 if count == 2 else count), "a server that keeps shares deals noise"
    assert plan.total_mu == plan.mu * Fraction(dealers, dealers - plan.group.threshold)
    less = plan_for(tables, plan.group, epsilon=0.35)
    assert less.mu > plan.mu


def test_the_noise_left_to_an_observer_is_what_the_owners_it_does_not_know_dealt() -> None:
    tables = tables_of(NAMES[:3], 1000)
    plan = plan_for(tables, Group.of(NAMES[:3], active="bank"))
    for view in plan.views:
        # What rounding may take off the diagonal is left out.
        assert untyped(view.event).event.sigma_squared == 2 * plan.mu - 36, (
            "K − t parts of 1/(K − t) are a whole"
        )
    assert account(plan.views[0].event, 1e-5).epsilon <= 1.0


def test_seeded_noise_taints_the_run_the_ledgers_and_the_release() -> None:
    tables = tables_of(("bank", "insurer"), 50)
    first = Federation(tables, budget=(2.0, 1e-5), noise_seed=1)
    second = Federation(tables, budget=(2.0, 1e-5), noise_seed=1)
    one = first.moments(task="classification", epsilon=1.0, delta=1e-5)
    two = second.moments(task="classification", epsilon=1.0, delta=1e-5)
    assert np.array_equal(one.matrix, two.matrix)
    assert one.reproducible and "No privacy" in str(one.privacy)
    assert all(total.reproducible for total in first.ledgers["bank"].totals())
    honest = Federation(tables, budget=(2.0, 1e-5)).moments(task="classification", epsilon=1.0, delta=1e-5)
    assert not honest.reproducible
    assert not np.array_equal(one.matrix, honest.matrix)


def test_shares_that_are_none_end_the_run_by_name() -> None:
    group = Group.of(("bank", "insurer"), active="bank")
    scheme = Shamir(3, FIELD63)
    from colonnade.protocols.messages import tell
    from colonnade.runtime.wire import Message

    async def program(party: Party, table: Any) -> None:
        if party.name == "bank":
            for computing_party in ("server", "insurer"):
                garbage = np.full(16, 255, dtype=np.uint8)
                await tell(party, computing_party, "columns", Message(arrays={"share": garbage}))
            return
        await share(party, None, {"bank": (1, 2)}, scheme=scheme, degree=1, step="columns")

    desks = {name: PartyInputs(ledger) for name, ledger in ledgers_for(group).items()}
    with pytest.raises(RemoteProtocolError, match="bank at step 'columns' sent a share that is none"):
        run_here(program, group, desks)


def test_interrupting_a_run_cancels_every_party() -> None:
    cancelled = []

    async def program(party: Party, table: Any) -> None:
        try:
            if party.name == "server":
                raise KeyboardInterrupt
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(party.name)
            raise

    group = Group.of(("bank", "insurer"), active="bank")
    with pytest.raises(KeyboardInterrupt):
        run_here(program, group, {name: PartyInputs(ledger) for name, ledger in ledgers_for(group).items()})
    assert sorted(cancelled) == ["bank", "insurer"]


def test_the_system_randomness_is_the_default() -> None:
    tables = tables_of(("bank", "insurer"), 20)
    assert isinstance(Federation(tables, budget=(1.0, 1e-5)).randomness("bank"), SystemRandomness)
