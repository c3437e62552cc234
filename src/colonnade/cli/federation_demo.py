"""`colonnade federation demo`: three organisations and a server, each a process with its own kit, on this machine.

The data is the public breast cancer set, split between three organisations.
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
    from colonnade.report.record import LedgerRecord
    from colonnade.sites.kit import Kit


PARTIES = ("clinic", "laboratory", "imaging")
BUDGET = 30.0
# A machine that does much else starts FLARE's processes slowly.
PATIENCE_SECONDS = 180.0


def demo(
    output: Path = option("--output -o FOLDER", "A new folder for everything.", Path("federation-demo")),
) -> Answer:
    """Run three organisations and a server as separate processes, and train a model between them.

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
    ended = f"\nKits, runs, logs and ledgers are in {output}."
    return Answer(
        facts,
        lambda wide: "\n".join(["\nLedgers, each with its own party", *budget_lines(ledgers, wide), ended]),
    )


def _run(folder: Path, tell: Callable[[str], None]) -> tuple[dict[str, Any], list[LedgerRecord]]:
    from colonnade.ledger import Ledger
    from colonnade.report.facts import ledger_facts
    from colonnade.sites.processes import Administration, process_group, wait_for_server
    from colonnade.sites.provision import all_kits

    folder.mkdir(parents=True)
    _write_organisations(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    _, kits = all_kits(folder / "kits", "demo", PARTIES, host="localhost", port=port)
    for name in PARTIES:
        kits[name].tell_site(
            {"party": str(folder / f"{name}.toml"), "policy": str(folder / f"{name}.policy.toml")}
        )
    tell(f"kits made for a server, an administrator, {', '.join(PARTIES)}: each its own key and certificate")
    with process_group() as begin:
        processes = {"server": begin(kits["server"])}
        wait_for_server(kits["server"], timeout=PATIENCE_SECONDS)
        with Administration(kits["admin"], timeout=PATIENCE_SECONDS) as session:
            processes |= {name: begin(kits[name]) for name in PARTIES}
            _gather(kits, processes)
            numbers = ", ".join(f"{name} {process.pid}" for name, process in processes.items())
            tell(f"processes run, mutual TLS between all: {numbers}")
            job = _train(folder / "job.toml", session, kits)
            tell(f"trained in {job['seconds']:.1f} s, {job['bytes']} bytes sealed")
    tell("all processes have ended")
    ledgers = [ledger_facts(Ledger.open(folder / f"{party}.ledger")) for party in PARTIES]
    data = {"folder": str(folder), "job": job, "ledgers": [record.to_data() for record in ledgers]}
    return data, ledgers


def _write_organisations(folder: Path) -> None:
    from colonnade.cli.demo_files import patients, write_job, write_parties

    people = patients()
    first, second = people.parties.values()
    owned = dict(zip(PARTIES, (first, second[:10], second[10:]), strict=True))
    people = replace(people, parties=owned, title="diagnosis")
    write_parties(folder, people, range(len(people.values[people.label])), budget=BUDGET)
    write_job(folder, people, epsilon=1.0)
    for party in PARTIES:
        others = json.dumps([other for other in PARTIES if other != party])
        policy = f'methods = ["moments"]\nparties = {others}\ndelta = 1e-5\n\n[epsilon]\n"*" = {BUDGET}\n'
        (folder / f"{party}.policy.toml").write_text(policy, encoding="utf-8")


def _train(path: Path, session: Any, kits: dict[str, Kit]) -> dict[str, Any]:
    from colonnade.cli.job import wait_for
    from colonnade.federation.holdout import OUTCOME

    job_id = session.submit(path.read_text("utf-8"), name="diagnosis", parties=PARTIES)
    ended = wait_for(session, job_id)
    if ended["state"] != "finished":
        raise ProtocolError(f"the job: {ended.get('reason', ended['state'])}")
    # How long it took the parties themselves know; who submits is not told.
    outcomes = (kits[party].run_folder(job_id) / OUTCOME for party in PARTIES)
    recorded = [json.loads(path.read_text("utf-8")) for path in outcomes]
    sent, seconds = sum(each["bytes_sent"] for each in recorded), max(each["seconds"] for each in recorded)
    return {"id": job_id, "seconds": seconds, "bytes": sent, "run": ended["run"]}


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
