"""A ledger that is restored from an old copy is found when parties meet, whatever was written into it since."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from colonnade.errors import ColonnadeError, LedgerAltered, LedgerReplaced, PlansDiffer, RemoteProtocolError
from colonnade.ledger import Ledger, LedgerLine, Receipt, Release
from colonnade.ledger.admission import NOTHING, Claim
from colonnade.privacy.events import Gaussian
from colonnade.protocols.agreement import charge_first, common_wire, meet
from colonnade.runtime.channel import step_kind
from colonnade.runtime.journal import KNOWN, PROVED, ResumedLedger
from colonnade.runtime.party import AskingAccountant, Group, Party
from colonnade.runtime.run import Outcome, PartyInputs, reason_for_peers, run_here
from colonnade.runtime.wire import SPOKEN, Message, decode

PAIR = Group.of(("bank", "shop"), active="bank")
TRIO = Group.of(("bank", "shop", "clinic"), active="bank")
LINE = LedgerLine("server", "record", Gaussian(sensitivity=1.0, sigma=40.0))


@dataclass
class Houses:
    """Ledgers in files, so that old copies can be put back."""

    folder: Path
    ledgers: dict[str, Ledger]

    @classmethod
    def of(cls, folder: Path, *names: str) -> Houses:
        made = {name: Ledger.create(folder / f"{name}.ledger", name) for name in names}
        for ledger in made.values():
            ledger.set_budget("d", "*", "*", epsilon=9.0, delta=1e-5)
        return cls(folder, made)

    def copy(self, name: str) -> bytes:
        # Nobody has it open, so that the log lies in the file.
        return (self.folder / f"{name}.ledger").read_bytes()

    def put_back(self, name: str, copy: bytes, *, extra: int = 0) -> None:
        path = self.folder / f"{name}.ledger"
        for leftover in self.folder.glob(f"{name}.ledger-*"):
            leftover.unlink()
        path.write_bytes(copy)
        self.ledgers[name] = Ledger.open(path)
        for number in range(extra):
            self.ledgers[name].set_budget("d", "*", "*", epsilon=10.0 + number, delta=1e-5)

    def sizes(self) -> dict[str, int]:
        return {name: len(ledger.entries()) for name, ledger in self.ledgers.items()}


async def charged(party: Party, _table: Any) -> dict[str, int]:
    await meet(party)
    lines = (LINE,) if party.owns_columns else ()
    await charge_first(party, Release(f"{party.run}/x", party.run, "plan", "a test", "server", lines, False))
    return dict(party.proved)


def run(group: Group, books: Mapping[str, Any], program: Any = charged) -> Outcome:
    server = {"server": Ledger.in_memory("server")}
    inputs = {name: PartyInputs(book, dataset="d") for name, book in {**server, **books}.items()}
    return run_here(program, group, inputs, timeout=20)


def entry_numbers(ledger: Ledger, party: str) -> list[int]:
    return [receipt.entry for receipt in ledger.receipts(party)]


@pytest.mark.parametrize("extra", [0, 1, 2, 3, 4, 5, 30])
def test_a_restored_ledger_stops_the_run_before_anything_is_charged_however_it_went_on(
    tmp_path: Path, extra: int
) -> None:
    houses = Houses.of(tmp_path, "bank", "shop")
    run(PAIR, houses.ledgers)
    copy = houses.copy("bank")
    run(PAIR, houses.ledgers)
    run(PAIR, houses.ledgers)
    houses.put_back("bank", copy, extra=extra)
    before = houses.sizes()
    with pytest.raises(
        LedgerAltered, match=r"holds a receipt for entry 9.*Nothing was charged.*--witness"
    ) as caught:
        run(PAIR, houses.ledgers)
    assert "bank.ledger" in str(caught.value) and "explain E601" in str(caught.value)
    assert houses.sizes() == before, "nobody charged or kept anything"


def test_the_restored_ledger_is_refused_by_its_peer_as_well_and_the_whole_one_goes_on(tmp_path: Path) -> None:
    houses = Houses.of(tmp_path, "bank", "shop")
    run(PAIR, houses.ledgers)
    copy = houses.copy("bank")
    run(PAIR, houses.ledgers)
    whole = houses.copy("bank")
    houses.put_back("bank", copy, extra=4)
    found: dict[str, ColonnadeError] = {}

    async def caught(party: Party, table: Any) -> None:
        try:
            await charged(party, table)
        except ColonnadeError as error:
            found[party.name] = error
            raise

    for _ in range(2):
        with pytest.raises(LedgerAltered):
            run(PAIR, houses.ledgers, caught)
        assert isinstance(found["shop"], LedgerAltered)
        assert "bank does not prove that its ledger still has entry 6" in str(found["shop"])
    houses.put_back("bank", whole)
    run(PAIR, houses.ledgers)
    assert entry_numbers(houses.ledgers["shop"], "bank") == [3, 6, 9]


def test_a_restored_ledger_is_found_whoever_it_is_and_members_without_receipts_meet(tmp_path: Path) -> None:
    houses = Houses.of(tmp_path, "bank", "shop", "clinic")
    run(TRIO, houses.ledgers)
    copy = houses.copy("clinic")
    run(TRIO, houses.ledgers)
    houses.put_back("clinic", copy, extra=6)
    with pytest.raises(LedgerAltered, match="clinic does not prove that its ledger still has entry 7"):
        run(TRIO, houses.ledgers)
    (tmp_path / "new").mkdir()
    houses = Houses.of(tmp_path / "new", "bank", "shop", "clinic")
    assert run(PAIR, {name: houses.ledgers[name] for name in PAIR.owners}).results["shop"] == {}
    for number in range(3):
        houses.ledgers["bank"].set_budget("d", "*", "*", epsilon=20.0 + number, delta=1e-5)
    # The clinic is new: it knows nothing of the others, nor they of it.
    results = run(TRIO, houses.ledgers).results
    assert results["shop"] == {"bank": 3} and results["bank"] == {"shop": 3}
    assert results["clinic"] == results["server"] == {}
    assert run(TRIO, houses.ledgers).results["clinic"].keys() == {"bank", "shop"}


def test_each_of_a_partys_ledgers_is_held_to_its_own_receipts(tmp_path: Path) -> None:
    houses = Houses.of(tmp_path, "bank", "shop")
    run(PAIR, houses.ledgers)
    other = Ledger.create(tmp_path / "other.ledger", "bank", reason="for other people")
    other.set_budget("d", "*", "*", epsilon=9.0, delta=1e-5)
    first = dict(houses.ledgers)
    for _ in range(3):
        run(PAIR, {**first, "bank": other})
    # Its entries have higher numbers than those known of the first, which are no reason to refuse the first.
    assert run(PAIR, first).results["shop"] == {"bank": 3}
    assert run(PAIR, {**first, "bank": other}).results["shop"] == {"bank": 9}
    copy = houses.copy("bank")
    run(PAIR, first)
    houses.put_back("bank", copy, extra=9)
    with pytest.raises(LedgerAltered):
        run(PAIR, {**first, "bank": houses.ledgers["bank"]})
    run(PAIR, {**first, "bank": other})


def test_a_ledger_begun_anew_is_accepted_and_one_that_is_not_is_refused_by_name(tmp_path: Path) -> None:
    houses = Houses.of(tmp_path, "bank", "shop")
    run(PAIR, houses.ledgers)
    for reason in ("the disk is lost", ""):
        bank = Ledger.create(tmp_path / f"new{reason}.ledger", "bank", reason=reason)
        bank.set_budget("d", "*", "*", epsilon=9.0, delta=1e-5)
        if reason:
            run(PAIR, {**houses.ledgers, "bank": bank})
        else:
            with pytest.raises(LedgerReplaced):
                run(PAIR, {**houses.ledgers, "bank": bank})


@dataclass(frozen=True, eq=False)
class Forging(AskingAccountant):
    """A ledger that was put back, under a program that answers something all the same."""

    forges: Callable[[Claim, Ledger], bytes]

    def prove(self, claim: Any) -> bytes:
        assert isinstance(self.ledger, Ledger)
        return self.forges(claim, self.ledger)


def own_head(claim: Claim, ledger: Ledger) -> bytes:
    """The tag under the head that the restored ledger has there, as if it were the one that was asked for."""
    head = ledger.entries()[claim.entry - 1].hash
    own = Receipt("bank", claim.entry, head, ledger.opening().origin)
    return Claim.of(own, holder=claim.holder, run=claim.run).answer(own, where="")


def other_entry(claim: Claim, ledger: Ledger) -> bytes:
    """The right tag for an entry that is in the chain, and is not the one that was asked for."""
    own = Receipt("bank", 3, ledger.entries()[2].hash, ledger.opening().origin)
    return Claim.of(own, holder=claim.holder, run=claim.run).answer(own, where="")


FORGERIES: dict[str, Callable[[Claim, Ledger], bytes]] = {
    "nothing": lambda claim, ledger: NOTHING,
    "echo": lambda claim, ledger: claim.tag,
    "a hash in no chain": lambda claim, ledger: hashlib.sha256(b"made up").digest(),
    "the own head there": own_head,
    "another entry": other_entry,
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_answer_that_is_not_under_the_known_head_is_refused(tmp_path: Path, forgery: str) -> None:
    houses = Houses.of(tmp_path, "bank", "shop")
    run(PAIR, houses.ledgers)
    copy = houses.copy("bank")
    run(PAIR, houses.ledgers)
    houses.put_back("bank", copy, extra=3)
    lying = Forging(houses.ledgers["bank"], FORGERIES[forgery])
    with pytest.raises(LedgerAltered, match="bank does not prove that its ledger still has entry 6"):
        run(PAIR, {**houses.ledgers, "bank": lying})


def test_the_answer_of_another_run_or_for_another_member_is_refused(tmp_path: Path) -> None:
    houses = Houses.of(tmp_path, "bank", "shop", "clinic")
    run(TRIO, houses.ledgers)
    heard: dict[str, bytes] = {}

    def noting(claim: Claim, ledger: Ledger) -> bytes:
        heard[claim.holder] = ledger.prove(claim)
        return heard[claim.holder]

    bank = houses.ledgers["bank"]
    run(TRIO, {**houses.ledgers, "bank": Forging(bank, noting)}, meeting)
    assert len(set(heard.values())) == 2
    replayed = Forging(bank, lambda claim, ledger: heard[claim.holder])
    with pytest.raises(LedgerAltered, match="bank does not prove"):
        run(TRIO, {**houses.ledgers, "bank": replayed}, meeting)
    shop = houses.ledgers["shop"].recognise(bank.opening())
    assert shop is not None
    claim = Claim.of(shop, holder="shop", run="r")
    assert claim.is_proved_by(bank.prove(claim), shop)
    assert not claim.is_proved_by(bank.prove(Claim.of(shop, holder="clinic", run="r")), shop)
    assert not claim.is_proved_by(bank.prove(Claim.of(shop, holder="shop", run="s")), shop)


async def meeting(party: Party, _table: Any) -> None:
    await meet(party)


def test_whoever_does_not_know_a_head_learns_nothing_under_it(tmp_path: Path) -> None:
    houses = Houses.of(tmp_path, "bank", "shop")
    bank = houses.ledgers["bank"]
    head = bank.receipt()
    guesses = {
        "no tag": Claim("shop", "r", head.entry),
        "somebody else's tag": Claim("shop", "r", head.entry, Claim.of(head, holder="clinic", run="r").tag),
        "a wrong head": Claim.of(Receipt("bank", head.entry, "0" * 64, head.origin), holder="shop", run="r"),
        "an entry that is not there": Claim("shop", "r", head.entry + 1),
        "no entry": Claim("shop", "r", 0),
    }
    for claim in guesses.values():
        with pytest.raises(LedgerAltered):
            bank.prove(claim)


def test_a_false_claim_stops_the_run_without_telling_how_long_the_ledger_is(tmp_path: Path) -> None:
    """The claim may name an entry that is there, or one that is not: what the holder hears is the same."""
    heard: list[bytes] = []

    async def noting(party: Party, table: Any) -> None:
        party.seen = []
        try:
            await charged(party, table)
        finally:
            if party.name == "shop":
                heard.extend(
                    seen.frame for seen in party.seen if (seen.sender, seen.step) == ("bank", PROVED)
                )

    for entry in (2, 40):
        (tmp_path / str(entry)).mkdir()
        houses = Houses.of(tmp_path / str(entry), "bank", "shop")
        origin = houses.ledgers["bank"].opening().origin
        houses.ledgers["shop"].keep_receipt(Receipt("bank", entry, "ab" * 32, origin))
        with pytest.raises(LedgerAltered):
            run(PAIR, houses.ledgers, noting)
    tags = [decode(frame)[1].array("tag", dtype="u1", shape=(32,)).tobytes() for frame in heard]
    assert tags == [NOTHING, NOTHING]
    assert reason_for_peers(LedgerAltered("this ledger ends before it")) == reason_for_peers(
        LedgerAltered("else")
    )


def test_what_is_said_of_ledgers_has_one_length_whatever_is_known(tmp_path: Path) -> None:
    sizes = []
    for known in (0, 1, 300):
        (tmp_path / str(known)).mkdir()
        houses = Houses.of(tmp_path / str(known), "bank", "shop")
        for number in range(known):
            houses.ledgers["bank"].set_budget("d", "*", "*", epsilon=10.0 + number, delta=1e-5)
        if known:
            run(PAIR, houses.ledgers)
        steps = run(PAIR, houses.ledgers, meeting).bytes_by_step
        sizes.append((steps[step_kind(KNOWN)], steps[step_kind(PROVED)]))
    assert len(set(sizes)) == 1


def test_a_number_below_nothing_is_a_broken_frame(tmp_path: Path) -> None:
    houses = Houses.of(tmp_path, "bank", "shop")

    @dataclass(frozen=True, eq=False)
    class Below(AskingAccountant):
        def recognise(self, opening: Any) -> Any:
            made = Receipt(opening.party, 1, "0" * 64, opening.origin)
            object.__setattr__(made, "entry", -4)
            return made

    with pytest.raises(RemoteProtocolError, match="counted from 1; found -4"):
        run(PAIR, {**houses.ledgers, "shop": Below(houses.ledgers["shop"])})


@dataclass(frozen=True, eq=False)
class Behind(AskingAccountant):
    """A program that proves its ledger when asked, and charges an old copy of it."""

    old: Ledger

    def charge(self, release: Any, dataset: str, *, fresh: bool = False) -> Any:
        return self.old.charge(release, dataset, fresh=fresh)


def test_a_receipt_at_or_below_what_was_proved_is_refused_and_kept_as_evidence(tmp_path: Path) -> None:
    houses = Houses.of(tmp_path, "bank", "shop")
    run(PAIR, houses.ledgers)
    (tmp_path / "copy").write_bytes(houses.copy("bank"))
    for number in range(3):
        houses.ledgers["bank"].set_budget("d", "*", "*", epsilon=20.0 + number, delta=1e-5)
    run(PAIR, houses.ledgers)
    behind = Behind(houses.ledgers["bank"], Ledger.open(tmp_path / "copy"))
    with pytest.raises(
        LedgerAltered, match="bank gives a receipt for entry 6 of its ledger after one for entry 9"
    ):
        run(PAIR, {**houses.ledgers, "bank": behind})
    assert entry_numbers(houses.ledgers["shop"], "bank") == [3, 9, 6]
    # The evidence does not lower what is asked for next time.
    assert run(PAIR, houses.ledgers).results["shop"] == {"bank": 9}


@dataclass(frozen=True, eq=False)
class Early(AskingAccountant):
    """A ledger in which the release of this run is charged already."""

    def charge(self, release: Any, dataset: str, *, fresh: bool = False) -> Any:
        return self.ledger.charge(release, dataset)


@pytest.mark.parametrize("overtaken", ["bank", "server"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "new to each other"])
def test_receipts_of_two_runs_beside_each_other_may_come_in_either_order(
    tmp_path: Path, known: bool, overtaken: str
) -> None:
    houses = Houses.of(tmp_path, "bank", "shop", "server")
    if known:
        run(PAIR, houses.ledgers)
    shop, behind = houses.ledgers["shop"], houses.ledgers[overtaken]

    async def alongside(party: Party, table: Any) -> None:
        """Another run is charged there after this one, and its receipt arrives before."""
        await meet(party)
        release = Release(f"{party.run}/x", party.run, "plan", "a test", "server", (), False)
        if party.name == "shop":
            later = Release("beside/x", "beside", "plan", "a test", "server", (), False)
            behind.charge(release, "d")
            shop.keep_receipt(behind.charge(later, "d"))
        await charge_first(party, release)

    run(PAIR, {**houses.ledgers, overtaken: Early(behind)}, alongside)
    *before, first, second = entry_numbers(shop, overtaken)
    assert first > second > max(before, default=0)
    assert len(before) == known


def test_a_server_that_is_put_back_costs_no_charge(tmp_path: Path) -> None:
    """It owns no columns, so its ledger counts no ε and nobody asks for a proof: what it lost is kept as evidence."""
    houses = Houses.of(tmp_path, "bank", "shop", "server")
    run(PAIR, houses.ledgers)
    copy = houses.copy("server")
    run(PAIR, houses.ledgers)
    houses.put_back("server", copy)
    houses.ledgers["bank"].set_budget("d", "*", "*", epsilon=20.0, delta=1e-5)
    for _ in range(2):
        assert run(PAIR, houses.ledgers).results["shop"]["bank"] > 3
    assert houses.ledgers["shop"].contradictions()


def test_a_run_that_goes_on_may_bring_a_receipt_that_other_runs_have_passed() -> None:
    origin = "a" * 64
    shop = Ledger.in_memory("shop")
    shop.keep_receipt(Receipt("bank", 12, "1" * 64, origin))
    ResumedLedger(shop).keep_receipt(Receipt("bank", 9, "2" * 64, origin), after=12)
    assert entry_numbers(shop, "bank") == [12, 9]
    with pytest.raises(LedgerAltered, match="another head for entry 12"):
        ResumedLedger(shop).keep_receipt(Receipt("bank", 12, "3" * 64, origin), after=12)


# Members that meet choose the newest wire version that all of them speak, or stop before anything is charged.


INSURED = Group.of(("bank", "insurer"), active="bank")


def says(**wire: Any) -> dict[str, Message]:
    return {name: Message({"wire": versions}) for name, versions in wire.items()}


def test_the_newest_common_version_is_chosen_and_without_one_the_member_behind_is_named() -> None:
    assert common_wire(says(bank=[2, 5], insurer=[3, 4], server=[2, 7])) == 4
    assert common_wire(says(bank=[2, 2], insurer=[2, 9])) == 2
    with pytest.raises(PlansDiffer, match=r"insurer speaks wire versions up to 3, and bank from 4 on"):
        common_wire(says(bank=[4, 5], insurer=[2, 3], server=[2, 5]))


@pytest.mark.parametrize("wrong", [None, 2, [2], [3, 2], ["2", "2"], [2, 2, 2]])
def test_who_names_no_versions_is_refused(wrong: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="insurer named no wire versions"):
        common_wire(says(bank=[2, 2], insurer=wrong))


def met_by(spoken: tuple[int, int]) -> dict[str, Any]:
    async def program(party: Party, _: None) -> int:
        await meet(party, spoken if party.name == "server" else SPOKEN)
        return party.wire

    desks = {name: PartyInputs(Ledger.in_memory(name), None) for name in INSURED.members}
    return dict(run_here(program, INSURED, desks).results)


def test_a_newer_member_is_met_as_far_as_it_speaks_this_version() -> None:
    results = met_by((SPOKEN[0], SPOKEN[1] + 3))
    assert set(results.values()) == {SPOKEN[1]}
    with pytest.raises(PlansDiffer, match="Nothing was released or charged"):
        met_by((SPOKEN[1] + 1, SPOKEN[1] + 1))
