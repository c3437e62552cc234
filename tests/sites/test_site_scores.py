"""Scores as a job between sites: right, at the receiver alone, and refused where policy, ledger or training say so."""

import csv
from pathlib import Path
from typing import Any

import pytest
from certificates import Root
from relayed_jobs import houses, run_job, unseeded
from two_houses import MEMBERS, PARTIES, job_text, policy_text, score_text, split, write_people

from colonnade.cli.app import run
from colonnade.errors import InputError, JobError
from colonnade.evaluation.predict import Stored, score_file
from colonnade.federation.job import ScoreJob, load_job, parse_job
from colonnade.ledger import Ledger
from colonnade.sites.kit import Kit

METHODS = (
    '["moments", "private-messages", "network", "exact-scores", "noisy-scores"]\nreceivers = ["bank", "shop"]'
)
TRAINED = {
    "released": 'method = "moments"',
    "split": split(2),
    "network": 'method = "network"\noptions = {embedding = 2, epochs = 2}',
}
NEW = 6
Trained = tuple[Path, dict[str, Kit]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Members that trained three models together, with the people to score beside their own files."""
    folder = tmp_path_factory.mktemp("sites")
    kits = houses(folder, Root.make())
    for party in PARTIES:
        (folder / f"{party}.policy.toml").write_text(policy_text(party, methods=METHODS, epsilon=99.0))
    for job_id, kind in TRAINED.items():
        outcomes = run_job(kits, texts=dict.fromkeys(MEMBERS, job_text(kind, epsilon=2.0)), job_id=job_id)
        assert {outcome["state"] for outcome in outcomes.values()} == {"finished"}, outcomes
    unseeded(kits)
    ids = [f"new{number}" for number in range(NEW)]
    for party in PARTIES:
        kits[party].tell_site({**kits[party].site(), "score": write_people(folder, party, ids)})
    return folder, kits


def ended(kits: dict[str, Kit], text: str, job_id: str) -> dict[str, Any]:
    return run_job(kits, texts=dict.fromkeys(MEMBERS, text), job_id=job_id)


def charges(folder: Path, party: str) -> list[dict[str, Any]]:
    entries = Ledger.open(folder / f"{party}.ledger").entries()
    return [entry.body["release"] for entry in entries if entry.kind == "charge"]


def scores_at(kit: Kit, job_id: str) -> dict[str, dict[str, str]]:
    (path,) = kit.run_folder(job_id).rglob("*.scores.csv")
    with path.open() as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_exact_scores_are_the_models_own_and_only_the_receiver_has_them(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, kits = trained
    outcomes = ended(kits, score_text("released", receiver="shop"), "exact")
    assert not any(outcome.get("reason") for outcome in outcomes.values()), outcomes
    rows = tmp_path / "rows.csv"
    lines = [f"new{place},0.{place},0.{9 - place},0.{place},0.{9 - place}" for place in range(NEW)]
    rows.write_text("\n".join(["id,bank_0,bank_1,shop_0,shop_1", *lines]))
    whole = Stored.load(kits["bank"].run_folder("released")).whole
    assert whole is not None
    expected = score_file(whole, rows, id_columns=("id",))
    found = scores_at(kits["shop"], "exact")
    for place, person in enumerate(expected.ids):
        for name, value in zip(expected.names, expected.values[place], strict=True):
            assert float(found[person][name]) == pytest.approx(value, abs=1e-5)
    for member in ("bank", "server"):
        assert not list(kits[member].run_folder("exact").rglob("*.csv"))
        assert "Only shop sees the scores" in outcomes[member]["statement"]
    assert charges(folder, "bank")[-1]["exact"] == NEW, "the disclosure is in the books"
    assert run(["show", str(kits["bank"].run_folder("exact"))]) == 0
    assert "Only shop sees the scores" in capsys.readouterr().out
    assert run(["report", str(kits["bank"].run_folder("exact"))]) == 3
    assert "a job for scores" in capsys.readouterr().err


def test_noisy_scores_are_charged(trained: Trained) -> None:
    folder, kits = trained
    outcomes = ended(kits, score_text("released", epsilon="3.0"), "noisy")
    assert not any(outcome.get("reason") for outcome in outcomes.values()), outcomes
    assert outcomes["shop"]["guarantees"] and len(scores_at(kits["bank"], "noisy")) == NEW
    assert charges(folder, "shop")[-1]["lines"], "what noisy scores tell is charged"


def test_a_network_scores_between_those_who_have_its_parts(trained: Trained) -> None:
    _, kits = trained
    outcomes = ended(kits, score_text("network"), "by-network")
    assert not any(outcome.get("reason") for outcome in outcomes.values()), outcomes
    found = scores_at(kits["bank"], "by-network")
    assert {row["predicted"] for row in found.values()} <= {"low", "high"} and len(found) == NEW
    refused = ended(kits, score_text("network", receiver="shop"), "wrong-receiver")
    assert "'bank' has the last layer" in refused["shop"]["reason"]


def test_scores_are_shown_to_nobody_whom_a_policy_does_not_name(trained: Trained) -> None:
    folder, kits = trained
    policy = folder / "shop.policy.toml"
    kept = policy.read_text()
    policy.write_text(policy_text("shop", methods='["exact-scores"]', epsilon=99.0))
    try:
        outcomes = ended(kits, score_text("released"), "no-receiver")
    finally:
        policy.write_text(kept)
    assert (
        'receivers: the job shows scores to bank, and accepted are shop. To accept it, write receivers = ["bank"]'
        in (outcomes["shop"]["reason"])
    )


@pytest.mark.parametrize(
    ("model", "change", "found"),
    [
        ("split", {}, "stay with their parties because they were made with exact values"),
        ("nothing", {}, "holds no finished run"),
        ("released", {"methods": '["moments", "noisy-scores"]'}, "the job asks for 'exact-scores'"),
    ],
    ids=["a model in parts", "no such run", "policy"],
)
def test_what_cannot_be_scored_is_refused_while_nothing_is_charged(
    trained: Trained, model: str, change: dict[str, Any], found: str
) -> None:
    folder, kits = trained
    before = [len(charges(folder, party)) for party in PARTIES]
    policy = folder / "bank.policy.toml"
    kept = policy.read_text()
    if change:
        policy.write_text(policy_text("bank", epsilon=99.0, **change))
    try:
        outcomes = ended(kits, score_text(model), f"refused-{model}-{len(change)}")
    finally:
        policy.write_text(kept)
    assert {outcome["state"] for outcome in outcomes.values()} == {"failed"}
    assert found in outcomes["bank"]["reason"]
    assert [len(charges(folder, party)) for party in PARTIES] == before


def test_people_trained_on_are_refused_by_whoever_remembers_them(trained: Trained, tmp_path: Path) -> None:
    folder, kits = trained
    before = [len(charges(folder, party)) for party in PARTIES]
    files = {party: kits[party].site()["score"] for party in PARTIES}
    try:
        for party in PARTIES:
            (tmp_path / f"{party}.ledger").write_bytes((folder / f"{party}.ledger").read_bytes())
            kits[party].tell_site(
                {**kits[party].site(), "score": write_people(tmp_path, party, ["p1", "new1", "new2"])}
            )
        outcomes = ended(kits, score_text("released"), "trained-on")
        assert "1 of the 3 people to score were trained on" in outcomes["bank"]["reason"]
        people = kits["shop"].run_folder("released") / "parties" / "shop.people.npz"
        hidden = people.rename(tmp_path / "people.npz")
        outcomes = ended(kits, score_text("released"), "forgotten")
        hidden.rename(people)
        assert "is not known here" in outcomes["shop"]["reason"]
    finally:
        for party in PARTIES:
            kits[party].tell_site({**kits[party].site(), "score": files[party]})
    assert [len(charges(folder, party)) for party in PARTIES] == before


def test_sites_that_mean_different_models_stop(trained: Trained) -> None:
    _, kits = trained
    texts = {**dict.fromkeys(MEMBERS, score_text("released")), "shop": score_text("network")}
    outcomes = run_job(kits, texts=texts, job_id="different")
    assert {outcome["state"] for outcome in outcomes.values()} == {"failed"}
    assert any("do not agree on" in outcome["reason"] for outcome in outcomes.values())


def test_a_site_that_was_not_told_whom_to_score_says_so(trained: Trained) -> None:
    _, kits = trained
    notify = kits["bank"].site()
    kits["bank"].tell_site({key: value for key, value in notify.items() if key != "score"})
    outcomes = ended(kits, score_text("released"), "untold")
    kits["bank"].tell_site(notify)
    assert "party start --score" in outcomes["bank"]["reason"]


def test_job_files_for_scores_are_checked_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "score.toml"
    path.write_text(score_text("released"))
    assert isinstance(load_job(path), ScoreJob)
    for text, found in (
        (score_text("released", receiver="shopp"), "receiver: found 'shopp'.*shop"),
        (score_text("released", epsilon="-1.0"), "greater than 0"),
        (score_text("released") + "colour = 1\n", "colour"),
    ):
        with pytest.raises((JobError, InputError), match=found):
            parse_job(text)
