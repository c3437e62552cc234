"""A bank, an insurer and a server as three processes with keys of their own, on this machine.

Everything is as between organisations: certificates under one root, mutual TLS, frames sealed from party to party, a
ledger and a policy with each party, an administrator who may submit jobs and read nothing. Only the place is one.
NVIDIA FLARE runs the processes: pip install 'colonnade[flare]'. It takes half a minute, most of it FLARE's starting.

Look at: what is in the bank's folder afterwards (release, outcome, log), what the bank's ledger was charged, and that
the second job is refused by the policies of both before anybody is charged. The people are made up.
"""

import json
import random
import socket
import time
from pathlib import Path

from colonnade import Ledger, LogisticRegression, MomentRelease
from colonnade.cli.job import wait_for
from colonnade.privacy.guarantee import epsilon_text
from colonnade.sites.processes import Administration, connected, process_group, wait_for_server
from colonnade.sites.provision import all_kits

JOB = """
name = "who repays"
task = "classification"
method = "moments"
parties = ["bank", "insurer"]
active = "bank"
epsilon = {epsilon}
delta = 1e-6
"""
SCHEMAS = {
    "bank": 'id = "person"\ncolumns.income = {kind = "numeric", low = 0, high = 100}\n'
    'label = {column = "repaid", kind = "classes", classes = ["no", "yes"]}\n',
    "insurer": 'id = "person"\ncolumns.claims = {kind = "numeric", low = 0, high = 5}\n',
}
POLICY = 'methods = ["moments"]\nparties = ["{other}"]\ndelta = 1e-6\n\n[epsilon]\n"*" = 2.0\n'


def write_organisations(folder: Path) -> None:
    """What each party has at home: rows, schema, its own file and its policy."""
    dice, rows = random.Random(1), {"bank": ["person,income,repaid"], "insurer": ["person,claims"]}
    for person in range(2000):
        income, claims = dice.uniform(0, 100), dice.randrange(5)
        repaid = "yes" if income - 12 * claims + dice.gauss(0, 15) > 20 else "no"
        rows["bank"].append(f"{person},{income:.1f},{repaid}")
        rows["insurer"].append(f"{person},{claims}")
    for party, other in (("bank", "insurer"), ("insurer", "bank")):
        (folder / f"{party}.csv").write_text("\n".join(rows[party]) + "\n")
        (folder / f"{party}.schema.toml").write_text(SCHEMAS[party])
        (folder / f"{party}.toml").write_text(
            f'party = "{party}"\ndata = "{party}.csv"\nschema = "{party}.schema.toml"\n'
            f'dataset = "customers"\nledger = "{party}.ledger"\n[[budget]]\nepsilon = 5.0\ndelta = 1e-6\n'
        )
        (folder / f"{party}.policy.toml").write_text(POLICY.format(other=other))


def main() -> None:
    folder = Path("federation").resolve()
    folder.mkdir()
    write_organisations(folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    _, kits = all_kits(folder / "kits", "example", ("bank", "insurer"), host="localhost", port=port)
    for party in ("bank", "insurer"):
        files = {"party": folder / f"{party}.toml", "policy": folder / f"{party}.policy.toml"}
        kits[party].tell_site({name: str(path) for name, path in files.items()})

    # Everything that was started ends with the block, also on Ctrl-C.
    with process_group() as begin:
        begin(kits["server"])
        wait_for_server(kits["bank"])
        with Administration(kits["admin"]) as administrator:
            for party in ("bank", "insurer"):
                begin(kits[party])
            while not all(connected(kits[party]) for party in ("bank", "insurer")):
                time.sleep(0.3)
            print(f"3 processes; connected: {', '.join(sorted(administrator.parties()))}")
            for epsilon in (1.0, 3.0):
                text = JOB.format(epsilon=epsilon)
                job = administrator.submit(text, name="who repays", parties=["bank", "insurer"])
                ended = wait_for(administrator, job)
                print(f"job at ε = {epsilon}: {ended.get('reason', ended['state'])}")
                if ended["state"] == "finished":
                    home = kits["bank"].run_folder(job)

    print("the bank keeps", ", ".join(sorted(path.name for path in home.iterdir())))
    model = LogisticRegression().fit(MomentRelease.load(home / "release.npz"))
    print("repays:", model.predict({"income": [90, 20], "claims": [0, 4]}))
    print(*json.loads((home / "outcome.json").read_text())["guarantees"], sep="\n")
    for total in Ledger.open(folder / "bank.ledger").totals():
        spent = f"ε = {epsilon_text(total.epsilon)} of {total.budget_epsilon:g}"
        print(f"the bank's ledger, {total.observer}, {total.unit}: {spent}")


if __name__ == "__main__":
    main()
