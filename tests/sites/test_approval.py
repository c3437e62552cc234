"""A job that waits for people: nothing is compared or charged before they say yes, and the ledger says who did."""

import base64
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from certificates import Root
from relayed_jobs import breaking, houses, run_job
from two_houses import MEMBERS, charges, job_text, policy_text, split

from colonnade.cli.app import run
from colonnade.crypto.sealing import SigningKey
from colonnade.errors import InputError, OutOfRange, WrongType
from colonnade.federation.files import waits_for
from colonnade.ledger import Decision, Ledger
from colonnade.ledger.export import export, read_export
from colonnade.randomness import SystemRandomness
from colonnade.report.facts import entry_text
from colonnade.sites import approval
from colonnade.sites.approval import Request, approve, decline, list_requests, vouched
from colonnade.sites.kit import Kit, Signature, vouch
from colonnade.sites.policy import Approvers, Policy

ROOT = Root.make()
Kits = dict[str, Kit]


def by_kit(decision: Decision, kit: Kit) -> Signature:
    """The signature that a party's own kit gives a decision."""
    return vouch(kit.identity(), decision.statement, purpose="colonnade approval", scheme="certificate")


@pytest.fixture
def kits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kits:
    """A bank that asks a person, and a shop that does not."""
    monkeypatch.setattr(approval, "_GLANCE_SECONDS", 0.02)
    found = houses(tmp_path, ROOT)
    asks(tmp_path, 'approval = "ask"')
    return found


def asks(folder: Path, more: str) -> None:
    # A key of the policy itself stands before its tables.
    text = policy_text("bank")
    (folder / "bank.policy.toml").write_text(f"{more}\n{text}")


def run_while(
    kits: Kits, deed: Callable[[Request], object], *, texts: dict[str, str] | None = None, relay: Any = None
) -> dict[str, Any]:
    """Run a job, and do something at the bank as soon as the job waits there."""
    wrong: list[BaseException] = []

    def wait() -> None:
        try:
            while not (found := list_requests(kits["bank"])):
                time.sleep(0.01)
            deed(found[0])
        except BaseException as error:
            wrong.append(error)
            decline(kits["bank"], "j1", by="the test", because="it failed")

    thread = threading.Thread(target=wait)
    thread.start()
    outcomes = run_job(kits, texts=texts, relay=relay)
    thread.join()
    for error in wrong:
        raise error
    return outcomes


def test_nothing_is_compared_or_charged_before_somebody_says_yes(kits: Kits, tmp_path: Path) -> None:
    seen: list[Request] = []
    kinds: list[list[str]] = []
    standing: list[list[str]] = []

    def deed(request: Request) -> None:
        seen.append(request)
        for party in ("bank", "shop"):
            kinds.append([entry.kind for entry in Ledger.open(tmp_path / f"{party}.ledger").entries()])
        while not (waits := waits_for(kits["shop"].run_folder("j1"))):
            time.sleep(0.01)
        standing.append(waits)
        assert run(["job", "status", "j1", "--kit", str(kits["shop"].path)]) == 0
        assert run(["party", "requests", str(kits["bank"].path)]) == 0
        assert run(["party", "approve", str(kits["bank"].path), "j1", "--as", "Ada"]) == 0

    outcomes = run_while(kits, deed)
    assert {outcome["state"] for outcome in outcomes.values()} == {"finished"}
    assert kinds == [["opened", "budget"]] * 2
    assert standing == [["bank"]]
    assert seen[0].text == job_text()
    assert [charges(tmp_path, party) for party in ("bank", "shop")] == [1, 1]
    bank = Ledger.open(tmp_path / "bank.ledger")
    entries = {entry.kind: entry for entry in bank.entries()}
    assert entries["decision"].seq < entries["charge"].seq
    assert entry_text(entries["decision"]) == (
        "Ada approved job j1, second moments of 10 columns of 'd' to server, by moments with shop"
    )
    (decision,) = bank.decisions("j1")
    assert vouched(decision, kits["bank"].trust(), Approvers(1, ()))
    # What was shown is what was charged, rounded up, and what is left is what was foretold.
    totals = {(total.observer, total.unit): total for total in bank.totals()}
    assert {(cost.observer, cost.unit) for cost in seen[0].costs} == set(totals)
    for cost in seen[0].costs:
        total = totals[cost.observer, cost.unit]
        assert total.epsilon <= cost.epsilon <= total.epsilon * 1.02
        assert cost.left == total.left
    assert not list_requests(kits["bank"])
    assert [request.state for request in list_requests(kits["bank"], ended=True)] == ["approved"]
    assert not waits_for(kits["shop"].run_folder("j1"))
    assert read_export(export(bank), where="bank.json").entries[2].kind == "decision"


def test_a_job_that_is_resumed_keeps_its_approval(kits: Kits, tmp_path: Path) -> None:
    texts = dict.fromkeys(MEMBERS, job_text(split(2)))
    broken = run_while(
        kits, lambda request: approve(kits["bank"], "j1", by="Ada"), texts=texts, relay=breaking("scores 1")
    )
    assert broken["bank"]["state"] == "failed" and charges(tmp_path, "bank") == 1
    ended = run_job(kits, texts=texts, job_id="j2", resumes="j1")
    assert {outcome["state"] for outcome in ended.values()} == {"finished"}, ended
    assert charges(tmp_path, "bank") == 1
    assert [one.by for one in Ledger.open(tmp_path / "bank.ledger").decisions()] == ["Ada"]


def test_a_job_that_comes_again_under_its_old_id_is_asked_about_again(kits: Kits, tmp_path: Path) -> None:
    outcomes = run_while(kits, lambda request: approve(kits["bank"], "j1", by="Ada"))
    assert outcomes["bank"]["state"] == "finished" and charges(tmp_path, "bank") == 1
    again = run_job(kits, texts=dict.fromkeys(MEMBERS, job_text(timeout=0.4)))
    assert "approv" in again["bank"]["reason"], again["bank"]["reason"]
    assert charges(tmp_path, "bank") == 1


def test_a_decision_of_another_party_does_not_count(kits: Kits, tmp_path: Path) -> None:
    def deed(request: Request) -> None:
        foreign = Decision("j1", request.digest, request.what, (), by="Ada", approved=True, party="shop")
        signed = replace(foreign, signature=by_kit(foreign, kits["shop"]))
        Ledger.open(tmp_path / "bank.ledger").note_decision(signed)
        assert not list_requests(kits["bank"])[0].approvals
        decline(kits["bank"], "j1", by="Ben", because="nobody of the bank said yes")

    assert run_while(kits, deed)["bank"]["state"] == "failed" and not charges(tmp_path, "bank")


def test_one_no_ends_the_job_and_its_reason_stays_with_the_party(kits: Kits, tmp_path: Path) -> None:
    outcomes = run_while(
        kits, lambda request: decline(kits["bank"], request.job, by="Ben", because="after the audit")
    )
    assert {outcome["state"] for outcome in outcomes.values()} == {"failed"}
    for member in MEMBERS:
        assert "bank: somebody declined the job" in outcomes[member]["reason"]
        assert "audit" not in outcomes[member]["reason"]
        # By its run the ledger is asked, and has no charge: so nobody is told to go on with it.
        assert "run" in outcomes[member]
    assert not any(charges(tmp_path, party) for party in ("bank", "shop"))
    bank = Ledger.open(tmp_path / "bank.ledger")
    assert not bank.comparisons()
    assert [(one.by, one.approved, one.because) for one in bank.decisions()] == [
        ("Ben", False, "after the audit")
    ]
    (request,) = list_requests(kits["bank"], ended=True)
    assert request.state == "declined"
    with pytest.raises(InputError, match="does not wait for anybody any more: it is declined"):
        approve(kits["bank"], "j1", by="Ada")


def test_a_job_that_nobody_approves_times_out_as_the_job_says(kits: Kits, tmp_path: Path) -> None:
    outcomes = run_job(kits, texts=dict.fromkeys(MEMBERS, job_text(timeout=0.4)))
    assert all("approv" in outcome["reason"] for outcome in outcomes.values())
    assert not any(charges(tmp_path, party) for party in ("bank", "shop"))
    assert [request.state for request in list_requests(kits["bank"], ended=True)] == ["ended"]


def test_two_people_are_two_and_each_signs_with_their_own_key(kits: Kits, tmp_path: Path) -> None:
    keys = {name: SigningKey.generate(SystemRandomness()) for name in ("Ada", "Ben")}
    named = ", ".join(f'{name} = "{key.public.hex()}"' for name, key in keys.items())
    asks(tmp_path, f'approval = "two"\napprovers = {{{named}}}')
    refused: list[str] = []

    def deed(request: Request) -> None:
        for by, key in (("Eve", keys["Ada"]), ("Ada", keys["Ben"]), ("Ada", None)):
            with pytest.raises(InputError) as error:
                approve(kits["bank"], request.job, by=by, key=key)
            refused.append(str(error.value))
        # Somebody who can write to the ledger and has no key of an approver changes nothing.
        forged = Decision("j1", request.digest, request.what, (), by="Ben", approved=True, party="bank")
        ledger = Ledger.open(tmp_path / "bank.ledger")
        ledger.note_decision(replace(forged, signature=(("scheme", "ed25519"), ("value", "00" * 64))))
        assert approve(kits["bank"], request.job, by="Ada", key=keys["Ada"]).approvals == ("Ada",)
        with pytest.raises(InputError, match="ada has decided about job j1 already"):
            approve(kits["bank"], request.job, by="ada", key=keys["Ada"])
        time.sleep(0.2)
        assert list_requests(kits["bank"])[0].state == "waiting"
        assert not charges(tmp_path, "bank")
        approve(kits["bank"], request.job, by="Ben", key=keys["Ben"])

    outcomes = run_while(kits, deed)
    assert outcomes["bank"]["state"] == "finished"
    assert [text.split("approvers: ")[1] for text in refused] == [
        "Eve is not named there.",
        "Ada signs with another key. Give theirs.",
        "Ada signs with another key. Give theirs.",
    ]


def test_a_signature_of_another_kit_or_of_other_words_does_not_count(kits: Kits) -> None:
    decision = Decision("j1", "0" * 64, "a count", (), by="Ada", approved=True, party="bank")
    trust, one = kits["bank"].trust(), Approvers(1, ())
    signed = replace(decision, signature=by_kit(decision, kits["bank"]))
    assert vouched(signed, trust, one)
    assert not vouched(replace(signed, by="Eve"), trust, one)
    assert not vouched(decision, trust, one)
    other = replace(decision, signature=by_kit(decision, kits["shop"]))
    assert not vouched(other, trust, one)
    stranger = Root.make().issue("bank")
    value = stranger.sign(b"colonnade approval" + decision.statement).hex()
    certificate = base64.b64encode(stranger.to_bytes()).decode()
    forged = replace(decision, signature=(("certificate", certificate), ("value", value)))
    assert not vouched(forged, trust, one)


def test_a_policy_that_nobody_could_meet_is_refused_where_it_stands() -> None:
    key = "0" * 64
    for lines, kind, found in (
        ('approvers = {Ada = "00"}', OutOfRange, "people are named and nobody is asked"),
        ('approval = "ask"\napprovers = {Ada = "00"}', WrongType, "64 hexadecimal digits"),
        (f'approval = "two"\napprovers = {{Ada = "{key}"}}', OutOfRange, "2 of them must approve"),
        (f'approval = "ask"\napprovers = {{Ada = "{key}", Ben = "{key}"}}', OutOfRange, "have the same key"),
    ):
        with pytest.raises(kind, match=found):
            Policy.parse(f"{lines}\n{policy_text('bank')}")
