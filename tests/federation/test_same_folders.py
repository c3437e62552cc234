"""What a site keeps of a run is what the same run in one process keeps, file by file, for every method."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import two_houses
from certificates import Root
from relayed_jobs import houses, run_job
from two_houses import MEMBERS, PARTIES, ROWS, SEED, job_text, policy_text, write_party

from colonnade.federation.federation import Hooks
from colonnade.federation.job import Job
from colonnade.federation.party_file import federation_of, party_files
from colonnade.federation.train import result_for
from colonnade.methods.method import Method
from colonnade.methods.table import METHODS
from colonnade.models.files.membership import TrainingMembership
from colonnade.models.release import MomentRelease
from colonnade.runs.recovery import finish_run

ROOT = Root.make()
PROTOCOLS = tuple(name for name, method in METHODS.items() if isinstance(method, Method))
OPTIONS = {
    "encrypted": "epochs = 1",
    "network": "embedding = 2, epochs = 2",
    "slr": "epochs = 2, rate = 1.0",
    "margin": "steps = 2",
}
CASES = (*((name, OPTIONS.get(name, "")) for name in PROTOCOLS), ("moments", "conditional = true"))
# Times, and hashes that times go into.
VOLATILE = ("time", "head", "hash", "seconds", "started", "digest")


def text_of(method: str, options: str) -> str:
    task = METHODS[method].tasks[0]
    kind = f'method = "{method}"\noptions = {{{options}}}'
    return job_text(kind, epsilon=2.0).replace('"classification"', f'"{task}"')


def two_labels(method: str, options: str) -> bool:
    """Whether a case is run with two labels: the one method that takes them, where it does."""
    return method == "moments" and not options


def one_process(folder: Path, text: str, *, several: bool) -> Path:
    """The run's folder of the same job with the same randomness, all parties in this process."""
    folder.mkdir()
    for party in PARTIES:
        write_party(folder, party)
    if several:
        two_houses.give_bank_two_labels(folder)
    (folder / "job.toml").write_text(text)
    job = Job.load(folder / "job.toml")
    federation = federation_of(job, party_files(job)).with_hooks(Hooks(logged=True))
    federation._noise_seed = SEED
    found = result_for(job, federation)
    run = folder / "run"
    run.mkdir()
    finish_run(run, job, federation.runs[-1], federation, found)
    return run


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: steady(item) for key, item in value.items() if key not in VOLATILE}
    return [steady(item) for item in value] if isinstance(value, list) else value


def own_share(learnt: dict[str, Any], member: str) -> None:
    """Leave of a network's sizes the member's own."""
    if "numbers" in learnt:
        learnt["numbers"] = {owner: count for owner, count in learnt["numbers"].items() if owner == member}


def of(facts: dict[str, Any], member: str) -> dict[str, Any]:
    """The facts of a run in one process that one member knows of: not other parties' budgets, bytes, networks."""
    own = dict(facts)
    for field in ("ledgers", "before"):
        own[field] = {owner: held for owner, held in facts[field].items() if owner == member}
    own_share(own["model_facts"], member)
    flows = [flow for flow in facts["traffic"]["flows"] if flow["from"] == member]
    sent: dict[str, int] = {}
    for flow in flows:
        sent[flow["step"]] = sent.get(flow["step"], 0) + flow["bytes"]
    own["traffic"] = {"bytes": sum(sent.values()), "flows": flows, "steps": sent}
    return own


def without_rounds(facts: dict[str, Any]) -> dict[str, Any]:
    """A site knows the rounds that itself waited for."""
    steps = {step["step"]: step["bytes"] for step in facts["traffic"]["steps"]}
    traffic = {"bytes": facts["traffic"]["bytes"], "flows": facts["traffic"]["flows"], "steps": steps}
    return {**facts, "traffic": traffic}


def shape(page: str) -> str:
    """A page without its numbers and hashes, of which some are times."""
    return re.sub(r"[0-9][0-9a-f.:+,T−-]*", "#", re.sub(r"[0-9a-f]{12,64}", "#", page))


@pytest.mark.parametrize(("method", "options"), CASES)
def test_a_site_keeps_what_one_process_keeps(method: str, options: str, tmp_path: Path) -> None:
    kits, text = houses(tmp_path, ROOT), text_of(method, options)
    several = two_labels(method, options)
    if several:
        two_houses.give_bank_two_labels(tmp_path)
    for party in PARTIES:
        chosen = "".join(f'{item.split(" =")[0]} = "any"\n' for item in options.split(", ") if item)
        allowed = f"[options.{method}]\n{chosen}" if chosen else ""
        accepted = policy_text(party, methods=f'["{method}"]', epsilon=99.0, options=allowed)
        (tmp_path / f"{party}.policy.toml").write_text(accepted)
    outcomes = run_job(kits, texts=dict.fromkeys(MEMBERS, text))
    assert not any(outcome.get("reason") for outcome in outcomes.values()), outcomes
    here = one_process(tmp_path / "here", text, several=several)
    assert (here / "model-2.json").exists() == several
    for member in MEMBERS:
        site = kits[member].run_folder("j1")
        theirs = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
        expected = {
            name
            for path in here.rglob("*")
            if path.is_file()
            for name in [path.relative_to(here).as_posix()]
            if not name.startswith("parties/") or name.startswith(f"parties/{member}.")
        }
        # A site writes its outcome and its log while it takes part, and for itself alone.
        live = {f"parties/{member}.{name}": name for name in ("outcome.json", "log.jsonl")}
        assert theirs == {live.get(name, name) for name in expected} | set(live.values())
        for name in sorted(expected):
            same_file(site / live.get(name, name), here / name, member)


def same_file(one: Path, other: Path, member: str) -> None:
    """Two files hold the same, as far as one member's and times go."""
    if one.name == "log.jsonl":
        steps = [
            [json.loads(line)["step"] for line in path.read_text().splitlines()] for path in (one, other)
        ]
        assert [step for step in steps[0] if step != "sealed hello"] == steps[1]
    elif one.name == "outcome.json":
        mine, alone = (steady(json.loads(path.read_text())) for path in (one, other))
        own_share(alone["model_facts"], member)
        assert {**mine, "id": ""} == alone
    elif one.name == "facts.json":
        mine, all_of = (json.loads(path.read_text()) for path in (one, other))
        assert steady(without_rounds(mine)) == steady(of(all_of, member))
    elif one.name == "report.html":
        assert one.stat().st_size and "<html" in one.read_text()
    elif one.suffix == ".html":
        assert shape(one.read_text()) == shape(other.read_text())
    elif one.name.endswith("people.npz"):
        # Each list has a key of its own.
        lists = [TrainingMembership.load(path) for path in (one, other)]
        assert len(lists[0]) == len(lists[1]) == ROWS
        assert all(f"p{row}" in people for row in range(ROWS) for people in lists)
    elif one.name == "release.npz":
        first, second = MomentRelease.load(one), MomentRelease.load(other)
        assert np.array_equal(first.matrix, second.matrix)
        assert (first.run, first.plan, first.guarantees) == (second.run, second.plan, second.guarantees)
    else:
        assert one.read_bytes() == other.read_bytes()
