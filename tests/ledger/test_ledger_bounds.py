"""Which line bounds which account: in a world where the truth is known, where it was wrong, and in old files."""

import itertools
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_samples import DELTA, book, epsilons
from training_specs import requested

from colonnade.data.schema import PublicSchema, Schema
from colonnade.errors import BudgetExceeded, InputError
from colonnade.ledger import CoalitionBound, Ledger, LedgerLine, Release
from colonnade.ledger.bounds import Account, Bound, bound
from colonnade.ledger.state import LedgerState
from colonnade.methods.messages.plan import PrivateMessagesOptions
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.network.plan import NetworkOptions
from colonnade.methods.one_shot.protocol import OneShotOptions
from colonnade.privacy.events import Event, Gaussian
from colonnade.privacy.guarantee import account as account_for
from colonnade.protocols.joint_scores import ScoresSpec
from colonnade.protocols.plans import Plan
from colonnade.runtime.party import Group

KEPT = Path(__file__).parent / "kept"
PARTIES = ("a", "b", "c", "d")
OBSERVERS = (
    "reader",
    "server",
    *(f"party:{name}" for name in (*PARTIES, "hub", "outside")),
    *(
        f"coalition:{'+'.join(members)}"
        for size in (2, 3)
        for members in itertools.combinations((*PARTIES, "hub", "outside", "server"), size)
    ),
)
UNITS = ("record", "record-replaced", "others-part", *(f"own-part:{name}" for name in PARTIES), "columns:a")


# A world in which the truth is known: a sum over parties with normal noise, of which every owner deals one part.


@dataclass(frozen=True)
class World:
    """One release of Σ x_q + noise: how far each part can move it, what zeroing a record does, who holds shares."""

    owners: tuple[str, ...]
    widths: dict[str, int]
    constant: int
    holders: tuple[str, ...]
    threshold: int
    published: bool
    shown_to: tuple[str, ...]
    server: str
    stated: frozenset[tuple[str, str]]
    format_1: bool
    noise_from: tuple[str, ...] = ()

    def members(self, observer: str) -> frozenset[str]:
        """Those of an observer who saw more than was published."""
        kind, _, names = observer.partition(":")
        looking = {"server"} if kind == "server" else set(names.split("+")) if names else set()
        # Who is the server here is a party elsewhere.
        looking = {"server" if name == self.server else name for name in looking}
        shares = looking & set(self.holders)
        seen = self.published or looking & set(self.shown_to) or len(shares) > self.threshold
        # Shares that are too few show nothing: who has no more than that, and receives nothing, saw nothing.
        added = shares if len(shares) > self.threshold else set()
        return frozenset(looking & {*self.owners, *self.shown_to, *self.noise_from} | added if seen else ())

    def loss(self, observer: str, unit: str) -> float:
        """μ² of what the observer can tell about the unit: the truth, which every bound has to be above."""
        members = self.members(observer)
        if not members and not self.published:
            return 0.0
        looking = set(observer.partition(":")[2].split("+"))
        kind, _, name = unit.partition(":")
        if kind == "columns":
            return math.inf if name in self.owners else 0.0
        replaced = {
            "record": set(),
            "record-replaced": set(self.owners),
            "others-part": set(self.owners) - looking,
            "own-part": {name} & set(self.owners),
        }[kind]
        square = float(sum(self.widths[party] ** 2 for party in replaced))
        if kind == "record":
            # The zero row need not be a row that a record can have: a constant is zeroed and never replaced.
            square = sum(self.widths[party] ** 2 for party in self.owners) / 4 + self.constant**2
        if not square:
            return 0.0
        unknown = len({*self.owners, *self.noise_from} - members)
        if len(members & set(self.holders)) > self.threshold or not unknown:
            return math.inf
        return square / unknown

    def event(self, observer: str, unit: str) -> Event | None:
        loss = self.loss(observer, unit)
        return Gaussian(math.sqrt(loss), 1.0) if 0 < loss < math.inf else None

    def release(self, name: str) -> Release:
        stated = [(key, self.event(*key)) for key in sorted(self.stated)]
        lines = tuple(LedgerLine(*key, event) for key, event in stated if event is not None)
        if self.format_1:
            return Release(name, name, "5f0c", "a sum", "server", lines, False)
        whole = sum(width**2 for width in self.widths.values())
        sizes = range(2, len(self.owners))
        dealers = len({*self.owners, *self.noise_from})
        return Release(
            *(name, name, "5f0c", "a sum", "server", lines, False),
            owners=self.owners,
            shown_to=self.shown_to,
            server=self.server,
            share_holders=self.holders,
            threshold=self.threshold,
            coalitions=tuple(
                CoalitionBound(size, Gaussian(math.sqrt(whole / (dealers - size)), 1.0)) for size in sizes
            ),
            published=self.published,
            noise_from=self.noise_from,
        )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    owners = PARTIES[: draw(st.integers(2, 4))]
    committees = [
        ("server", "outside", owners[0]),
        ("server", *owners)[:3],
        (*owners, "server", "outside")[:3],
    ]
    if len(owners) == 4:
        committees.append(("server", *owners))
    holders = draw(st.sampled_from(committees))
    threshold = (len(holders) - 1) // 2
    format_1 = draw(st.booleans())
    keys = st.tuples(st.sampled_from(OBSERVERS), st.sampled_from(UNITS))
    stated = set(draw(st.lists(keys, max_size=12)))
    published = draw(st.booleans())
    if format_1:
        # What a program of format 1 wrote: a line for everybody who saw more than was published, one for the reader
        # where anything was.
        stated |= {(f"party:{name}", "others-part") for name in owners} | {("server", "record")}
        stated |= {("reader", "record")} if published else set()
        stated = {key for key in stated if published or key[0] != "reader"}
        holders = ("server", *owners)[:3]
        threshold = 1
    receivers = draw(st.lists(st.sampled_from(owners), min_size=1, unique=True))
    return World(
        owners=owners,
        widths={name: draw(st.integers(1, 5)) for name in owners},
        constant=draw(st.integers(0, 3)),
        holders=holders,
        threshold=threshold,
        published=published,
        shown_to=owners if format_1 else tuple(receivers),
        server="" if format_1 else draw(st.sampled_from(("server", "hub"))),
        stated=frozenset(stated),
        format_1=format_1,
        noise_from=() if format_1 else draw(st.sampled_from([(), ("server",)])),
    )


def squares(events: tuple[Event, ...] | Iterator[Event]) -> float:
    return math.fsum(
        float(event.sensitivity) ** 2 / float(event.sigma) ** 2
        for event in events
        if isinstance(event, Gaussian)
    )


@settings(max_examples=20, deadline=None)
@given(st.lists(worlds(), min_size=1, max_size=3))
def test_no_total_is_below_the_truth_and_no_release_lowers_one(drawn: list[World]) -> None:
    book = LedgerState("here")
    releases = book.released.setdefault("people", [])
    accounts = [Account("people", unit, observer) for unit in UNITS for observer in OBSERVERS]
    before = dict.fromkeys(accounts, 0.0)
    for number, world in enumerate(drawn):
        releases.append(world.release(f"r{number}"))
        for account in accounts:
            spent = book.lost(account, DELTA)
            total = math.inf if spent.because else squares(spent.events.elements())
            if releases[-1].lines:
                truth = sum(
                    earlier.loss(account.observer, account.unit)
                    for earlier in drawn[: number + 1]
                    if earlier.release("r").lines
                )
                assert total >= truth * (1 - 1e-9), (account, world)
            assert total >= before[account] * (1 - 1e-9)
            before[account] = total


def test_the_world_would_notice_a_reader_taken_for_a_coalition() -> None:
    """A control: what the truth says of two computing parties is more than any line of a reader."""
    world = World(
        ("a", "b", "c"), dict.fromkeys("abc", 1), 0, ("a", "b", "c"), 1, True, (), "", frozenset(), False
    )
    assert world.loss("coalition:a+b", "own-part:c") == math.inf
    assert world.loss("reader", "record-replaced") < world.loss("party:a", "record-replaced")
    constant = World(("a", "b"), {"a": 0, "b": 0}, 1, (), 1, True, (), "", frozenset(), False)
    assert constant.loss("reader", "record-replaced") == 0 < constant.loss("reader", "record")


# What was wrong.


@cache
def schema(party: str, *, label: bool) -> PublicSchema:
    text = 'id = "n"\ncolumns.value = {kind = "numeric", low = 0, high = 1}\n'
    if label:
        text += '[label]\ncolumn = "buys"\nkind = "classes"\nclasses = ["no", "yes"]\n'
    return Schema.parse(text).public(party)


def parties(*owners: str) -> tuple[Group, tuple[PublicSchema, ...]]:
    schemas = tuple(schema(owner, label=owner == owners[0]) for owner in owners)
    return Group.of(owners, active=owners[0]), schemas


@cache
def moments(*owners: str, epsilon: float = 1.0) -> MomentsPlan:
    group, schemas = parties(*owners)
    made: MomentsPlan = requested(MomentsOptions, task="classification", epsilon=epsilon, delta=DELTA).plan(
        group, schemas, 1000
    )
    return made


@cache
def messages(*owners: str) -> Plan:
    made: Plan = requested(PrivateMessagesOptions, penalty="none", delta=DELTA, epochs=2).plan(
        *parties(*owners), 1000
    )
    return made


@cache
def network(*owners: str) -> Plan:
    request = requested(NetworkOptions, task="classification", epsilon=2.0, delta=DELTA, embedding=1)
    made: Plan = request.plan(*parties(*owners), 1000)
    return made


def of(plan: Plan, party: str, run: str) -> Release:
    return plan.release(party, run=run, reproducible=False)


def house(party: str, epsilon: float = 50.0) -> Ledger:
    return book(party, "people", epsilon)


def test_units_in_other_words_have_one_total_and_budgets_hold_for_every_method() -> None:
    ledger = house("shop")
    for unit, observer in (("own-part:shop", "party:bank"), ("record-replaced", "server")):
        ledger.set_budget("people", unit, observer, epsilon=50.0, delta=DELTA)
    for run, epsilon in (("r0", 4.0), ("r1", 8.0)):
        ledger.charge(of(moments("bank", "shop", epsilon=epsilon), "shop", run), "people")
    totals = epsilons(ledger)
    assert totals["own-part:shop", "party:bank"] == totals["others-part", "party:bank"] > 8
    assert totals["record-replaced", "server"] == totals["record-replaced", "reader"] > 8
    ledger = house("shop")
    ledger.set_budget("people", "own-part:shop", "*", epsilon=2.5, delta=DELTA)
    ledger.set_budget("people", "others-part", "*", epsilon=25.0, delta=DELTA)
    ledger.charge(of(network("bank", "shop"), "shop", "r0"), "people")
    assert 1.9 < epsilons(ledger)["own-part:shop", "party:bank"] <= 2.0
    with pytest.raises(BudgetExceeded, match="unit 'own-part:shop', observer 'party:bank'"):
        ledger.charge(of(moments("bank", "shop", epsilon=4.0), "shop", "r1"), "people")


def test_two_keepers_that_took_part_are_not_charged_what_a_reader_sees(tmp_path: Path) -> None:
    path, account = tmp_path / "insurer.ledger", ("people", "own-part:insurer", "coalition:bank+shop")
    ledger = Ledger.create(path, "insurer")
    ledger.set_budget("people", "*", "*", epsilon=50.0, delta=DELTA)
    ledger.charge(of(messages("bank", "shop", "insurer"), "insurer", "r0"), "people")
    assert epsilons(ledger)[account[1:]] < 2
    release = of(moments("bank", "shop", "insurer"), "insurer", "r1")
    with pytest.raises(
        BudgetExceeded,
        match=r"coalition:bank\+shop holds 2 of its shares, and 2 show every column.*ε = ∞.*accept it by name",
    ):
        ledger.charge(release, "people")
    ledger.set_budget(*account, epsilon=math.inf, delta=DELTA)
    assert Ledger.open(path).what_fits(*account) == math.inf
    ledger.charge(release, "people")
    (total,) = (total for total in ledger.totals() if total.observer == "coalition:bank+shop")
    assert (total.epsilon, total.left) == (math.inf, math.inf) and "2 of its shares" in total.because
    with pytest.raises(InputError, match="only a coalition"):
        ledger.set_budget("people", "record", "server", epsilon=math.inf, delta=DELTA)


@pytest.mark.parametrize(
    ("owners", "coalition", "finite"),
    [
        (("a", "b", "c"), "coalition:a+server", True),  # one share, and what everybody may read
        (("a", "b", "c"), "coalition:a+b", False),
        (("a", "b"), "coalition:a+server", False),
        (("a", "b", "c", "d"), "coalition:a+d", True),  # d keeps no share
        (("a", "b", "c", "d"), "coalition:a+d+server", True),
        (("a", "b", "c", "d"), "coalition:a+b+d", False),
        (("a", "b", "c", "d", "e"), "coalition:a+b", True),  # t = 2
        (("a", "b", "c", "d", "e"), "coalition:a+b+c", False),
        (("a", "b", "c"), "coalition:x+y", True),  # strangers
    ],
)
def test_a_coalition_has_what_its_members_saw(owners: tuple[str, ...], coalition: str, finite: bool) -> None:
    plan = moments(*owners)
    release = of(plan, owners[-1], "r")
    found = bound(release, Account("people", "others-part", coalition), DELTA)
    assert found.unbounded is not finite
    if finite:
        reader = bound(release, Account("people", "record-replaced", "reader"), DELTA)
        more = account_for(found.events[0], DELTA).epsilon
        known = len(set(coalition.partition(":")[2].split("+")) & set(owners))
        if known > plan.group.threshold:
            assert more > account_for(reader.events[0], DELTA).epsilon
        assert len(found.events) == 1


@pytest.mark.parametrize("owners", [("shop", "bank"), ("shop", "bank", "a", "b", "c")])
def test_the_readers_line_for_a_replaced_record_costs_most(owners: tuple[str, ...]) -> None:
    lines = of(moments(*owners), "shop", "r").lines
    (replaced,) = (line for line in lines if (line.observer, line.unit) == ("reader", "record-replaced"))
    assert len([line for line in lines if line.unit == "others-part"]) == len(owners) - 1
    assert all(
        account_for(replaced.event, DELTA).epsilon >= account_for(line.event, DELTA).epsilon for line in lines
    )


def test_whole_columns_are_unbounded_after_a_release_that_does_not_speak_of_them() -> None:
    ledger = house("shop")
    ledger.set_budget("people", "columns:shop", "reader", epsilon=5.0, delta=DELTA)
    with pytest.raises(BudgetExceeded, match="no line of it bounds the unit 'columns:shop' for reader"):
        ledger.charge(of(moments("bank", "shop"), "shop", "r0"), "people")
    ledger.set_budget("people", "columns:clinic", "reader", epsilon=5.0, delta=DELTA)
    release = of(moments("bank", "shop"), "shop", "r0")
    assert bound(release, Account("people", "columns:clinic", "reader"), DELTA).events == ()
    assert not bound(release, Account("people", "columns:clinic", "reader"), DELTA).unbounded


def test_what_is_not_published_reaches_nobody_else_and_coalitions_are_stated() -> None:
    release = of(messages("bank", "shop"), "shop", "r0")
    for observer in ("reader", "server", "party:clinic", "coalition:clinic+server"):
        for unit in ("record", "record-replaced", "others-part", "columns:shop"):
            assert bound(release, Account("people", unit, observer), DELTA).events == ()
    assert any(
        "Any coalition of 2 owners learns at most" in str(said) for said in moments(*"abcd").guarantees
    )
    assert not any("coalition" in str(said) for said in moments(*"abc").guarantees)


def test_a_server_that_is_a_party_elsewhere_is_no_stranger_to_a_coalition() -> None:
    schemas = tuple(schema(owner, label=owner == "bank") for owner in ("bank", "insurer"))
    group = Group.of(("bank", "insurer"), active="bank", server="shop")
    plan = requested(MomentsOptions, task="classification", epsilon=1.0, delta=DELTA).plan(
        group, schemas, 1000
    )
    release = of(plan, "insurer", "r")
    for coalition in ("coalition:bank+shop", "coalition:bank+server"):
        assert bound(release, Account("people", "own-part:insurer", coalition), DELTA).unbounded
    shop = bound(release, Account("people", "record-replaced", "party:shop"), DELTA)
    assert shop == bound(release, Account("people", "record-replaced", "server"), DELTA) and shop.events


def test_early_stopping_where_networks_learn_is_read_by_everybody() -> None:
    request = requested(
        NetworkOptions,
        task="classification",
        epsilon=8.0,
        delta=DELTA,
        embedding=1,
        regime="private-local",
        held_out=0.2,
    )
    release = of(request.plan(*parties("bank", "shop"), 1000), "shop", "r")
    assert bound(release, Account("people", "own-part:shop", "reader"), DELTA).events
    assert bound(release, Account("people", "record", "reader"), DELTA).unbounded
    fixed = of(request.with_options(held_out=0.0).plan(*parties("bank", "shop"), 1000), "shop", "r")
    assert bound(fixed, Account("people", "own-part:shop", "reader"), DELTA) == Bound(())


def test_methods_follow_each_other_in_any_order() -> None:
    owners = ("bank", "shop", "insurer")
    group, schemas = parties(*owners)
    plans = {
        "moments": moments(*owners),
        "one-shot": requested(OneShotOptions, "classification", 1.0, delta=DELTA).plan(group, schemas, 1000),
        "network": network(*owners),
        "scores": ScoresSpec("bank", 1, 4.0, "released", 1.0, delta=DELTA).plan(group, schemas, 1000),
    }
    for first, second in itertools.permutations(plans, 2):
        ledger = house("shop")
        for unit in ("own-part:shop", "others-part"):
            # Two computing parties of moments hold every column, whoever else they are: accepted by name.
            ledger.set_budget("people", unit, "coalition:bank+insurer", epsilon=math.inf, delta=DELTA)
        ledger.charge(of(plans[first], "shop", "r0"), "people")
        ledger.charge(of(plans[second], "shop", "r1"), "people")
        assert all(
            math.isfinite(total.epsilon) for total in ledger.totals() if "coalition" not in total.observer
        )


@pytest.mark.parametrize("name", ["shop-of-2.ledger", "shop-of-3.ledger"])
def test_a_ledger_of_format_1_is_read_and_its_totals_only_grow(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    shutil.copy(KEPT / name, path)
    ledger = Ledger.open(path)
    then = json.loads((KEPT / "totals.json").read_text())[name]
    now = {f"{total.unit} {total.observer}": total.epsilon for total in ledger.totals()}
    assert set(now) == set(then)
    grown = {key for key in then if now[key] > then[key] * (1 + 1e-9)}
    assert all(now[key] >= then[key] * (1 - 1e-9) for key in then)
    # What took part of a record for nothing where moments named the whole of it.
    assert {"own-part:shop party:bank"} <= grown
    if name == "shop-of-3.ledger":
        assert now["own-part:shop coalition:bank+insurer"] == math.inf
    assert all(math.isfinite(now[key]) for key in then if "coalition" not in key)


def test_a_ledger_of_format_2_is_read_as_it_was_and_grows_by_releases_of_this_format(tmp_path: Path) -> None:
    """Kept from a program in which owners alone dealt noise, Skellam by its Rényi curve: two owners at ε = 1."""
    path = tmp_path / "bank.ledger"
    shutil.copy(KEPT / "format-2.ledger", path)
    ledger = Ledger.open(path)
    assert ledger.receipt().head == "6c621255ce4e4916faead7d6d3791e20567c424f455a170f641e4350563b4225"
    before = epsilons(ledger)
    assert before["record", "server"] == pytest.approx(0.9999998357, rel=1e-6)
    assert before["others-part", "party:shop"] == pytest.approx(1.459993046, rel=1e-6)
    (release,) = (entry.body["release"] for entry in ledger.entries() if entry.kind == "charge")
    assert "noise_from" not in release
    assert Release.from_data(release).to_data() == release, "read and written again it is the same text"
    ledger.charge(of(moments("bank", "shop"), "bank", "another"), "people")
    after = epsilons(Ledger.open(path))
    assert all(after[account] > spent for account, spent in before.items())
    # In the first release the server was a reader; in the second it knows a part of the noise.
    assert after["record-replaced", "server"] == pytest.approx(after["record-replaced", "reader"])
