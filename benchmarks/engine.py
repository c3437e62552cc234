"""What FLARE costs, and what we add to it: real processes, real kits and mutual TLS, on this machine.

Prints one JSON object on its last line:

* ``ratio_to_bare``: a round of two parties that send each other 256 floats through our sealed channel, over a bare
  FLARE request and reply of the same bytes between the same two processes, medians of interleaved batches;
* ``moments_ratio_to_inprocess``: a moment release on tables of Adult's size between processes, from the first step
  after they have met to the last, over the same in one process that is as fresh.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from colonnade.sites.kit import Kit
from colonnade.sites.processes import Administration, connected, process_group, wait_for_server, write_job
from colonnade.sites.provision import all_kits

PARTIES = ("bank", "shop")
ADULT_ROWS, COLUMNS = 45_222, 20
JOB = """name = "adult's size"
task = "pca"
parties = ["bank", "shop"]
epsilon = 5.0
delta = 1e-6
"""


def write_party(folder: Path, party: str) -> None:
    """A table of Adult's size, its schema, the party's own file and policy."""
    rng = np.random.default_rng(len(party) + ord(party[0]))
    columns: dict[str, Any] = {f"{party}{i}": rng.uniform(-1, 1, ADULT_ROWS) for i in range(COLUMNS)}
    ids = [f"p{row}" for row in range(ADULT_ROWS)]
    pq.write_table(pa.table({"n": ids, **columns}), folder / f"{party}.parquet")
    declared = "".join(f"[columns.{party}{i}]\nkind='numeric'\nlow=-1\nhigh=1\n" for i in range(COLUMNS))
    (folder / f"{party}.schema.toml").write_text(f"id = 'n'\n{declared}")
    (folder / f"{party}.toml").write_text(
        f'party = "{party}"\ndata = "{party}.parquet"\nschema = "{party}.schema.toml"\ndataset = "d"\n'
        f'ledger = "{party}.ledger"\nbudget = [{{epsilon = 1000.0, delta = 1e-5}}]\n'
    )
    others = json.dumps([other for other in PARTIES if other != party])
    (folder / f"{party}.policy.toml").write_text(
        f'methods = ["moments"]\nparties = {others}\ndelta = 1e-5\nepsilon = {{"*" = 100.0}}\n'
    )


def in_process_seconds(folder: Path) -> float:
    """The same release with all parties in one fresh process."""
    program = (
        "import sys, time\n"
        "from colonnade.federation.job import Job\n"
        "from colonnade.federation.party_file import federation_of, party_files\n"
        "from colonnade.federation.train import result_for\n"
        "job = Job.load(sys.argv[1])\n"
        "federation = federation_of(job, party_files(job))\n"
        "began = time.perf_counter()\n"
        "result_for(job, federation)\n"
        "print(time.perf_counter() - began)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / "job.toml")], check=True, capture_output=True, text=True
    )
    return float(done.stdout.split()[-1])


def ended(session: Administration, job_id: str) -> None:
    """Wait for a job, which must end well."""
    while not (state := str(session.status(job_id)["status"])).startswith("FINISHED"):
        time.sleep(0.3)
    if state != "FINISHED:COMPLETED":
        raise SystemExit(f"the job ended as {state}")


def moments_seconds(kit: Kit, job_id: str) -> float:
    """Seconds of all steps after the members have met."""
    lines = [json.loads(line) for line in (kit.run_folder(job_id) / "log.jsonl").read_text().splitlines()]
    return float(sum(line["seconds"] for line in lines if line["step"] != "sealed hello"))


def allow_probe(kit: Kit, name: str) -> None:
    """Let a kit of this benchmark run the probe too."""
    path = kit.path / "local" / "resources.json"
    resources = json.loads(path.read_text())
    resources["class_allow_list"].append(f"engine_probe.{name}")
    path.write_text(json.dumps(resources))


def write_probe(folder: Path) -> None:
    """A FLARE job that names the probe's classes."""
    write_job(folder, JOB, name="probe", parties=PARTIES)
    for path, part, name in (
        ("coordinator/config/config_fed_server.json", "workflows", "ProbeCoordinator"),
        ("member/config/config_fed_client.json", "executors", "ProbeMember"),
    ):
        config = json.loads((folder / path).read_text())
        named = config[part][0] if part == "workflows" else config[part][0]["executor"]
        named.update(path=f"engine_probe.{name}", args={})
        (folder / path).write_text(json.dumps(config))


def measure(folder: Path) -> dict[str, float]:
    """Both figures in one federation."""
    for party in PARTIES:
        write_party(folder, party)
    (folder / "job.toml").write_text(JOB)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _, kits = all_kits(folder / "kits", "engine", PARTIES, host="localhost", port=port)
    for party in PARTIES:
        kits[party].tell_site(
            {"party": str(folder / f"{party}.toml"), "policy": str(folder / f"{party}.policy.toml")}
        )
        allow_probe(kits[party], "ProbeMember")
    allow_probe(kits["server"], "ProbeCoordinator")
    write_probe(folder / "probe")
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent)
    with process_group() as begin:
        begin(kits["server"])
        wait_for_server(kits["bank"])
        with Administration(kits["admin"]) as session:
            for party in PARTIES:
                begin(kits[party])
            while not all(connected(kits[party]) for party in PARTIES):
                time.sleep(0.3)
            ended(session, session.submit_folder(folder / "probe"))
            job_id = session.submit(JOB, name="adult", parties=PARTIES)
            ended(session, job_id)
    engine = json.loads((kits["bank"].path / "engine.json").read_text())
    between, alone = moments_seconds(kits["server"], job_id), in_process_seconds(folder)
    return {
        "ratio_to_bare": engine["round_ms"] / engine["bare_ms"],
        **engine,
        "moments_ratio_to_inprocess": between / alone,
        "moments_seconds": between,
        "moments_seconds_inprocess": alone,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args().json
    with tempfile.TemporaryDirectory() as folder:
        facts = {name: round(value, 3) for name, value in measure(Path(folder)).items()}
    if as_json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        print(f"{name:<28} {value:10.3f}")


if __name__ == "__main__":
    main()
