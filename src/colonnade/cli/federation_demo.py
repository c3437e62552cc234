"""`colonnade federation demo`: three organisations and a server, each a process with its own kit, on this machine.

The noise comes from seeds, so that the same jobs can be run in one process and compared number by number; every ledger
and release of the demonstration says so. The data is the public breast cancer set, split between three organisations.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.cli.screen import Answer, as_json, check_free, option, say
from colonnade.errors import PeerTimeout, ProtocolError

if TYPE_CHECKING:
    from colonnade.federation.job import Job
    from colonnade.report.record import LedgerRecord
    from colonnade.sites.kit import Kit


FOLDER = Path("federation-demo")
PARTIES = ("clinic", "laboratory", "imaging")
SEED = 1
BUDGET = 30.0
# A machine that does much else starts FLARE's processes slowly.
PATIENCE_SECONDS = 180.0
JOBS = {"moments": 'method = "moments"', "margin": 'method = "margin"\noptions = {steps = 3}'}


def demo(
    output: Path = option("--output -o FOLDER", "A new folder for everything.", FOLDER),
) -> Answer:
    """Run three organisations and a server as separate processes, train two models, compare them with one process.

    Example:

      colonnade federation demo --output trial
    """
    from colonnade.report.text import budget_lines

    check_free(output, "--output", "Name a new folder.")
    quiet, began = as_json(), time.monotonic()

    def tell(text: str) -> None:
        if not quiet:
            say(f"{time.monotonic() - began:6.1f} s  {text}")

    try:
        facts, ledgers = _run(output.resolve(), tell)
    except KeyboardInterrupt:
        shutil.rmtree(output, ignore_errors=True)
        raise
    facts["seconds"] = round(time.monotonic() - began, 1)
    ended = f"\nKits, logs and ledgers are in {output}. Noise came from a seed: these runs protect nobody, and say so."
    differ = ProtocolError(
        "between processes and in one process the numbers differ. Report this as a mistake."
    )
    return Answer(
        facts,
        lambda wide: "\n".join(["\nLedgers, each with its own party", *budget_lines(ledgers, wide), ended]),
        None if all(job["same"] for job in facts["jobs"].values()) else differ,
    )


def _run(folder: Path, tell: Callable[[str], None]) -> tuple[dict[str, Any], list[LedgerRecord]]:
    from colonnade.ledger import Ledger
    from colonnade.report.facts import ledger_facts
    from colonnade.sites.processes import Administration, process_group, wait_for_server
    from colonnade.sites.provision import all_kits

    folder.mkdir(parents=True)
    write_organisations(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    _, kits = all_kits(folder / "kits", "demo", PARTIES, host="localhost", port=port)
    for name in PARTIES:
        files = {"party": str(folder / f"{name}.toml"), "policy": str(folder / f"{name}.policy.toml")}
        kits[name].tell_site({**files, "noise_seed": SEED})
    kits["server"].tell_site({"noise_seed": SEED})
    tell(f"kits made for a server, an administrator, {', '.join(PARTIES)}: each its own key and certificate")
    with process_group() as begin:
        processes = {"server": begin(kits["server"])}
        wait_for_server(kits["server"], timeout=PATIENCE_SECONDS)
        with Administration(kits["admin"], timeout=PATIENCE_SECONDS) as session:
            processes |= {name: begin(kits[name]) for name in PARTIES}
            _gather(kits, processes)
            numbers = ", ".join(f"{name} {process.pid}" for name, process in processes.items())
            tell(f"processes run, mutual TLS between all: {numbers}")
            jobs = {name: _train(folder, name, session, kits, tell) for name in JOBS}
    tell("all processes have ended")
    ledgers = [ledger_facts(Ledger.open(folder / f"{party}.ledger")) for party in PARTIES]
    data = {"folder": str(folder), "jobs": jobs, "ledgers": [record.to_data() for record in ledgers]}
    return data, ledgers


def write_organisations(folder: Path) -> None:
    from colonnade.cli.demo_files import job_text, patients, write_parties

    people = patients()
    columns = list(people.declared)
    owned = dict(zip(PARTIES, (columns[20:], columns[:10], columns[10:20]), strict=True))
    everybody = range(len(people.values[people.label]))
    write_parties(folder, replace(people, parties=owned), everybody, budget=BUDGET)
    for party in PARTIES:
        others = json.dumps([other for other in PARTIES if other != party])
        policy = (
            f'methods = {json.dumps(list(JOBS))}\nparties = {others}\ndelta = 1e-5\n\n[epsilon]\n"*" = {BUDGET}\n\n'
            "[options.margin]\nsteps = {most = 3}\n"
        )
        (folder / f"{party}.policy.toml").write_text(policy, encoding="utf-8")
    for name, method in JOBS.items():
        text = job_text(f"diagnosis, {name}", PARTIES, 1.0, people.delta, method)
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")


def _train(
    folder: Path, name: str, session: Any, kits: dict[str, Kit], tell: Callable[[str], None]
) -> dict[str, Any]:
    """Run one job between the processes and once more in this one, and compare what every party came away with."""
    from colonnade.cli.job import wait_for
    from colonnade.federation.holdout import OUTCOME
    from colonnade.federation.job import Job

    job = Job.load(folder / f"{name}.toml")
    job_id = session.submit((folder / f"{name}.toml").read_text("utf-8"), name=job.name, parties=job.parties)
    ended = wait_for(session, job_id)
    if ended["state"] != "finished":
        raise ProtocolError(f"job {name}: {ended.get('reason', ended['state'])}")
    folders = {party: kits[party].run_folder(job_id) for party in PARTIES}
    # How long it took the parties themselves know; who submits is not told.
    recorded = [json.loads((path / OUTCOME).read_text("utf-8")) for path in folders.values()]
    sent, seconds = sum(each["bytes_sent"] for each in recorded), max(each["seconds"] for each in recorded)
    alone = _alone(folder, job)
    numbers = {party: _numbers(alone, party) for party in PARTIES}
    same = all(_numbers(path, party) == numbers[party] for party, path in folders.items())
    compared = sum(len(each) for each in numbers.values())
    tell(
        f"{name}: trained in {seconds:.1f} s, {sent} bytes sealed. "
        f"Run again in one process with the same seeds: all {compared} numbers of the parties' models are "
        f"{'the same, bit for bit' if same else 'NOT the same'}"
    )
    return {"id": job_id, "same": same, "compared": compared, "seconds": seconds, "run": ended["run"]}


def _alone(folder: Path, job: Job) -> Path:
    """The folder of the same job in one process, with the same seeds and ledgers that end with it."""
    from colonnade.federation.federation import Federation
    from colonnade.federation.party_file import PartyFile
    from colonnade.federation.train import result_for
    from colonnade.runs.recovery import finish_run

    files = [PartyFile.load(folder / f"{party}.toml") for party in PARTIES]
    federation = Federation([file.table() for file in files], budget=(BUDGET, 1e-5), noise_seed=SEED)
    result = result_for(job, federation)
    run = folder / "one-process" / job.method
    run.mkdir(parents=True)
    finish_run(run, job, federation.runs[-1], federation, result)
    return run


def _numbers(run: Path, party: str) -> list[float]:
    """Every number of a model, or of a party's part of one; they are compared as they are, not rounded."""
    import numpy as np

    from colonnade.federation.holdout import own_file
    from colonnade.models.files.document import MODEL
    from colonnade.models.files.linear_file import ModelFile

    own = own_file(run, party, MODEL)
    kept = ModelFile.load(own if own.exists() else run / MODEL)
    return [float(number) for part in (kept.weights, kept.offsets) for number in np.ravel(part)]


def _gather(kits: dict[str, Kit], processes: dict[str, Any]) -> None:
    """Return when every party has proved itself to the server."""
    from colonnade.sites.processes import CONSOLE, connected

    deadline = time.monotonic() + PATIENCE_SECONDS
    while absent := [name for name in PARTIES if not connected(kits[name])]:
        fallen = [name for name in absent if processes[name].poll() is not None]
        if fallen or time.monotonic() > deadline:
            name = (fallen or absent)[0]
            raise PeerTimeout(f"{name} did not come to the server; {kits[name].path / CONSOLE} says why.")
        time.sleep(0.2)
