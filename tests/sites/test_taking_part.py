"""Members with their own kits, policies and ledgers over FLARE's own relay: results, refusals, a server that lies."""

from __future__ import annotations

import importlib
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import two_houses
from certificates import Root
from kits import make_kit
from relayed_jobs import breaking, houses, own_weights, part_of, run_job, unseeded
from two_houses import (
    MEMBERS,
    MOMENTS,
    PARTIES,
    charges,
    in_process,
    job_text,
    policy_text,
    split,
    write_party,
)

from colonnade.errors import PlanError
from colonnade.federation.holdout import LOG, OUTCOME
from colonnade.federation.job import parse_job
from colonnade.ledger import Ledger
from colonnade.models.release import MomentRelease
from colonnade.runtime.identity import SealedChannel
from colonnade.runtime.wire import decode
from colonnade.sites.kit import COORDINATOR, MAY, MEMBER, Kit

ROOT = Root.make()
SPLIT = split(2)


@pytest.fixture
def kits(tmp_path: Path) -> dict[str, Kit]:
    return houses(tmp_path, ROOT)


def test_moments_are_bit_for_bit_those_of_one_process(
    kits: dict[str, Kit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    notify: list[tuple[str, str, bytes]] = []
    sent = SealedChannel.send

    async def send(channel: SealedChannel, to: str, step: str, frame: bytes) -> None:
        notify.append((to, step, bytes(frame)))
        await sent(channel, to, step, frame)

    def relay(message: Any) -> None:
        seen.append(bytes(message.payload or b""))

    monkeypatch.setattr(SealedChannel, "send", send)
    outcomes = run_job(kits, relay=relay)
    assert {name: outcome["state"] for name, outcome in outcomes.items()} == dict.fromkeys(
        MEMBERS, "finished"
    )
    run = in_process(MOMENTS).runs[0]
    for member in MEMBERS:
        kept = MomentRelease.load(kits[member].run_folder("j1") / "release.npz")
        assert np.array_equal(kept.matrix, run.result().matrix)
        assert outcomes[member]["run"] == run.name
        assert outcomes[member]["reproducible"]
    assert outcomes["bank"]["guarantees"] == [str(line) for line in run.plan.guarantees]
    # What the server relayed is all sealed: no frame of ours, no name of a column, is in it.
    passed = b"".join(seen)
    assert b"CLSE" in passed
    assert b"bank_0" not in passed
    clear = [frame for frame in seen if b"CLND" in frame and b"sealed hello" not in frame]
    assert not clear
    # Nor is the end of any frame, where shares and masks lie, of those that parties sent each other or the server.
    assert {"columns 0", "noise", "moments"} <= {step for _, step, _ in notify}
    ends = {frame[-24:] for _, _, frame in notify if len(frame) >= 24}
    assert len(ends) > 20 and not [end for end in ends if end in passed]
    for party in PARTIES:
        assert charges(tmp_path, party) == 1
        lines = [json.loads(line) for line in (kits[party].run_folder("j1") / LOG).read_text().splitlines()]
        assert [line["step"] for line in lines][:2] == ["sealed hello", "hello"]
        assert all(set(line) >= {"step", "sent", "received", "seconds"} for line in lines)
        assert json.loads((kits[party].run_folder("j1") / OUTCOME).read_text())["state"] == "finished"


def test_a_split_model_is_bit_for_bit_that_of_one_process_and_stays_split(kits: dict[str, Kit]) -> None:
    outcomes = run_job(kits, texts=dict.fromkeys(MEMBERS, job_text(SPLIT)))
    whole = in_process(SPLIT).runs[0]
    for party in PARTIES:
        assert own_weights(kits[party], party, "j1") == part_of(SPLIT, whole, party)
        assert outcomes[party]["learnt"]["coefficients"] == []
    assert outcomes["server"]["learnt"]["split"]
    assert not (kits["server"].run_folder("j1") / "parties").exists()


MANY = 500


@pytest.mark.parametrize(("task", "figure"), [("classification", "AUC"), ("regression", "RMSE")])
def test_what_was_trained_is_judged_at_every_site_and_costs_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, figure: str
) -> None:
    monkeypatch.setattr(two_houses, "ROWS", MANY)
    kits = houses(tmp_path, ROOT)
    text = job_text(epsilon=4.0).replace("classification", task) + "held_out = 0.5\n"
    if task == "regression":
        declared, rows = tmp_path / "bank.schema.toml", tmp_path / "bank.csv"
        number = 'kind = "real", low = 0, high = 10'
        declared.write_text(
            declared.read_text().replace('kind = "classes", classes = ["low", "high"]', number)
        )
        rows.write_text(rows.read_text().replace("low", "3.5").replace("high", "6"))
    outcomes = run_job(kits, texts=dict.fromkeys(MEMBERS, text))
    assert {outcome["state"] for outcome in outcomes.values()} == {"finished"}, outcomes
    found = [json.loads((kits[name].run_folder("j1") / "facts.json").read_text()) for name in MEMBERS]
    evaluated = [facts["evaluated"] for facts in found]
    assert evaluated[0]["people"] + found[0]["rows"] == MANY
    assert evaluated[0]["figures"] == evaluated[1]["figures"] == evaluated[2]["figures"]
    assert evaluated[0]["figures"][figure]["noise"] > 0
    stated = {(item["observer"], item["unit"]): item["epsilon"] for item in found[0]["guarantees"]}
    for party in PARTIES:
        assert charges(tmp_path, party) == 2
        for total in Ledger.open(tmp_path / f"{party}.ledger").totals():
            if (total.observer, total.unit) in stated:
                assert total.epsilon == pytest.approx(stated[total.observer, total.unit])


def test_a_network_is_judged_at_its_label_holder_alone_and_costs_nothing_more(
    kits: dict[str, Kit], tmp_path: Path
) -> None:
    for party in PARTIES:
        accepted = policy_text(party, methods='["network"]', epsilon=99.0)
        (tmp_path / f"{party}.policy.toml").write_text(accepted)
    kind = 'method = "network"\noptions = {embedding = 2, epochs = 1}\nheld_out = 0.4'
    outcomes = run_job(kits, texts=dict.fromkeys(MEMBERS, job_text(kind, epsilon=2.0)))
    assert {outcome["state"] for outcome in outcomes.values()} == {"finished"}, outcomes
    for name in MEMBERS:
        folder = kits[name].run_folder("j1")
        facts = json.loads((folder / "facts.json").read_text())
        assert "evaluated" not in facts and any(
            "The network was judged on" in note for note in facts["notes"]
        )
        assert "AUC" not in (folder / "report.html").read_text()
    pages = {name: (kits[name].run_folder("j1") / "parties" / f"{name}.html").read_text() for name in PARTIES}
    assert "How good the network is" in pages["bank"] and "How good the network is" not in pages["shop"]
    stated = {(item["observer"], item["unit"]): item["epsilon"] for item in facts["guarantees"]}
    for party in PARTIES:
        assert charges(tmp_path, party) == 2
        for total in Ledger.open(tmp_path / f"{party}.ledger").totals():
            assert total.epsilon == pytest.approx(stated[total.observer, total.unit])


def test_a_judgement_that_one_site_refuses_leaves_the_model_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first alignment was the last that this party's policy accepts."""
    monkeypatch.setattr(two_houses, "ROWS", MANY)
    kits = houses(tmp_path, ROOT)
    (tmp_path / "shop.policy.toml").write_text(policy_text("shop", more="alignments = {most = 1}"))
    text = job_text(epsilon=4.0) + "held_out = 0.5\n"
    outcomes = run_job(kits, texts=dict.fromkeys(MEMBERS, text))
    assert {outcome["state"] for outcome in outcomes.values()} == {"finished"}, outcomes
    for name in MEMBERS:
        facts = json.loads((kits[name].run_folder("j1") / "facts.json").read_text())
        assert "evaluated" not in facts and facts["learnt"]["coefficients"]
        assert any("was not judged on the people held out" in note for note in facts["notes"])
    assert [charges(tmp_path, party) for party in PARTIES] == [1, 1]


def failed(outcomes: dict[str, dict[str, Any]], tmp_path: Path, *, charged: bool = False) -> dict[str, str]:
    """Everybody failed, by name, and ledgers say what happened; returns the reasons."""
    assert {outcome["state"] for outcome in outcomes.values()} == {"failed"}
    if not charged:
        assert not [party for party in PARTIES if charges(tmp_path, party)]
    return {name: outcome["reason"] for name, outcome in outcomes.items()}


def test_no_site_begins_a_job_that_holds_people_out_for_a_model_that_cannot_be_judged(
    kits: dict[str, Kit], tmp_path: Path
) -> None:
    """Neither where weights stay apart, nor where a computing party reads no model: nothing is charged, no ids
    are compared.
    """
    with pytest.raises(PlanError, match="its weights stay with their parties"):
        parse_job(f"held_out = 0.5\n{job_text(SPLIT)}")
    passed: list[str] = []
    text = f'held_out = 0.5\ncomputing_parties = ["bank", "shop", "notary"]\n{job_text()}'
    reasons = failed(run_job(kits, texts=dict.fromkeys(MEMBERS, text), relay=noting(passed)), tmp_path)
    assert all(
        "computing parties without columns (notary) do not read the model" in reasons[party]
        for party in PARTIES
    )
    assert not set(passed) & set(IDS)


def noting(passed: list[str]) -> Callable[[Any], None]:
    def relay(message: Any) -> None:
        passed.append(str(message.get_header("step")))

    return relay


# Steps whose frames are made of ids.
IDS = ("set sizes", "blinded ids", "twice blinded ids", "common places")


def compared(tmp_path: Path, passed: list[str]) -> list[str]:
    """Whose ledgers say that ids were compared; none of them does unless something made of ids came by."""
    books = {party: tmp_path / f"{party}.ledger" for party in PARTIES}
    found = [party for party, path in books.items() if path.exists() and Ledger.open(path).comparisons()]
    assert bool(found) == bool([step for step in passed if step in IDS])
    return found


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"methods": '["slr"]'}, "methods: the job asks for 'moments'"),
        ({"epsilon": 1.2}, r"would cost ε = 1.\d+ towards party:shop"),
        ({"more": 'alignment = ["equal"]'}, "alignment: the job asks for 'auto'"),
        (
            {"more": "rows = 61"},
            "rows: there are at most 60 people in common, and the fewest accepted are 61",
        ),
        ({"more": "alignments = {most = 0}"}, "alignments: ids of 'd' were compared 0 times"),
    ],
    ids=["method", "epsilon of an observer", "alignment", "rows", "alignments"],
)
def test_what_a_policy_does_not_accept_is_refused_before_ids_are_compared_or_anything_is_charged(
    kits: dict[str, Kit], tmp_path: Path, change: dict[str, Any], found: str
) -> None:
    (tmp_path / "bank.policy.toml").write_text(policy_text("bank", **change))
    passed: list[str] = []
    reasons = failed(run_job(kits, relay=noting(passed)), tmp_path)
    assert not compared(tmp_path, passed)
    assert re.search(found, reasons["bank"])
    assert "bank stopped: it cannot take part (PrivacyError)" in reasons["shop"]
    assert "bank stopped" in reasons["server"]


def test_a_budget_that_is_too_small_stops_everybody_before_anybody_is_charged(
    kits: dict[str, Kit], tmp_path: Path
) -> None:
    write_party(tmp_path, "shop", budget=0.5)
    passed: list[str] = []
    reasons = failed(run_job(kits, relay=noting(passed)), tmp_path)
    assert not compared(tmp_path, passed)
    assert "costs ε" in reasons["shop"]
    assert "shop stopped: it cannot take part (BudgetExceeded)" in reasons["bank"]


@pytest.mark.parametrize("step", ["plan", "receipts"])
def test_that_ids_were_compared_stays_in_the_ledgers_of_a_run_that_failed_afterwards(
    kits: dict[str, Kit], tmp_path: Path, step: str
) -> None:
    passed: list[str] = []

    def relay(message: Any) -> Any:
        noting(passed)(message)
        return breaking(step)(message)

    outcomes = run_job(kits, relay=relay)
    assert {outcome["state"] for outcome in outcomes.values()} == {"failed"}
    assert compared(tmp_path, passed) == list(PARTIES)
    (comparison,) = Ledger.open(tmp_path / "bank.ledger").comparisons()
    assert (comparison.dataset, comparison.partners) == ("d", ("shop",))


def test_a_policy_limits_how_often_ids_are_compared_and_a_run_that_goes_on_is_the_same_comparison(
    kits: dict[str, Kit], tmp_path: Path
) -> None:
    unseeded(kits)
    (tmp_path / "bank.policy.toml").write_text(policy_text("bank", more="alignments = {most = 1, days = 30}"))
    texts = dict.fromkeys(MEMBERS, job_text(SPLIT))
    run_job(kits, texts=texts, relay=breaking("residuals 1"))
    ended = run_job(kits, texts=texts, job_id="j2", resumes="j1")
    assert {outcome["state"] for outcome in ended.values()} == {"finished"}, ended
    assert len(Ledger.open(tmp_path / "bank.ledger").comparisons()) == 1
    passed: list[str] = []
    refused = run_job(kits, texts=texts, job_id="j3", relay=noting(passed))
    assert (
        "alignments: ids of 'd' were compared 1 time, and accepted is at most 1 time in 30 days"
        in (refused["bank"]["reason"])
    )
    assert not [step for step in passed if step in IDS]
    assert [charges(tmp_path, party) for party in PARTIES] == [1, 1]


THROUGH = 'alignment = ["auto", "server"]'


def fewer_people(tmp_path: Path, kits: dict[str, Kit]) -> None:
    """The shop lacks one person, and nobody draws from a seed."""
    unseeded(kits)
    customers = tmp_path / "shop.csv"
    customers.write_text(customers.read_text().rpartition("\n")[0])


@pytest.mark.parametrize(
    ("bank", "shop", "through"),
    [
        (THROUGH, THROUGH, True),
        (THROUGH, "", False),
        (THROUGH, 'alignment = ["auto"]', False),
    ],
    ids=["both", "one", "the other from before"],
)
def test_people_are_matched_through_the_server_where_every_policy_names_it(
    kits: dict[str, Kit], tmp_path: Path, bank: str, shop: str, through: bool
) -> None:
    fewer_people(tmp_path, kits)
    (tmp_path / "bank.policy.toml").write_text(policy_text("bank", more=bank))
    (tmp_path / "shop.policy.toml").write_text(policy_text("shop", more=shop))
    passed: list[str] = []
    outcomes = run_job(kits, relay=noting(passed))
    assert {name: outcome.get("reason", "") for name, outcome in outcomes.items()} == dict.fromkeys(
        MEMBERS, ""
    )
    assert ("pseudonyms" in passed, "pseudonym key" in passed) == (through, through)
    for party in PARTIES:
        (comparison,) = Ledger.open(tmp_path / f"{party}.ledger").comparisons()
        assert comparison.through == ("server" if through else "")
        assert MomentRelease.load(kits[party].run_folder("j1") / "release.npz").rows == two_houses.ROWS - 1


def test_seeded_coins_of_private_data_are_matched_on_a_curve(kits: dict[str, Kit], tmp_path: Path) -> None:
    customers = tmp_path / "shop.csv"
    customers.write_text(customers.read_text().rpartition("\n")[0])
    for party in PARTIES:
        (tmp_path / f"{party}.policy.toml").write_text(policy_text(party, more=THROUGH))
    passed: list[str] = []
    outcomes = run_job(kits, relay=noting(passed))
    assert {outcome["state"] for outcome in outcomes.values()} == {"finished"}
    assert "twice blinded ids" in passed and "pseudonyms" not in passed


def test_the_key_of_pseudonyms_passes_the_server_sealed(
    kits: dict[str, Kit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relayed as it is, whoever relays it has everybody's key."""
    fewer_people(tmp_path, kits)
    for party in PARTIES:
        (tmp_path / f"{party}.policy.toml").write_text(policy_text(party, more=THROUGH))
    seen: list[bytes] = []
    keys: list[bytes] = []
    sent = SealedChannel.send

    async def send(channel: SealedChannel, to: str, step: str, frame: bytes) -> None:
        if step == "pseudonym key":
            keys.append(decode(frame)[1].fields["contribution"])
        await sent(channel, to, step, frame)

    def relay(message: Any) -> None:
        seen.append(bytes(message.payload or b""))

    monkeypatch.setattr(SealedChannel, "send", send)
    outcomes = run_job(kits, relay=relay)
    assert {outcome["state"] for outcome in outcomes.values()} == {"finished"}
    passed = b"".join(seen)
    assert len(keys) == 2 and b"CLSE" in passed
    assert not [key for key in keys if key in passed or key.hex().encode() in passed]


def test_records_of_runs_that_nobody_went_on_with_end_when_their_days_are_over(
    kits: dict[str, Kit], tmp_path: Path
) -> None:
    """Keys and lists of ids are in them, the server's too."""
    fewer_people(tmp_path, kits)
    for party in PARTIES:
        (tmp_path / f"{party}.policy.toml").write_text(policy_text(party, more=THROUGH))
    run_job(kits, relay=breaking("people, twice blinded"))
    records = {name: kits[name].run_folder("j1") / "journal" for name in MEMBERS}
    assert all(b"pseudonyms" in (record / "frames").read_bytes() for record in records.values())
    run_job(kits, job_id="j2", relay=breaking("people, twice blinded"))
    assert all(record.exists() for record in records.values())
    ago = time.time() - 31 * 24 * 3600
    for name in MEMBERS:
        os.utime(kits[name].run_folder("j1") / OUTCOME, (ago, ago))
    run_job(kits, job_id="j3")
    assert not [name for name, record in records.items() if record.exists()]
    assert all((kits[name].run_folder("j2") / "journal").exists() for name in MEMBERS)


def test_a_policy_limits_how_many_ids_another_party_shows(kits: dict[str, Kit], tmp_path: Path) -> None:
    fewer_people(tmp_path, kits)
    for party in PARTIES:
        more = f"{THROUGH}\nmost_ids = {two_houses.ROWS - 1}"
        (tmp_path / f"{party}.policy.toml").write_text(policy_text(party, more=more))
    passed: list[str] = []
    reasons = failed(run_job(kits, relay=noting(passed)), tmp_path)
    assert f"most_ids: bank shows {two_houses.ROWS} ids" in reasons["shop"]
    assert "pseudonyms" not in passed


def test_a_server_that_hands_out_two_jobs_is_caught_by_name_of_the_field(
    kits: dict[str, Kit], tmp_path: Path
) -> None:
    texts = {**dict.fromkeys(MEMBERS, job_text()), "shop": job_text(epsilon=2.0)}
    reasons = failed(run_job(kits, texts=texts), tmp_path)
    assert "do not agree on 'epsilon'" in reasons["bank"]


def test_a_server_that_alters_a_frame_is_caught(kits: dict[str, Kit], tmp_path: Path) -> None:
    def relay(message: Any) -> None:
        if message.get_header("step") == "introduction":
            changed = bytearray(message.payload)
            changed[-1] ^= 1
            message.payload = bytes(changed)

    reasons = failed(run_job(kits, relay=relay), tmp_path)
    assert any("is not what" in reason and "'introduction'" in reason for reason in reasons.values())


def test_a_server_that_says_it_delivered_and_did_not_is_noticed_at_the_timeout(
    kits: dict[str, Kit], tmp_path: Path
) -> None:
    from nvflare.fuel.f3.cellnet.defs import ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply

    def relay(message: Any) -> Any:
        dropped = message.get_header("step") == "id rules" and message.get_header("of")
        return make_reply(ReturnCode.OK) if dropped else None

    texts = dict.fromkeys(MEMBERS, job_text(timeout=3))
    reasons = failed(run_job(kits, texts=texts, relay=relay), tmp_path)
    assert any("waited 3 s at step 'id rules'" in reason for reason in reasons.values())


def test_a_party_with_a_certificate_of_another_root_is_refused(kits: dict[str, Kit], tmp_path: Path) -> None:
    wrong = make_kit(tmp_path / "wrong", ROOT, "shop", identity=Root.make().issue("shop"))
    wrong.tell_site(kits["shop"].site())
    reasons = failed(run_job({**kits, "shop": wrong}), tmp_path)
    assert "not issued by this federation's root" in reasons["bank"] + reasons["shop"]


def test_a_pinned_party_cannot_be_replaced_by_the_holder_of_the_root(
    kits: dict[str, Kit], tmp_path: Path
) -> None:
    from colonnade.runtime.identity import fingerprint

    pin = fingerprint(kits["shop"].identity().certificate)
    kits["bank"].tell_site({**kits["bank"].site(), "pins": {"shop": pin}})
    assert run_job(kits)["bank"]["state"] == "finished"
    second = make_kit(tmp_path / "second", ROOT, "shop")
    second.tell_site(kits["shop"].site())
    outcomes = run_job({**kits, "shop": second}, job_id="j2")
    assert "pinned for 'shop'" in outcomes["bank"]["reason"]


@pytest.mark.parametrize(
    ("step", "seeded"),
    [("receipts", False), ("scores 0", True), ("closing", True)],
)
def test_a_split_model_goes_on_where_it_stopped_and_is_charged_once(
    kits: dict[str, Kit], tmp_path: Path, step: str, seeded: bool
) -> None:
    if not seeded:
        unseeded(kits)
    texts = dict.fromkeys(MEMBERS, job_text(SPLIT))
    stopped = run_job(kits, texts=texts, relay=breaking(step))
    assert {outcome["state"] for outcome in stopped.values()} == {"failed"}
    assert any(f"'{step}'" in outcome["reason"] for outcome in stopped.values())
    ended = run_job(kits, texts=texts, job_id="j2", resumes="j1")
    assert {outcome["state"] for outcome in ended.values()} == {"finished"}, ended
    for party in PARTIES:
        assert charges(tmp_path, party) == 1
        assert ended[party]["reproducible"] is seeded
        assert not (kits[party].run_folder("j1") / "journal").exists()
        if seeded:
            assert own_weights(kits[party], party, "j2") == part_of(SPLIT, in_process(SPLIT).runs[0], party)
    again = run_job(kits, texts=texts, job_id="j3", resumes="j1")
    assert "no record of a run that stopped" in again["bank"]["reason"]


@pytest.mark.parametrize(
    ("method", "options", "step"),
    [
        ("encrypted", "epochs = 1", "batch 0 asked"),
        ("network", "embedding = 2, epochs = 2", "finished"),
        ("margin", "steps = 2", "waves 1.0"),
    ],
)
def test_every_protocol_of_many_steps_goes_on_with_coins_of_its_own(
    kits: dict[str, Kit], tmp_path: Path, method: str, options: str, step: str
) -> None:
    unseeded(kits)
    for party in PARTIES:
        accepted = policy_text(party, methods=f'["{method}"]', epsilon=99.0)
        (tmp_path / f"{party}.policy.toml").write_text(accepted)
    texts = dict.fromkeys(MEMBERS, job_text(f'method = "{method}"\noptions = {{{options}}}', epsilon=2.0))
    stopped = run_job(kits, texts=texts, relay=breaking(step))
    assert {outcome["state"] for outcome in stopped.values()} == {"failed"}
    ended = run_job(kits, texts=texts, job_id="j2", resumes="j1")
    assert {name: outcome.get("reason", "") for name, outcome in ended.items()} == dict.fromkeys(MEMBERS, "")
    for party in PARTIES:
        assert charges(tmp_path, party) == 1 and ended[party]["reproducible"] is False


@pytest.mark.parametrize(
    ("how", "step"),
    [("curve", "twice blinded ids"), ("server", "people, twice blinded")],
)
def test_a_short_run_goes_on_as_long_as_it_matches_people(
    kits: dict[str, Kit], tmp_path: Path, how: str, step: str
) -> None:
    unseeded(kits)
    for party in PARTIES:
        (tmp_path / f"{party}.policy.toml").write_text(
            policy_text(party, more=f'alignment = ["{how}"]\nalignments = {{most = 1, days = 30}}')
        )
    texts = dict.fromkeys(MEMBERS, job_text(f'method = "moments"\nalignment = "{how}"'))
    first: list[Any] = []
    again: list[Any] = []
    stopped = run_job(kits, texts=texts, relay=both(noting(first), breaking(step)))
    assert {outcome["state"] for outcome in stopped.values()} == {"failed"}, stopped
    assert [charges(tmp_path, party) for party in PARTIES] == [0, 0]
    ended = run_job(kits, texts=texts, job_id="j2", resumes="j1", relay=noting(again))
    assert {name: outcome.get("reason", "") for name, outcome in ended.items()} == dict.fromkeys(MEMBERS, "")
    assert "id rules" in first and "id rules" not in again, "what had arrived is not sent again"
    assert [charges(tmp_path, party) for party in PARTIES] == [1, 1]
    assert len(Ledger.open(tmp_path / "bank.ledger").comparisons()) == 1


def both(*relays: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def relay(message: Any) -> Any:
        return [each(message) for each in relays][-1]

    return relay


def test_a_short_run_that_may_have_been_charged_is_not_resumed(kits: dict[str, Kit], tmp_path: Path) -> None:
    run_job(kits, relay=breaking("columns 0"))
    spent = [charges(tmp_path, party) for party in PARTIES]
    reasons = failed(run_job(kits, job_id="j2", resumes="j1"), tmp_path, charged=True)
    assert "holds no record of a run that stopped" in reasons["bank"]
    assert [charges(tmp_path, party) for party in PARTIES] == spent


@pytest.mark.parametrize("member", ["server", "bank"])
def test_flare_reads_the_kits_as_they_are_meant(kits: dict[str, Kit], member: str) -> None:
    """FLARE's own judges of classes and rights, without its processes; tests with those are studies."""
    from nvflare.apis.fl_exception import UnsafeComponentError
    from nvflare.apis.workspace import Workspace
    from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
    from nvflare.fuel.sec.authz import Authorizer, AuthzContext, Person

    kits[member].harden()
    judge, workspace = ComponentPathAuthorizer(), Workspace(str(kits[member].path))
    own = COORDINATOR if member == "server" else MEMBER
    judge.authorize_component_config({"path": own}, workspace=workspace)
    for foreign in (
        "subprocess.Popen",
        "os.system",
        f"{own}s",
        "colonnade.cli.app.run",
        "nvflare.app_common.np.x.Y",
    ):
        with pytest.raises(UnsafeComponentError, match="is not in allow_list"):
            judge.authorize_component_config({"path": foreign}, workspace=workspace)
    resources = json.loads((kits[member].path / "local" / "resources.json").read_text())
    assert resources["allow_log_streaming"] is False
    kept = [item["id"] for item in resources["components"]]
    assert kept == ["job_manager", "colonnade_presence", "process_launcher"]
    rights = Authorizer("ours")
    assert not rights.load_policy(
        json.loads((kits[member].path / "local" / "authorization.json").read_text())
    )
    for role in ("project_admin", "org_admin", "lead", "member"):
        whoever = Person("admin", "ours", role)
        for right in ("byoc", "shell_commands", "clone_job"):
            assert not rights.authorize(AuthzContext(right, whoever, whoever))[0], (role, right)
    may = {"submit": {"submit_job", "manage_job", "view"}, "stop": {"manage_job", "view"}, "view": {"view"}}
    for what, wanted in may.items():
        whoever, another = Person("eve", "ours", MAY[what]), Person("admin", "ours", "lead")
        requested = ("submit_job", "manage_job", "view")
        assert {
            right for right in requested if rights.authorize(AuthzContext(right, whoever, another))[0]
        } == wanted


class _Workspace:
    """As much of FLARE as a member asks before its job is read."""

    def __init__(self, kit: Kit, member: str) -> None:
        self.kit, self.member = kit, member

    def get_engine(self) -> _Workspace:
        return self

    get_workspace = get_engine

    def get_root_dir(self) -> str:
        return str(self.kit.path)

    def get_job_id(self) -> str:
        return "j1"

    def get_identity_name(self) -> str:
        return self.member


@pytest.mark.parametrize(
    "text", [job_text().replace("epsilon = 1.0", "epsilon = nan"), "name = ", 'scores = "../../etc"\n']
)
def test_a_job_that_cannot_be_read_ends_with_an_outcome(kits: dict[str, Kit], text: str) -> None:
    # By its path, as FLARE finds it: nothing imports an entry.
    remote = importlib.import_module("colonnade.sites.remote")
    member = remote.Member(text)
    member.handle_event("_start_run", _Workspace(kits["bank"], "bank"))
    outcome = json.loads((kits["bank"].run_folder("j1") / OUTCOME).read_text())
    assert (outcome["state"], outcome["step"]) == ("failed", "reading the job")
    assert "the submitted job" in outcome["reason"] and "Traceback" not in outcome["reason"]
    coordinator, panics = remote.Coordinator(text), []
    coordinator.system_panic = lambda reason, context: panics.append(reason)
    coordinator.start_controller(_Workspace(kits["server"], "server"))
    coordinator.control_flow(None, _Workspace(kits["server"], "server"))
    assert panics == ["the submitted job cannot be read. Every member's own outcome says why."]
    assert (kits["server"].run_folder("j1") / OUTCOME).exists()
