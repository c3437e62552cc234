"""The moment protocol against its ideal twin, together and by class, checked or not; its door, and its refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ideals import ideal_moments
from lying_parties import adding_to_products, proving_short_rows
from margin_runs import Silence
from numpy.typing import NDArray
from plan_runs import inputs_for, ledgers_for, run_protocol
from training_specs import requested
from typed import untyped

from colonnade.crypto.sharing import Shamir
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import (
    FieldTooSmall,
    LabelMismatch,
    LedgerError,
    LedgerReplaced,
    LocalProtocolError,
    NotMasked,
    PlanError,
    RemoteProtocolError,
    RowsNotProved,
)
from colonnade.federation.federation import Federation
from colonnade.ledger import Ledger, Release
from colonnade.methods.moments import protocol as conditional
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.moments.protocol import conditional_moments, moments_session, noisy_moments
from colonnade.models.release import MomentRelease
from colonnade.noise.discrete_gaussian import MatrixGaussianNoise
from colonnade.numbers.field import FIELD63
from colonnade.privacy.guarantee import account
from colonnade.privacy.observers import PartyView, Server
from colonnade.protocols.plans import Task, default_delta
from colonnade.protocols.sharing import MomentSum, Shared, lower, open_to, share, total
from colonnade.randomness import SystemRandomness
from colonnade.runtime.party import AskingAccountant, Group, Party
from colonnade.runtime.run import run_here

NAMES = ("bank", "insurer", "shop", "clinic", "school")
LABELS = {
    "classification": "[label]\ncolumn='y'\nkind='classes'\nclasses=['no','maybe','yes']\n",
    "regression": "[label]\ncolumn='y'\nkind='real'\nlow=-2\nhigh=2\n",
    "pca": "",
}


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


def table_of(party: str, rows: int, *, task: str, active: str, seed: int = 0, width: int = 2) -> Table:
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
    return Table.from_arrays(party, arrays, Schema.parse(text))


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


run_plan = partial(run_protocol, noisy_moments)
PAIR = Group.of(("bank", "insurer"), active="bank")


def plan_for(
    tables: list[Table],
    group: Group,
    *,
    task: Task = "classification",
    rows: Any = None,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    **more: Any,
) -> MomentsPlan:
    schemas = tuple(table.public() for table in tables)
    made: MomentsPlan = requested(MomentsOptions, task=task, epsilon=epsilon, delta=delta, **more).plan(
        group, schemas, rows or tables[0].rows
    )
    return made


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(["classification", "regression", "pca"]),
    st.integers(2, 5),
    st.integers(1, 300),
    st.integers(0, 4),
    st.integers(0, 1000),
)
@example("classification", 2, 40, 0, 0)
def test_without_noise_the_protocol_is_the_ideal(
    task: Any, count: int, rows: Any, active: Any, seed: int
) -> None:
    parties = NAMES[:count]
    holder = parties[active % count]
    tables = tables_of(parties, rows, task=task, active=holder, seed=seed)
    # Computing parties that own nothing can keep the shares as well.
    roles = {} if seed else {"computing_parties": ("one", "two", "three")}
    group = Group.of(parties, active=None if task == "pca" else holder, **untyped(roles))
    plan = plan_for(tables, group, task=task)
    silence(plan)
    outcome = run_plan(plan, tables)
    opened, _ = outcome.results["server"]
    aligned = {name: outcome.results[name][1] for name in parties}
    assert opened.tolist() == ideal_moments(aligned, plan).tolist()
    assert all(outcome.results[name][0] is None for name in parties), "only the server opens"


def test_what_is_opened_is_the_ideal_plus_noise_of_all_whom_an_observer_does_not_know() -> None:
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
    tables = tables_of(NAMES[:3], 1000)
    plan = plan_for(tables, Group.of(NAMES[:3], active="bank"))
    for view in plan.views:
        # What rounding may take off the diagonal is left out.
        assert untyped(view.event).event.sigma_squared == 2 * plan.mu - 36, (
            "K − t parts of 1/(K − t) are a whole"
        )
    assert account(plan.views[0].event, 1e-5).epsilon <= 1.0


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
        value = await prepare(party, sums.upper_triangle(), scheme)
        return await open_to(party, group.server, value, scheme=scheme, release=release, step="open")

    return run_here(program, group, inputs_for(group), record=True)


async def noise_of(party: Party, dealers: Any, scheme: Any, degree: Any, step: str = "noise") -> Any:
    mine = np.zeros((1, 3), dtype=np.int64) if party.name in dealers else None
    shares = await share(party, mine, dict.fromkeys(dealers, (1, 3)), scheme=scheme, degree=degree, step=step)
    return total(shares.values())


async def masked(party: Party, product: Any, scheme: Any) -> Any:
    return product + await noise_of(party, party.group.owners, scheme, 2)


async def bare(party: Party, product: Any, scheme: Any) -> Any:
    return product


async def masked_by_one(party: Party, product: Any, scheme: Any) -> Any:
    return product + await noise_of(party, ("insurer",), scheme, 2)


async def masked_again(party: Party, product: Any, scheme: Any) -> Any:
    noise = await noise_of(party, party.group.owners, scheme, 2)
    release = Release("r/y", "r", "plan", "another test", "server", (), False)
    await open_to(party, "server", product + noise, scheme=scheme, release=release, step="first")
    return product + product + noise


async def masked_at_degree_t(party: Party, product: Any, scheme: Any) -> Any:
    return product + await noise_of(party, party.group.owners, scheme, 1)


async def branching(party: Party, product: Any, scheme: Any) -> Any:
    return product if product else None


@pytest.mark.parametrize(
    ("prepare", "error", "words"),
    [
        (bare, NotMasked, "masks from 2 parties are needed, 0 are in it"),
        (masked_by_one, NotMasked, "1 are in it"),
        (masked_again, NotMasked, "was used in an earlier opening"),
        (masked_at_degree_t, LocalProtocolError, "cannot add shares of degree 2"),
        (branching, LocalProtocolError, "nobody can branch on a secret"),
    ],
)
def test_the_door_opens_a_product_that_enough_parties_masked_and_nothing_else(
    prepare: Any, error: Any, words: str
) -> None:
    assert opening(masked).results["server"].tolist() == [[20, 26, 35]]
    with pytest.raises(error, match=words):
        opening(prepare)


def test_every_owner_and_keeper_is_charged_before_the_first_column() -> None:
    order = []

    class Noting(AskingAccountant):
        def charge(self, release: Any, dataset: Any, *, fresh: bool = False) -> Any:
            order.append(("charge", untyped(self.ledger).opening().party))
            return super().charge(release, dataset, fresh=fresh)

    tables = tables_of(("bank", "insurer"), 30)
    plan = plan_for(tables, PAIR)
    original = type(plan.quantizers["bank"]).quantize

    def recorded(self: Any, values: Any, randomness: Any = None) -> Any:
        order.append(("rows", "somebody"))
        return original(self, values, randomness)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(plan.quantizers["bank"]), "quantize", recorded)
        run_plan(plan, tables, ledgers={name: Noting(one) for name, one in ledgers_for(PAIR).items()})
    first_rows = order.index(("rows", "somebody"))
    assert {name for what, name in order[:first_rows] if what == "charge"} == {"bank", "insurer", "server"}


def test_peers_keep_receipts_that_show_another_ledger_and_the_same_seed_is_no_free_release(
    tmp_path: Path,
) -> None:
    tables = tables_of(("bank", "insurer"), 30)
    federation = Federation(tables, budget=(2.0, 1e-5))
    federation.moments(task="classification", epsilon=1.0, delta=1e-5)
    receipts = federation.ledgers["insurer"].receipts("bank")
    assert federation.ledgers["bank"].verify(receipts).receipts == 1
    with pytest.raises(LedgerReplaced):
        Ledger.create(tmp_path / "bank.ledger", "bank").verify(receipts)
    tables = tables_of(("bank", "insurer"), 30)
    first = Federation(tables, budget=(5.0, 1e-5), noise_seed=1)
    first.moments(task="classification", epsilon=1.0, delta=1e-5)
    again = Federation(tables, ledgers=first.ledgers, noise_seed=1)
    with pytest.raises(LedgerError, match="was charged before"):
        again.moments(task="classification", epsilon=1.0, delta=1e-5)


def test_a_lying_introduction_is_refused() -> None:
    bank, _ = tables_of(("bank", "insurer"), 20)

    class Lying:
        party, rows = "insurer", 20

        def check(self, progress: Any = None) -> Any:
            return self

        class schema:
            @staticmethod
            def public(name: str) -> Any:
                return bank.public()

    with pytest.raises(RemoteProtocolError, match="insurer introduced itself with the columns of bank"):
        run_here(
            moments_session,
            PAIR,
            inputs_for(PAIR, [bank, untyped(Lying())]),
            requested(MomentsOptions, "classification", 1.0, delta=1e-5),
        )


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
    with pytest.raises(error, match=message):
        plan_for(tables_of(("bank", "insurer"), 100), PAIR, **change)


def test_a_delta_above_one_over_n_must_be_named_explicitly() -> None:
    plan = plan_for(tables_of(("bank", "insurer"), 100), PAIR, delta=0.02, accepted_delta=0.02)
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


def test_seeded_noise_taints_the_run_the_ledgers_and_the_release() -> None:
    tables = tables_of(("bank", "insurer"), 50)
    first, second, unseeded = (
        Federation(tables, budget=(2.0, 1e-5), noise_seed=seed) for seed in (1, 1, None)
    )
    one, two, honest = (
        source.moments(task="classification", epsilon=1.0, delta=1e-5) for source in (first, second, unseeded)
    )
    assert np.array_equal(one.matrix, two.matrix)
    assert one.reproducible and "No privacy" in str(one.privacy)
    assert all(total.reproducible for total in first.ledgers["bank"].totals())
    assert not honest.reproducible and not np.array_equal(one.matrix, honest.matrix)
    assert isinstance(unseeded.randomness("bank"), SystemRandomness), "which is the default"


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

    with pytest.raises(KeyboardInterrupt):
        run_here(program, PAIR, inputs_for(PAIR))
    assert sorted(cancelled) == ["bank", "insurer"]


# Moments by class.


run_by_class = partial(run_protocol, conditional_moments)


@pytest.mark.parametrize(
    ("count", "holder", "computing_parties"),
    [(2, 0, None), (2, 1, None), (3, 1, None), (5, 2, None), (2, 0, ("one", "two", "three"))],
)
def test_without_noise_moments_by_class_are_the_ideal(
    count: int, holder: int, computing_parties: tuple[str, str, str] | None
) -> None:
    parties = NAMES[:count]
    tables = tables_of(parties, 130, active=parties[holder], seed=count)
    more = {} if computing_parties is None else {"computing_parties": computing_parties}
    group = Group.of(parties, active=parties[holder], **untyped(more))
    plan = plan_for(tables, group, conditional=True)
    plan.__dict__.update(noise=Silence(), views=(), block=50)
    outcome = run_by_class(plan, tables)
    opened, _ = outcome.results["server"]
    aligned = {name: outcome.results[name][1] for name in parties}
    assert opened.tolist() == ideal_moments(aligned, plan).tolist()
    assert all(outcome.results[name][0] is None for name in parties), "only the server opens"


def test_what_is_opened_by_class_is_the_ideal_plus_every_owners_noise() -> None:
    tables = tables_of(("bank", "insurer"), 60)
    plan = plan_for(tables, Group.of(("bank", "insurer"), active="bank"), conditional=True)
    drawn: list[Any] = []
    plan.__dict__["noise"] = Witnessed(untyped(plan.noise), drawn)
    outcome = run_by_class(plan, tables)
    opened, _ = outcome.results["server"]
    ideal = ideal_moments({name: outcome.results[name][1] for name in plan.group.owners}, plan)
    classes = len(LABELS["classification"].split("classes=")[1].split(","))
    assert len(drawn) == 3 * classes, "both owners and the server draw noise for every class"
    noise = opened - ideal.astype(np.int64)
    diagonals = [np.diag(noise)[plan.class_span(kind)] for kind in range(classes)]
    # Owners run at once, so whose draw came first is not known; their sum over all draws is.
    assert sum(d.sum() for d in diagonals) == sum(np.diag(one).sum() for one in drawn)
    assert not noise[plan.class_span(0), plan.class_span(1)].any(), "products of classes are not released"


def test_noise_and_the_servers_epsilon_are_those_of_a_plain_plan_and_no_party_gets_less() -> None:
    tables = tables_of(("bank", "insurer"), 60)
    group = Group.of(("bank", "insurer"), active="bank")
    plain, conditional = (plan_for(tables, group, conditional=by_class) for by_class in (False, True))
    # A few more entries are drawn, each 2^-100 from its law.
    assert float(conditional.mu / plain.mu) == pytest.approx(1, abs=1e-6)
    assert plain.hash != conditional.hash and "for each of 3 classes" in conditional.what
    stated = [{one.observer.name: one.epsilon for one in plan.guarantees} for plan in (plain, conditional)]
    assert stated[1][Server().name] <= 1.0
    for owner in group.owners:
        name = PartyView(owner).name
        assert stated[1][name] >= stated[0][name] - 1e-6
    assert [plan.to_data()["spec"]["conditional"] for plan in (plain, conditional)] == [False, True]


def test_a_release_by_class_is_read_selected_and_kept(tmp_path: Path) -> None:
    tables = tables_of(("bank", "insurer"), 900)
    release = Federation(tables, budget=(1e9, 1e-5)).moments(
        task="classification", epsilon=20.0, delta=1e-5, conditional=True
    )
    assert "by class" in repr(release) and release.parts == 3
    counts = np.unique(np.concatenate([b.label for b in tables[0].blocks()]), return_counts=True)
    np.testing.assert_allclose(release.class_moments().counts, counts[1], atol=6.0)
    plain = Federation(tables, budget=(1e9, 1e-5)).moments(task="classification", epsilon=20.0, delta=1e-5)
    np.testing.assert_allclose(release.gram, plain.gram, atol=6.0)
    np.testing.assert_allclose(release.class_moments().sums, plain.class_moments().sums, atol=6.0)
    some = release.select(["bank_kind", "insurer0"])
    assert some.conditional and len(some.grams) == 3
    np.testing.assert_allclose(some.gram, plain.select(["bank_kind", "insurer0"]).gram, atol=6.0)
    release.save(tmp_path / "r.npz")
    again = MomentRelease.load(tmp_path / "r.npz")
    assert again.conditional and np.array_equal(again.matrix, release.matrix)


def test_what_has_no_classes_has_no_moments_by_class_and_only_products_are_lowered() -> None:
    tables, group = (
        tables_of(("bank", "insurer"), 60, task="regression"),
        Group.of(("bank", "insurer"), active="bank"),
    )
    with pytest.raises(LabelMismatch, match="regression has no classes"):
        plan_for(tables, group, task="regression", conditional=True)

    async def program(party: Party, table: Any) -> Any:
        return await lower(party, Shared(None, (1, 1), 1), scheme=Shamir(3, FIELD63), step="x")

    with pytest.raises(LocalProtocolError, match="a value of degree 1 was to be lowered"):
        run_here(program, group, inputs_for(group))


# With checks: indicators that are not one-hot, and products that are none, stop the run.


def planned(verify: Any = "all", count: int = 2, rows: int = 60) -> tuple[list[Any], MomentsPlan]:
    parties = NAMES[:count]
    tables = tables_of(parties, rows, active=parties[0])
    return tables, plan_for(tables, Group.of(parties, active=parties[0]), conditional=True, verify=verify)


def silent_by_class(plan: MomentsPlan) -> MomentsPlan:
    plan = replace(plan)
    plan.__dict__.update(noise=Silence(), views=())
    return plan


@pytest.mark.parametrize("count", [2, 3])
def test_checked_moments_by_class_are_the_ideal(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MomentsPlan, "block", property(lambda self: 25))
    tables, plan = planned(count=count)
    outcome = run_by_class(silent_by_class(plan), tables)
    aligned = {name: outcome.results[name][1] for name in plan.group.owners}
    assert plan.verify == "all"
    assert outcome.results["server"][0].tolist() == ideal_moments(aligned, plan).tolist()


def test_a_plan_by_class_says_what_is_checked_and_costs_no_more_noise() -> None:
    plans = [planned(verify)[1] for verify in ("none", "all")]
    assert plans[0].mu == plans[1].mu and plans[0].hash != plans[1].hash
    assert all("deviate" in stated.assumption for stated in plans[1].guarantees)
    assert not any("deviate" in stated.assumption for stated in plans[0].guarantees)
    assert planned(None)[1].verify == "none"
    with pytest.raises(PlanError, match="Write verify = 'all', or 'none'"):
        planned("rows")


@pytest.fixture
def dealing(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str, Callable[[np.ndarray, MomentsPlan], None]], None]:
    """Let an owner deal other integers than its own, with pads as for short rows."""

    def arrange(owner: str, change: Callable[[np.ndarray, MomentsPlan], None]) -> None:
        honest = conditional.dealt_by_class

        def dealt(name: str, block: Any, plan: Any, party: Party | None = None) -> Any:
            found = honest(name, block, plan, party).astype(np.int64)
            if name == owner:
                change(found, plan)
            return found

        monkeypatch.setattr(conditional, "dealt_by_class", dealt)
        proving_short_rows(monkeypatch)

    return arrange


def mark(value: int) -> Callable[[np.ndarray, MomentsPlan], None]:
    """Another indicator of the first class for one person."""

    def change(rows: np.ndarray, plan: MomentsPlan) -> None:
        rows[:, plan.label.width * plan.widths["bank"] :] = 0
        rows[17, plan.label.width * plan.widths["bank"]] = value

    return change


def test_a_holder_with_a_large_indicator_reads_a_person_where_nobody_checks(dealing: Any) -> None:
    """The person's columns are multiplied by it, and beside them stands the constant, multiplied too."""
    dealing("bank", mark(1 << 20))
    tables, plan = planned("none")
    outcome = run_by_class(plan, tables)
    matrix = outcome.results["server"][0][plan.class_span(0), plan.class_span(0)]
    own = plan.widths["bank"]
    constant = plan.label.constant(plan.gamma)
    found = np.rint(matrix[own:-1, -1] / (float(1 << 40) * constant)).astype(int)
    theirs = plan.quantizers["insurer"].quantize(next(outcome.results["insurer"][1].blocks(60)))[17]
    assert found.tolist() == theirs.tolist()


@pytest.mark.parametrize("value", [1 << 20, 2, -1])
def test_an_indicator_that_is_not_one_stops_the_run(dealing: Any, value: int) -> None:
    """Also −1, of norm 1: it leaves 2 for the last class."""
    dealing("bank", mark(value))
    tables, plan = planned()
    with pytest.raises(RowsNotProved, match="at step 'columns 0': what bank dealt was not proved"):
        run_by_class(plan, tables)


def test_two_classes_at_once_stop_the_run(dealing: Any) -> None:
    def both(rows: np.ndarray, plan: MomentsPlan) -> None:
        start = plan.label.width * plan.widths["bank"]
        rows[5, start : start + 2] = 1

    dealing("bank", both)
    tables, plan = planned()
    with pytest.raises(RowsNotProved, match="what bank dealt was not proved"):
        run_by_class(plan, tables)


@pytest.mark.parametrize("liar", ["bank", "server"])
def test_a_keeper_that_adds_to_a_product_by_class_is_stopped(
    monkeypatch: pytest.MonkeyPatch, liar: str
) -> None:
    tables, plan = planned()
    adding_to_products(monkeypatch, liar, plan.group, place=3, value=1)
    with pytest.raises(RowsNotProved, match=f"at step 'classes 0': what {liar} dealt was not proved"):
        run_by_class(plan, tables)
