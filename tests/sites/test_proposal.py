"""Four eyes for submission: what two administrators signed is checked by every party, once, and its ledger says who."""

import datetime
import json
from dataclasses import replace
from pathlib import Path

import pytest
from certificates import Root
from kits import make_kit
from relayed_jobs import breaking, houses, run_job
from two_houses import MEMBERS, charges, job_text, policy_text, split

from colonnade.cli.app import run
from colonnade.errors import InputError, KitError
from colonnade.ledger import Ledger
from colonnade.report.facts import entry_text
from colonnade.runtime.identity import Identity
from colonnade.sites.approval import Proposal, _signed, confirm, propose
from colonnade.sites.kit import EXCLUDED, Exclusions, Kit

ROOT = Root.make()
Kits = dict[str, Kit]
OTHER = Root.make()
ADA, EVE, BEN = (f"{name}@colonnade.local" for name in ("ada", "eve", "ben"))


@pytest.fixture
def kits(tmp_path: Path) -> Kits:
    """A bank that asks for two administrators, a shop that does not, and administrators; Ben may stop jobs."""
    found = houses(tmp_path, ROOT)
    (tmp_path / "bank.policy.toml").write_text(f'submission = "two"\n{policy_text("bank")}')
    for name, role in ((ADA, "lead"), (EVE, "lead"), (BEN, "org_admin")):
        found[name] = make_kit(tmp_path / "kits", ROOT, name, role=role)
    return found


def run_with(kits: Kits, proposal: str, *, job_id: str = "j1", text: str = "") -> str:
    """What the bank says of a job that comes with this, or how it ended."""
    texts = dict.fromkeys(MEMBERS, text or job_text())
    found = run_job(kits, texts=texts, job_id=job_id, proposal=proposal)["bank"]
    return str(found.get("reason", found["state"]))


def test_the_ledger_says_who_signed_and_a_confirmation_is_for_one_run(kits: Kits, tmp_path: Path) -> None:
    signed = confirm(kits[EVE], propose(kits[ADA], job_text()))
    assert run_with(kits, signed.text) == "finished"
    entries = list(Ledger.open(tmp_path / "bank.ledger").entries())
    said = [entry_text(entry) for entry in entries if entry.kind == "decision"]
    assert said == [
        "ada@colonnade.local proposed job j1, 'risk' by moments of bank, shop",
        "eve@colonnade.local confirmed job j1, 'risk' by moments of bank, shop",
    ]
    # Whoever submits it again, under its old name or another, is refused, and pays nothing.
    for job_id in ("j1", "j2"):
        assert "it was for the run j1, and is for one run" in run_with(kits, signed.text, job_id=job_id)
    assert [charges(tmp_path, party) for party in ("bank", "shop")] == [1, 1]


def test_a_job_without_two_signatures_is_refused_where_two_are_asked(kits: Kits, tmp_path: Path) -> None:
    assert "two administrators are to submit every job" in run_with(kits, "")
    assert "is not a proposal of a job" in run_with(kits, "{}")
    assert "it is not signed" in run_with(kits, propose(kits[ADA], job_text()).text)
    assert [charges(tmp_path, party) for party in ("bank", "shop")] == [0, 0]
    (tmp_path / "bank.policy.toml").write_text(policy_text("bank"))
    assert run_with(kits, "", job_id="j2") == "finished"


def forged(kits: Kits, folder: Path) -> dict[str, Proposal]:
    """Proposals that do not hold, by what is said of them; made as whoever has the files would."""
    good = confirm(kits[EVE], propose(kits[ADA], job_text()))
    later = propose(kits[ADA], job_text())
    alone = replace(later, confirmer=ADA, confirmation=confirm_without_looking(kits[ADA], later).confirmation)
    two_names = make_kit(folder / "again", ROOT, "adam", identity=ROOT.issue(ADA.upper(), role="lead"))
    passed = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
    late = replace(later, until=passed.isoformat())
    late = confirm_without_looking(kits[EVE], replace(late, proposal=_signed(kits[ADA], late, "proposal")))
    stranger = make_kit(folder / "strangers", OTHER, EVE, role="lead")
    return {
        "they signed another job than this one": confirm(
            kits[EVE], propose(kits[ADA], job_text(epsilon=2.0))
        ),
        "did not sign what it said": replace(good, until=good.until.replace("20", "21", 1)),
        "not to 'ben@colonnade.local'": replace(good, proposer=BEN),
        "'ada@colonnade.local' both proposed and confirmed it": alone,
        "both proposed and confirmed": confirm_without_looking(two_names, later),
        "'ben@colonnade.local' may not submit jobs": confirm_without_looking(kits[BEN], later),
        "it was to begin by": late,
        "not issued by this federation's root": confirm_without_looking(stranger, later),
        "key of its certificate": replace(good, confirmation=good.proposal, confirmer=ADA),
    }


def confirm_without_looking(kit: Kit, proposal: Proposal) -> Proposal:
    made = replace(proposal, confirmer=kit.identity().name)
    return replace(made, confirmation=_signed(kit, made, "confirmation"))


def test_what_two_administrators_did_not_sign_is_refused_by_the_party(kits: Kits, tmp_path: Path) -> None:
    for number, (wrong, proposal) in enumerate(forged(kits, tmp_path).items()):
        said = run_with(kits, proposal.text, job_id=f"f{number}")
        assert wrong in said and "Nothing was charged" in said, (wrong, said)
    assert not Ledger.open(tmp_path / "bank.ledger").decisions()
    assert charges(tmp_path, "bank") == 0


def test_a_run_that_goes_on_needs_no_second_confirmation(kits: Kits, tmp_path: Path) -> None:
    text = job_text(split(2))
    signed = confirm(kits[EVE], propose(kits[ADA], text))
    texts = dict.fromkeys(MEMBERS, text)
    broken = run_job(kits, texts=texts, relay=breaking("scores 1"), proposal=signed.text)
    assert broken["bank"]["state"] == "failed"
    ended = run_job(kits, texts=texts, job_id="j2", resumes="j1", proposal=signed.text)
    assert {outcome["state"] for outcome in ended.values()} == {"finished"}, ended
    assert charges(tmp_path, "bank") == 1
    assert [one.by for one in Ledger.open(tmp_path / "bank.ledger").decisions()] == [ADA, EVE]


def test_an_administrator_known_to_be_excluded_submits_nothing(kits: Kits, tmp_path: Path) -> None:
    signed = confirm(kits[EVE], propose(kits[ADA], job_text()))
    root = Identity(ROOT.certificate, ROOT.key)
    Exclusions().with_one_more(EVE).save(kits["bank"].path / "local" / EXCLUDED, root)
    assert f"'{EVE}' was excluded from this federation" in run_with(kits, signed.text)
    Exclusions().with_one_more(ADA).save(kits[EVE].path / "local" / EXCLUDED, root)
    with pytest.raises(KitError, match="was excluded from this federation"):
        confirm(kits[EVE], propose(kits[ADA], job_text()))


def test_proposing_and_confirming_as_people_type_it(
    kits: Kits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, written = tmp_path / "job.toml", tmp_path / "job.proposal.json"
    job.write_text(job_text())
    propose_it = ["job", "propose", str(job), "--kit", str(kits[ADA].path)]
    assert run(propose_it) == 0
    assert "colonnade job confirm job.proposal.json --kit KIT" in capsys.readouterr().out
    assert Proposal.load(written).job == job_text()
    assert run(propose_it) != 0 and "exists already" in capsys.readouterr().err
    assert run(["job", "confirm", str(written), "--kit", str(kits[ADA].path)]) == KitError.exit_code
    assert "both proposed and confirmed it" in capsys.readouterr().err
    with pytest.raises(KitError, match="may not submit jobs"):
        confirm(kits[BEN], Proposal.load(written))
    assert run(["job", "confirm", str(job), "--kit", str(kits[EVE].path)]) == InputError.exit_code
    assert "is not a proposal of a job" in capsys.readouterr().err
    assert run([*propose_it, "--hours", "0", "-o", str(tmp_path / "other")]) == InputError.exit_code
    assert "--hours" in capsys.readouterr().err
    with pytest.raises(InputError, match="its format is 2, and this version reads 1"):
        Proposal.parse(json.dumps(json.loads(written.read_text()) | {"format": 2}))
