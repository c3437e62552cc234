"""Private alignment inside a session: the same people in the same order, and nothing about the rest."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_server_intersection import BLINDED, IDS, inputs_of, people, steps, table_of
from test_server_intersection import aligned as matched
from training_specs import requested
from typed import there, untyped

from colonnade.data.schema import Schema
from colonnade.data.table import AlignedTable, Table
from colonnade.errors import BudgetExceeded, DataError, LedgerError, PlanError, RemoteProtocolError
from colonnade.federation.federation import Federation
from colonnade.ledger import Cut, Opening
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import moments_session
from colonnade.protocols import agreement as parts
from colonnade.protocols import alignment, intersection, messages, session
from colonnade.protocols.agreement import meet
from colonnade.protocols.alignment import Alignment, _digest, align
from colonnade.protocols.intersection import Ids
from colonnade.runtime.journal import KNOWN, PROVED
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, run_here
from colonnade.runtime.wire import Message


def test_rules_and_budgets_are_compared_before_ids_are() -> None:
    columns = "[columns.{0}]\nkind='numeric'\nlow=0\nhigh=1000\n"
    rules = {"bank": "[id]\ncolumn='n'\ncase='lower'\n", "shop": "id='n'\n"}
    tables = {
        party: Table.from_arrays(
            party, {party: [1.0]}, Schema.parse(rule + columns.format(party)), ids=["p1"]
        )
        for party, rule in rules.items()
    }
    with pytest.raises(PlanError, match="different rules for ids"):
        Federation(tables.values(), budget=(1.0, 1e-5)).align()
    federation = Federation([table_of("bank", ["p1"]), table_of("shop", ["p1"])], budget=(0.1, 1e-5))
    with pytest.raises(BudgetExceeded):
        federation.moments(task="pca", epsilon=1.0, delta=1e-5)
    assert not federation.ledgers["bank"].comparisons()


def aligned(how: Alignment, ids: dict[str, list[str]], **options: Any) -> Outcome:
    return matched(ids, how, in_shares=False, **options)


@pytest.mark.parametrize("how", ["auto", "curve", "server"])
@pytest.mark.parametrize("parties", [("bank", "insurer"), ("bank", "insurer", "shop")])
def test_everybody_gets_the_common_people_in_one_order(how: Alignment, parties: tuple[str, ...]) -> None:
    ids = {party: IDS[party] for party in parties}
    outcome = aligned(how, ids)
    orders = [people(outcome, party) for party in parties]
    assert set(orders[0]) == set.intersection(*(set(names) for names in ids.values()))
    assert all(order == orders[0] for order in orders)
    assert len({outcome.results[party].digest for party in parties}) == 1
    assert outcome.results["server"] is None
    assert bool(steps(outcome) & BLINDED) == (how != "server"), "through the server nobody's ids are points"


def test_equal_tables_are_left_as_they_are() -> None:
    ids = {"bank": IDS["bank"], "insurer": IDS["bank"]}
    outcome, plain = aligned("auto", ids), aligned("curve", ids)
    assert people(outcome, "bank") == IDS["bank"]
    assert outcome.bytes_by_step["blinded"] < plain.bytes_by_step["blinded"] / 10, (
        "one point each, not one per person"
    )
    equal = aligned("equal", ids)
    assert equal.results["bank"].digest == equal.results["insurer"].digest
    assert all(b"ids" not in seen.frame for seen in there(equal.seen["server"])), "the server sees no digest"


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        (["a", "b"], "do not match"),
        (["c", "b", "a"], "same ids in different orders"),
        (["a", "b", "d"], "do not match"),
    ],
)
def test_ids_that_do_not_match_are_an_error_that_shows_none_of_them(theirs: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        aligned("equal", {"bank": ["a", "b", "c"], "insurer": theirs})
    assert "'d'" not in str(caught.value)


@pytest.mark.parametrize("how", ["auto", "equal"])
def test_nothing_that_a_peer_saw_can_be_compared_with_a_guess_of_the_list(how: Alignment) -> None:
    """A digest that peers could recompute would tell a guesser who the one more person is."""
    bank, insurer = IDS["bank"], [*IDS["bank"], "p777"]
    seen: list[Any] = []

    async def program(party: Party, table: Table | None) -> None:
        await meet(party)
        try:
            await align(party, table, how)
        finally:
            seen.extend((party.name, party.run, entry.frame) for entry in there(party.seen))

    group = Group.of(("bank", "insurer"))
    try:
        run_here(program, group, inputs_of(group, {"bank": bank, "insurer": insurer}), record=True)
    except DataError:
        assert how == "equal"
    party = SimpleNamespace(run=seen[0][1])
    for what, guess in (("in order", insurer), ("sorted", sorted(insurer))):
        digest = _digest(untyped(party), what, Ids.of(guess))
        assert not any(digest in frame or digest.hex().encode() in frame for _, _, frame in seen)


def test_the_common_order_says_nothing_about_the_tables_order() -> None:
    orders = [people(aligned("curve", IDS), "bank") for _ in range(4)]
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    assert len({tuple(order) for order in orders}) == 4


@pytest.mark.parametrize("how", ["auto", "server"])
def test_no_common_people_is_an_error_without_ids_in_it(how: Alignment) -> None:
    with pytest.raises(DataError, match="no ids in common") as caught:
        aligned(how, {"bank": ["p1", "p2"], "insurer": ["p3"]})
    assert "p1" not in str(caught.value)


def test_padding_hides_how_many_people_there_are_and_ids_never_travel_in_clear() -> None:
    ids = {"bank": IDS["bank"], "insurer": IDS["insurer"]}
    outcome, plain = aligned("curve", ids, shown={"insurer": 128}), aligned("curve", ids)
    assert people(outcome, "bank") != []
    assert outcome.bytes_by_step["blinded"] > plain.bytes_by_step["blinded"]
    outcome = aligned("curve", IDS)
    frames = [seen.frame for party in IDS for seen in there(outcome.seen[party])]
    assert frames
    assert not any(number.encode() in frame for frame in frames for number in ("p24", "p58"))


def test_a_model_is_learnt_from_the_common_people_only() -> None:
    rng = np.random.default_rng(0)
    everybody = [f"p{n}" for n in range(400)]
    label = "[label]\ncolumn='y'\nkind='classes'\nclasses=['no','yes']\n"
    columns = "id='n'\n[columns.{0}]\nkind='numeric'\nlow=-1\nhigh=1\n"
    values = {name: rng.uniform(-1, 1, 400) for name in ("a", "b")}
    answer = np.where(values["a"] + values["b"] > 0, "yes", "no")
    mine, theirs = np.arange(0, 300), rng.permutation(np.arange(100, 400))
    bank = Table.from_arrays(
        "bank",
        {"a": values["a"][mine], "y": answer[mine]},
        Schema.parse(columns.format("a") + label),
        ids=[everybody[n] for n in mine],
    )
    shop = Table.from_arrays(
        "shop",
        {"b": values["b"][theirs]},
        Schema.parse(columns.format("b")),
        ids=[everybody[n] for n in theirs],
    )
    federation = Federation([bank, shop], budget=(30.0, 1e-5))
    release = federation.moments(task="classification", epsilon=10.0, delta=1e-5)
    assert release.rows == 200
    from colonnade.models.logistic import LogisticRegression

    model = LogisticRegression().fit(release)
    common = np.arange(100, 300)
    assert model.score({"a": values["a"][common], "b": values["b"][common]}, answer[common]) > 0.85


def test_every_owner_writes_down_with_whom_it_compares_ids_also_if_nobody_is_common() -> None:
    tables = [table_of("bank", ["p1", "p2"]), table_of("insurer", ["p3"]), table_of("shop", ["p2"])]
    federation = Federation(tables, budget=(1.0, 1e-5), datasets={"bank": "customers"})
    with pytest.raises(DataError, match="no ids in common"):
        federation.align()
    found = {name: federation.ledgers[name].comparisons() for name in federation.group.members}
    (bank,), (shop,) = found["bank"], found["shop"]
    assert (bank.dataset, bank.partners) == ("customers", ("insurer", "shop"))
    assert shop.partners == ("bank", "insurer") and bank.run == shop.run
    assert found["server"] == ()


def test_where_a_ledger_does_not_take_the_entry_nothing_made_of_ids_leaves() -> None:
    sent = []

    class Full:
        def opening(self) -> Opening:
            return Opening("me", "0" * 64, anew=True)

        def recognise(self, opening: Opening) -> None:
            return None

        def note_comparison(self, dataset: str, partners: list[str], *, run: str, through: str = "") -> None:
            raise LedgerError("the disk is full")

    async def program(party: Party, table: Table | None) -> Any:
        honest = party.channel.send

        async def send(to: str, step: str, frame: bytes) -> None:
            sent.append((party.name, step))
            await honest(to, step, frame)

        untyped(party.channel).send = send
        await meet(party)
        return await align(party, table, "auto")

    group = Group.of(("bank", "shop"))
    inputs = inputs_of(group, {"bank": ["p1"], "shop": ["p1"]}, ledger=untyped(Full()))
    with pytest.raises(LedgerError, match="the disk is full"):
        run_here(program, group, inputs)
    assert {step for _, step in sent} <= {"hello", KNOWN, PROVED, "id rules"}


# --- three owners, one of whom lies about who stands where

TRIO = ("bank", "insurer", "shop")


def released(**options: Any) -> Any:
    """A release between three owners, and which people each of them had in which row."""
    schema = "id='n'\n[columns.{0}]\nkind='numeric'\nlow=0\nhigh=1000\n"
    ids = [f"p{number}" for number in range(80)]
    tables = [
        Table.from_arrays(
            party, {party: np.arange(80.0)}, Schema.parse(schema.format(party)), ids=ids[::step]
        )
        for party, step in zip(TRIO, (1, -1, 1), strict=True)
    ]
    federation = Federation(tables, budget=(9.0, 1e-5), **options)
    request = requested(MomentsOptions, "pca", 1.0, delta=1e-5)
    try:
        run = federation.run(moments_session, request)
    except RemoteProtocolError as error:
        spent = [total.epsilon for party in TRIO for total in federation.ledgers[party].totals()]
        return str(error), max(spent, default=0.0)
    return [list(run.aligned[party].table.ids()) for party in TRIO]


@pytest.fixture
def shifted_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner that asks tells the shop other places than the insurer, and everybody that all lists are equal."""
    tell_places, all_hold = intersection._tell_places, alignment._all_hold

    async def lying(party: Party, peer: str, places: Any) -> None:
        shift = 1 if peer == "shop" else 0
        await tell_places(party, peer, np.roll(places, shift) if len(places) > 1 else np.zeros(1, np.int64))

    async def yes(party: Party, digest: bytes) -> bool:
        return await all_hold(party, digest) or party.name == "bank"

    monkeypatch.setattr(alignment, "_all_hold", yes)
    monkeypatch.setattr(intersection, "_tell_places", lying)


@pytest.fixture
def two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner that draws the key of the cut tells the shop another one, under which as many are held out."""
    honest = messages.tell

    async def lying(party: Party, peer: str, step: str, message: Message) -> None:
        if step == "cut" and peer == "shop":
            ids = [f"p{number}" for number in range(80)]
            cuts = (Cut(bytes([number]) * 32, 0.2, "") for number in range(1, 250))
            wanted = Cut(message.fields["key"], 0.2, "").held_out(ids)
            key = next(c.key for c in cuts if (c.held_out(ids).sum() == wanted.sum()))
            message = Message({"key": key})
        await honest(party, peer, step, message)

    monkeypatch.setattr(parts, "tell", lying)


@pytest.mark.parametrize(
    ("lie", "options"),
    [("shifted_places", {"alignment": "curve"}), ("two_keys", {"held_out": 0.2})],
)
def test_owners_that_were_told_different_people_stop_before_they_are_charged(
    lie: str, options: dict[str, Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(lie)
    found = released(**options)
    assert "does not hold the same people in the same order" in found[0] and found[1] == 0.0
    # The control: without the comparison a person is in two rows.
    monkeypatch.setattr(session, "compare_people", nothing_compared)
    _bank, insurer, shop = released(**options)
    assert len(shop) == len(insurer) and shop != insurer


async def nothing_compared(party: Party, aligned: AlignedTable | None) -> None:
    """The step as it would be without the comparison."""
