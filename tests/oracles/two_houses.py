"""A bank and a shop with the files that each would write, and a job between them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.federation.federation import Federation
from colonnade.federation.job import Job
from colonnade.ledger import Ledger
from colonnade.methods.table import train_with

PARTIES = ("bank", "shop")
MEMBERS = (*PARTIES, "server")
ROWS = 60
SEED = 7
MOMENTS = 'method = "moments"'
# What the jobs here choose of their methods' options.
OPTIONS = """options.private-messages.epochs = "any"
options.encrypted.epochs = "any"
options.margin.steps = "any"
options.network = {embedding = "any", epochs = "any"}"""


def split(epochs: int) -> str:
    return f'method = "private-messages"\noptions = {{epochs = {epochs}}}'


def margin(steps: int) -> str:
    return f'method = "margin"\noptions = {{steps = {steps}}}'


def job_text(kind: str = MOMENTS, *, epsilon: float = 1.0, timeout: float = 60) -> str:
    parties = json.dumps(list(PARTIES))
    return (
        f'name = "risk"\ntask = "classification"\n{kind}\nparties = {parties}\nactive = "bank"\n'
        f"epsilon = {epsilon}\ndelta = 1e-5\ntimeout = {timeout}\n"
    )


def in_process(kind: str = MOMENTS, *, text: str = "", seed: int = SEED) -> Federation:
    """The same job in this process, with the same seeds; it has run. `text` is the job, where it is not the usual."""
    columns = {party: _columns(party) for party in PARTIES}
    tables = [Table.from_arrays(party, own, Schema.parse(_schema(own))) for party, own in columns.items()]
    federation = Federation(tables, budget=(50.0, 1e-5), noise_seed=seed)
    job = Job.parse(text or job_text(kind))
    train_with(federation, job.method, job.spec)
    return federation


def policy_text(
    party: str,
    *,
    methods: str = '["moments", "private-messages"]',
    epsilon: float = 9.0,
    parties: str = "",
    observers: str = "*",
    delta: float = 1e-5,
    options: str = OPTIONS,
    more: str = "",
) -> str:
    """What a party agrees to; `more` are further lines."""
    others = parties or json.dumps([other for other in PARTIES if other != party])
    allowed = f'delta = {delta}\nepsilon = {{"{observers}" = {epsilon}}}'
    return f"methods = {methods}\nparties = {others}\n{allowed}\n{options}\n{more}\n"


def write_files(
    folder: Path,
    party: str,
    values: dict[str, Any],
    *,
    stem: str = "",
    dataset: str = "d",
    budget: float = 500.0,
) -> str:
    """A party's rows, schema and party file, in files that begin with `stem`; returns the path of the last."""
    stem = stem or party
    rows = zip(*values.values(), strict=True)
    (folder / f"{stem}.csv").write_text(
        "\n".join([",".join(values), *(",".join(map(str, row)) for row in rows)])
    )
    (folder / f"{stem}.schema.toml").write_text(_schema(values))
    (folder / f"{stem}.toml").write_text(
        f'party = "{party}"\ndata = "{stem}.csv"\nschema = "{stem}.schema.toml"\ndataset = "{dataset}"\n'
        f'ledger = "{party}.ledger"\nbudget = [{{epsilon = {budget}, delta = 1e-5}}]\n'
    )
    return str(folder / f"{stem}.toml")


def write_party(folder: Path, party: str, *, budget: float = 500.0) -> dict[str, Any]:
    (folder / f"{party}.policy.toml").write_text(policy_text(party))
    announced = write_files(folder, party, _columns(party), budget=budget)
    return {"party": announced, "policy": str(folder / f"{party}.policy.toml")}


def give_bank_two_labels(folder: Path) -> None:
    path, schema = folder / "bank.csv", folder / "bank.schema.toml"
    head, *lines = path.read_text().splitlines()
    # What the bank's first column says, so that there is something to learn.
    path.write_text("\n".join([f"{head},loss", *(f"{line},{line.split(',')[1]}" for line in lines)]))
    first = 'labels.risk = {kind = "classes", classes = ["low", "high"]}\n'
    second = 'labels.loss = {kind = "real", low = 0, high = 1}\n'
    columns = [line for line in schema.read_text().splitlines() if not line.startswith("label")]
    schema.write_text("\n".join([*columns, first + second]))


def score_text(model: str, *, epsilon: str = "", receiver: str = "bank", timeout: int = 60) -> str:
    noise = f"epsilon = {epsilon}\ndelta = 1e-5\n" if epsilon else ""
    return (
        f'name = "new people"\nscores = "{model}"\nparties = ["bank", "shop"]\nreceiver = "{receiver}"\n{noise}'
        f"timeout = {timeout}\n"
    )


def write_people(folder: Path, party: str, ids: list[str]) -> str:
    places = range(len(ids))
    numbers = {f"{party}_0": [f"0.{at}" for at in places], f"{party}_1": [f"0.{9 - at}" for at in places]}
    return write_files(folder, party, {"id": ids, **numbers}, stem=f"{party}.new", dataset="new")


def charges(folder: Path, party: str) -> int:
    path = folder / f"{party}.ledger"
    return sum(entry.kind == "charge" for entry in Ledger.open(path).entries()) if path.exists() else 0


def _columns(party: str) -> dict[str, Any]:
    drawn = np.random.default_rng(len(party))
    values: dict[str, Any] = {"id": [f"p{row}" for row in range(ROWS)]}
    values |= {f"{party}_{at}": drawn.uniform(0, 1, ROWS).round(3) for at in range(2)}
    if party == "bank":
        values["risk"] = np.where(drawn.uniform(size=ROWS) < 0.5, "low", "high")
    return values


def _schema(values: dict[str, Any]) -> str:
    numbers = [name for name in values if name not in ("id", "risk")]
    lines = [f'columns.{name} = {{kind = "numeric", low = 0, high = 1}}\n' for name in numbers]
    label = 'label = {column = "risk", kind = "classes", classes = ["low", "high"]}\n'
    return "".join(['id = "id"\n', *lines, label if "risk" in values else ""])
