"""Members with their own kits, policies and ledgers over FLARE's own relay: results, refusals, a server that lies."""

from __future__ import annotations

import importlib
import json
import os
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import two_houses
from certificates import Root
from kits import make_kit
from relayed_jobs import breaking, houses, own_weights, part_of, run_job, unseeded
from two_houses import MEMBERS, MOMENTS, PARTIES, charges, in_process, job_text, policy_text, split

from colonnade.errors import PlanError
from colonnade.federation.files import LOG, OUTCOME
from colonnade.federation.holdout import kept_split
from colonnade.federation.job import parse_job
from colonnade.ledger import Ledger
from colonnade.models.release import MomentRelease
from colonnade.runtime.identity import SealedChannel
from colonnade.runtime.wire import decode
from colonnade.sites.kit import COORDINATOR, MAY, MEMBER, Kit

ROOT = Root.make()
Kits = dict[str, Kit]
SPLIT = split(2)


@pytest.fixture
def kits(tmp_path: Path) -> Kits:
    return houses(tmp_path, ROOT)


def finished(outcomes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    assert [outcome["state"] for outcome in outcomes.values()] == ["finished"] * len(MEMBERS), outcomes
    return outcomes


def accept(folder: Path, **change: Any) -> None:
    for party in PARTIES:
        (folder / f"{party}.policy.toml").write_text(policy_text(party, **change))


def both(*relays: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda message: [relay(message) for relay in relays][-1]


def test_moments_are_bit_for_bit_those_of_one_process(
    kits: Kits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    outcomes = finished(run_job(kits, relay=relay))
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


def test_a_split_model_is_bit_for_bit_that_of_one_process_and_stays_split(kits: Kits) -> None:
    outcomes = run_job(kits, texts=dict.fromkeys(MEMBERS, job_text(SPLIT)))
    whole = in_process(SPLIT).runs[0]
    for party in PARTIES:
        assert own_weights(kits[party], party, "j1") == part_of(SPLIT, whole, party)
        assert outcomes[party]["model_facts"]["coefficients"] == []
    assert outcomes["server"]["model_facts"]["split"]
    assert not (kits["server"].run_folder("j1") / "parties").exists()


MANY = 500


def facts_of(kit: Kit) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((kit.run_folder("j1") / "facts.json").read_text())
    return facts


def costs_what_was_stated(folder: Path, facts: dict[str, Any]) -> None:
    """Both parts were charged, and no total is above what the run states."""
    stated = {(item["observer"], item["unit"]): item["epsilon"] for item in facts["guarantees"]}
    for party in PARTIES:
        ledger = Ledger.open(folder / f"{party}.ledger")
        charged = [
            entry.body["release"]["part"]["name"] for entry in ledger.entries() if entry.kind == "charge"
        ]
        assert charged == ["training", "held-out"]
        for total in ledger.totals():
            if (total.observer, total.unit) in stated:
                assert total.epsilon == pytest.approx(stated[total.observer, total.unit])


def test_members_cut_alike_and_judge_at_no_more_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_houses, "ROWS", MANY)
    kits = houses(tmp_path, ROOT)
    # Of two labels the model of the first is judged.
    two_houses.give_bank_two_labels(tmp_path)
    finished(run_job(kits, texts=dict.fromkeys(MEMBERS, job_text(epsilon=4.0) + "held_out = 0.5\n")))
    found = [facts_of(kits[name]) for name in MEMBERS]
    for facts in found:
        assert facts["evaluated"]["people"] + facts["rows"] == MANY
        assert facts["evaluated"]["figures"] == found[0]["evaluated"]["figures"]
        assert [one["model"] for one in facts["labels"]] == ["model.json", "model-2.json"]
    assert found[0]["evaluated"]["figures"]["AUC"]["noise"] > 0
    splits = [kept_split(tmp_path / f"{party}.ledger", "d") for party in PARTIES]
    assert splits[0] is not None and splits[0] == splits[1] and splits[0].share == 0.5
    costs_what_was_stated(tmp_path, found[0])


def test_a_network_is_judged_at_its_label_holder_alone_at_no_more_cost(kits: Kits, tmp_path: Path) -> None:
    accept(tmp_path, methods='["network"]', epsilon=99.0)
    kind = 'method = "network"\noptions = {embedding = 2, epochs = 1}\nheld_out = 0.4'
    finished(run_job(kits, texts=dict.fromkeys(MEMBERS, job_text(kind, epsilon=2.0))))
    for name in MEMBERS:
        facts = facts_of(kits[name])
        assert "evaluated" not in facts
        assert any("The network was evaluated on" in note for note in facts["notes"])
        assert "AUC" not in (kits[name].run_folder("j1") / "report.html").read_text()
    pages = {name: (kits[name].run_folder("j1") / "parties" / f"{name}.html").read_text() for name in PARTIES}
    assert "How good the network is" in pages["bank"] and "How good the network is" not in pages["shop"]
    costs_what_was_stated(tmp_path, facts)


def test_a_judgement_that_a_site_refuses_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_houses, "ROWS", MANY)
    kits = houses(tmp_path, ROOT)
    (tmp_path / "shop.policy.toml").write_text(policy_text("shop", more="alignments = {most = 1}"))
    finished(run_job(kits, texts=dict.fromkeys(MEMBERS, job_text(epsilon=4.0) + "held_out = 0.5\n")))
    for name in MEMBERS:
        facts = facts_of(kits[name])
        assert "evaluated" not in facts and facts["model_facts"]["coefficients"]
        assert any("was not evaluated on the people held out" in note for note in facts["notes"])
    assert [charges(tmp_path, party) for party in PARTIES] == [1, 1]


def failed(outcomes: dict[str, dict[str, Any]], tmp_path: Path, *, charged: bool = False) -> dict[str, str]:
    """Everybody failed, by name, and ledgers say what happened; returns the reasons."""
    assert {outcome["state"] for outcome in outcomes.values()} == {"failed"}
    if not charged:
        assert not [party for party in PARTIES if charges(tmp_path, party)]
    return {name: outcome["reason"] for name, outcome in outcomes.items()}


def test_no_site_begins_a_job_whose_model_cannot_be_judged(kits: Kits, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="weights stay with their parties"):
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
        ({"more": "rows = 61"}, "rows: there are at most 60 people in common"),
        ({"more": "alignments = {most = 0}"}, "alignments: ids of 'd' were compared 0 times"),
    ],
    ids=["method", "epsilon of an observer", "rows", "alignments"],
)
def test_what_a_policy_does_not_accept_is_refused_before_ids_are_compared_or_anything_is_charged(
    kits: Kits, tmp_path: Path, change: dict[str, Any], found: str
) -> None:
    (tmp_path / "bank.policy.toml").write_text(policy_text("bank", **change))
    passed: list[str] = []
    reasons = failed(run_job(kits, relay=noting(passed)), tmp_path)
    assert not compared(tmp_path, passed)
    assert re.search(found, reasons["bank"])
    assert "bank stopped: it cannot take part (PrivacyError)" in reasons["shop"]
    assert "bank stopped" in reasons["server"]


def test_a_budget_that_is_too_small_stops_all_before_any_is_charged(kits: Kits, tmp_path: Path) -> None:
    two_houses.write_party(tmp_path, "shop", budget=0.5)
    passed: list[str] = []
    reasons = failed(run_job(kits, relay=noting(passed)), tmp_path)
    assert not compared(tmp_path, passed)
    assert "costs ε" in reasons["shop"]
    assert "shop stopped: it cannot take part (BudgetExceeded)" in reasons["bank"]


def test_that_ids_were_compared_stays_in_the_ledgers_of_a_failed_run(kits: Kits, tmp_path: Path) -> None:
    passed: list[str] = []
    outcomes = run_job(kits, relay=both(noting(passed), breaking("receipts")))
    assert {outcome["state"] for outcome in outcomes.values()} == {"failed"}
    assert compared(tmp_path, passed) == list(PARTIES)
    (comparison,) = Ledger.open(tmp_path / "bank.ledger").comparisons()
    assert (comparison.dataset, comparison.partners) == ("d", ("shop",))


def test_a_policy_limits_how_often_ids_are_compared_by_runs(kits: Kits, tmp_path: Path) -> None:
    unseeded(kits)
    (tmp_path / "bank.policy.toml").write_text(policy_text("bank", more="alignments = {most = 1, days = 30}"))
    texts = dict.fromkeys(MEMBERS, job_text(SPLIT))
    run_job(kits, texts=texts, relay=breaking("residuals 1"))
    finished(run_job(kits, texts=texts, job_id="j2", resumes="j1"))
    assert len(Ledger.open(tmp_path / "bank.ledger").comparisons()) == 1
    passed: list[str] = []
    refused = run_job(kits, texts=texts, job_id="j3", relay=noting(passed))
    assert "alignments: ids of 'd' were compared 1 time" in refused["bank"]["reason"]
    assert not [step for step in passed if step in IDS]
    assert [charges(tmp_path, party) for party in PARTIES] == [1, 1]


THROUGH = 'alignment = ["auto", "server"]'


def fewer_people(tmp_path: Path, kits: Kits, *, seeded: bool = False) -> None:
    """The shop lacks one person, and nobody draws from a seed."""
    if not seeded:
        unseeded(kits)
    customers = tmp_path / "shop.csv"
    customers.write_text(customers.read_text().rpartition("\n")[0])


@pytest.mark.parametrize(
    ("shop", "seeded", "through"),
    [(THROUGH, False, True), ("", False, False), (THROUGH, True, False)],
    ids=["both", "one", "private data under seeded coins"],
)
def test_people_are_matched_through_the_server_where_every_policy_names_it_under_a_key_it_cannot_read(
    kits: Kits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shop: str, seeded: bool, through: bool
) -> None:
    fewer_people(tmp_path, kits, seeded=seeded)
    (tmp_path / "bank.policy.toml").write_text(policy_text("bank", more=THROUGH))
    (tmp_path / "shop.policy.toml").write_text(policy_text("shop", more=shop))
    passed: list[str] = []
    seen: list[bytes] = []
    keys: list[bytes] = []
    sent = SealedChannel.send

    async def send(channel: SealedChannel, to: str, step: str, frame: bytes) -> None:
        if step == "pseudonym key":
            keys.append(decode(frame)[1].fields["contribution"])
        await sent(channel, to, step, frame)

    def relay(message: Any) -> None:
        noting(passed)(message)
        seen.append(bytes(message.payload or b""))

    monkeypatch.setattr(SealedChannel, "send", send)
    finished(run_job(kits, relay=relay))
    assert ("pseudonyms" in passed, "pseudonym key" in passed) == (through, through)
    assert through or "twice blinded ids" in passed
    # Relayed as it is, whoever relays it would have everybody's key.
    relayed = b"".join(seen)
    assert len(keys) == 2 * through and b"CLSE" in relayed
    assert not [key for key in keys if key in relayed or key.hex().encode() in relayed]
    for party in PARTIES:
        (comparison,) = Ledger.open(tmp_path / f"{party}.ledger").comparisons()
        assert comparison.through == ("server" if through else "")
        assert MomentRelease.load(kits[party].run_folder("j1") / "release.npz").rows == two_houses.ROWS - 1


def test_records_of_runs_that_nobody_went_on_with_end_in_time(kits: Kits, tmp_path: Path) -> None:
    fewer_people(tmp_path, kits)
    accept(tmp_path, more=THROUGH)
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


def test_a_policy_limits_how_many_ids_another_party_shows(kits: Kits, tmp_path: Path) -> None:
    fewer_people(tmp_path, kits)
    accept(tmp_path, more=f"{THROUGH}\nmost_ids = {two_houses.ROWS - 1}")
    passed: list[str] = []
    reasons = failed(run_job(kits, relay=noting(passed)), tmp_path)
    assert f"most_ids: bank shows {two_houses.ROWS} ids" in reasons["shop"]
    assert "pseudonyms" not in passed


def test_a_server_that_hands_out_two_jobs_is_caught_by_name_of_the_field(kits: Kits, tmp_path: Path) -> None:
    texts = {**dict.fromkeys(MEMBERS, job_text()), "shop": job_text(epsilon=2.0)}
    reasons = failed(run_job(kits, texts=texts), tmp_path)
    assert "do not agree on 'epsilon'" in reasons["bank"]


def test_a_server_that_alters_a_frame_is_caught(kits: Kits, tmp_path: Path) -> None:
    def relay(message: Any) -> None:
        if message.get_header("step") == "introduction":
            changed = bytearray(message.payload)
            changed[-1] ^= 1
            message.payload = bytes(changed)

    reasons = failed(run_job(kits, relay=relay), tmp_path)
    assert any("is not what" in reason and "'introduction'" in reason for reason in reasons.values())


def test_a_server_that_only_says_it_delivered_is_noticed_at_the_timeout(kits: Kits, tmp_path: Path) -> None:
    from nvflare.fuel.f3.cellnet.defs import ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply

    def relay(message: Any) -> Any:
        dropped = message.get_header("step") == "id rules" and message.get_header("of")
        return make_reply(ReturnCode.OK) if dropped else None

    texts = dict.fromkeys(MEMBERS, job_text(timeout=3))
    reasons = failed(run_job(kits, texts=texts, relay=relay), tmp_path)
    assert any("waited 3 s at step 'id rules'" in reason for reason in reasons.values())


def test_a_party_with_a_certificate_of_another_root_is_refused(kits: Kits, tmp_path: Path) -> None:
    wrong = make_kit(tmp_path / "wrong", ROOT, "shop", identity=Root.make().issue("shop"))
    wrong.tell_site(kits["shop"].site())
    reasons = failed(run_job({**kits, "shop": wrong}), tmp_path)
    assert "not issued by this federation's root" in reasons["bank"] + reasons["shop"]


def test_a_pinned_party_cannot_be_replaced_by_the_holder_of_the_root(kits: Kits, tmp_path: Path) -> None:
    from colonnade.runtime.identity import fingerprint

    pin = fingerprint(kits["shop"].identity().certificate)
    kits["bank"].tell_site({**kits["bank"].site(), "pins": {"shop": pin}})
    assert run_job(kits)["bank"]["state"] == "finished"
    second = make_kit(tmp_path / "second", ROOT, "shop")
    second.tell_site(kits["shop"].site())
    outcomes = run_job({**kits, "shop": second}, job_id="j2")
    assert "pinned for 'shop'" in outcomes["bank"]["reason"]


@pytest.mark.parametrize(("step", "seeded"), [("receipts", False), ("scores 0", True), ("closing", True)])
def test_a_split_model_goes_on_charged_once(kits: Kits, tmp_path: Path, step: str, seeded: bool) -> None:
    if not seeded:
        unseeded(kits)
    texts = dict.fromkeys(MEMBERS, job_text(SPLIT))
    stopped = run_job(kits, texts=texts, relay=breaking(step))
    assert {outcome["state"] for outcome in stopped.values()} == {"failed"}
    assert any(f"'{step}'" in outcome["reason"] for outcome in stopped.values())
    ended = finished(run_job(kits, texts=texts, job_id="j2", resumes="j1"))
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
    kits: Kits, tmp_path: Path, method: str, options: str, step: str
) -> None:
    unseeded(kits)
    accept(tmp_path, methods=f'["{method}"]', epsilon=99.0)
    texts = dict.fromkeys(MEMBERS, job_text(f'method = "{method}"\noptions = {{{options}}}', epsilon=2.0))
    stopped = run_job(kits, texts=texts, relay=breaking(step))
    assert {outcome["state"] for outcome in stopped.values()} == {"failed"}
    ended = finished(run_job(kits, texts=texts, job_id="j2", resumes="j1"))
    for party in PARTIES:
        assert charges(tmp_path, party) == 1 and ended[party]["reproducible"] is False


@pytest.mark.parametrize(
    ("how", "step"), [("curve", "twice blinded ids"), ("server", "people, twice blinded")]
)
def test_a_short_run_goes_on_while_it_matches(kits: Kits, tmp_path: Path, how: str, step: str) -> None:
    unseeded(kits)
    accept(tmp_path, more=f'alignment = ["{how}"]\nalignments = {{most = 1, days = 30}}')
    texts = dict.fromkeys(MEMBERS, job_text(f'method = "moments"\nalignment = "{how}"'))
    first: list[Any] = []
    again: list[Any] = []
    stopped = run_job(kits, texts=texts, relay=both(noting(first), breaking(step)))
    assert {outcome["state"] for outcome in stopped.values()} == {"failed"}, stopped
    assert [charges(tmp_path, party) for party in PARTIES] == [0, 0]
    finished(run_job(kits, texts=texts, job_id="j2", resumes="j1", relay=noting(again)))
    assert "id rules" in first and "id rules" not in again, "what had arrived is not sent again"
    assert [charges(tmp_path, party) for party in PARTIES] == [1, 1]
    assert len(Ledger.open(tmp_path / "bank.ledger").comparisons()) == 1


def test_a_short_run_that_may_have_been_charged_is_not_resumed(kits: Kits, tmp_path: Path) -> None:
    run_job(kits, relay=breaking("columns 0"))
    spent = [charges(tmp_path, party) for party in PARTIES]
    reasons = failed(run_job(kits, job_id="j2", resumes="j1"), tmp_path, charged=True)
    assert "holds no record of a run that stopped" in reasons["bank"]
    assert [charges(tmp_path, party) for party in PARTIES] == spent


@pytest.mark.parametrize("member", ["server", "bank"])
def test_flare_reads_the_kits_as_they_are_meant(kits: Kits, member: str) -> None:
    """FLARE's own judges of classes and rights, without its processes; tests with those are studies."""
    from nvflare.apis.fl_exception import UnsafeComponentError
    from nvflare.apis.workspace import Workspace
    from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
    from nvflare.fuel.sec.authz import Authorizer, AuthzContext, Person

    kits[member].harden()
    judge, workspace = ComponentPathAuthorizer(), Workspace(str(kits[member].path))
    own = COORDINATOR if member == "server" else MEMBER
    judge.authorize_component_config({"path": own}, workspace=workspace)
    for foreign in ("subprocess.Popen", "os.system", f"{own}s", "colonnade.cli.app.run", "nvflare.app.X"):
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


def context_of(kit: Kit, member: str) -> Any:
    """As much of FLARE as a member asks before its job is read."""
    said = {"get_root_dir": str(kit.path), "get_job_id": "j1", "get_identity_name": member}
    made = SimpleNamespace(**{name: partial(str, value) for name, value in said.items()})
    made.get_engine = made.get_workspace = lambda: made
    return made


@pytest.mark.parametrize(
    "text", [job_text().replace("epsilon = 1.0", "epsilon = nan"), 'scores = "../../etc"\n']
)
def test_a_job_that_cannot_be_read_ends_with_an_outcome(kits: Kits, text: str) -> None:
    # By its path, as FLARE finds it: nothing imports an entry.
    remote = importlib.import_module("colonnade.sites.remote")
    member = remote.Member(text)
    member.handle_event("_start_run", context_of(kits["bank"], "bank"))
    outcome = json.loads((kits["bank"].run_folder("j1") / OUTCOME).read_text())
    assert (outcome["state"], outcome["step"]) == ("failed", "reading the job")
    assert "the submitted job" in outcome["reason"] and "Traceback" not in outcome["reason"]
    coordinator, panics = remote.Coordinator(text), []
    coordinator.system_panic = lambda reason, context: panics.append(reason)
    coordinator.start_controller(context_of(kits["server"], "server"))
    coordinator.control_flow(None, context_of(kits["server"], "server"))
    assert panics == ["the submitted job cannot be read. Every member's own outcome says why."]
    assert (kits["server"].run_folder("j1") / OUTCOME).exists()
