"""Files that the commands of a page need and that the page does not write: small, made up, and about nobody."""

from pathlib import Path

import numpy as np
from fences import ROOT, fences, perform

BANK_SCHEMA = """
id = "customer"

[columns.income]
kind = "numeric"
low = 0
high = 100000
transform = "log1p"

[columns.employment]
kind = "categorical"
categories = ["employed", "self-employed", "none of these"]
other = "none of these"

[label]
column = "repaid"
kind = "classes"
classes = ["no", "yes"]
"""
BANK = """
party = "bank"
data = "bank.csv"
schema = "bank.schema.toml"
dataset = "customers 2026"
ledger = "bank.ledger"

[[budget]]
epsilon = 4.0
delta = 1e-6

[[budget]]
observer = "party:insurer"
epsilon = 2.0
delta = 1e-6
"""
INSURER_SCHEMA = """
id = "person"
columns.claims = {kind = "numeric", low = 0, high = 5}
"""
INSURER = """
party = "insurer"
data = "insurer.csv"
schema = "insurer.schema.toml"
dataset = "claims 2026"
ledger = "insurer.ledger"

[[budget]]
epsilon = 4.0
delta = 1e-6
"""


def tables(folder: Path, *, people: int = 400, first: int = 0) -> None:
    rng = np.random.default_rng(first)
    income, claims = rng.uniform(0, 100_000, people), rng.poisson(1.0, people)
    repaid = np.where(income - 10_000 * claims > 30_000, "yes", "no")
    job = rng.choice(["employed", "self-employed", "retired"], people)
    ids = range(first, first + people)
    rows = [f"{i},{x:.0f},{j},{y}" for i, x, j, y in zip(ids, income, job, repaid, strict=True)]
    (folder / "bank.csv").write_text("\n".join(["customer,income,employment,repaid", *rows, ""]))
    rows = [f"{i},{k}" for i, k in zip(ids, claims, strict=True)]
    (folder / "insurer.csv").write_text("\n".join(["person,claims", *rows, ""]))


def readme() -> None:
    """The folder that the README's list of commands is about, with another for those that want public data."""
    (job,) = (fence.text for fence in fences(ROOT / "README.md") if fence.file == "job.toml")
    files = {
        "job.toml": job,
        "bank.toml": BANK,
        "bank.schema.toml": BANK_SCHEMA,
        "insurer.toml": INSURER,
        "insurer.schema.toml": INSURER_SCHEMA,
    }
    for folder in (Path(), Path("public"), Path("new")):
        folder.mkdir(exist_ok=True)
        tables(folder, first=0 if folder.name != "new" else 1000)
        public = "public = true\n" if folder.name else ""
        for name, text in files.items():
            own = name in ("bank.toml", "insurer.toml")
            (folder / name).write_text((public if own else "") + text, encoding="utf-8")
    Path("visits.toml").write_text(job, encoding="utf-8")


def trained() -> None:
    readme()
    said = perform("colonnade train job.toml --output runs/first")
    if said.code:
        raise ValueError(said.err)


BINNED = {
    "bank": """
id = "customer"
columns.income = {kind = "bins", bins = 8, low = 0, high = 100_000, ordered = true, whole = true}
columns.employment = {kind = "categorical", categories = ["employed", "self-employed", "retired"]}
label = {column = "repaid", kind = "classes", classes = ["no", "yes"]}
""",
    "insurer": """
id = "person"
columns.claims = {kind = "bins", edges = [1, 2, 3], low = 0, high = 5, ordered = true, whole = true}
""",
}


def binned() -> None:
    """A run on many people whose numbers are declared in ordered bins, so that tables can be made of its release."""
    readme()
    tables(Path(), people=6000)
    for party, schema in BINNED.items():
        Path(f"{party}.schema.toml").write_text(schema, encoding="utf-8")
    said = perform("colonnade train job.toml --output runs/first")
    if said.code:
        raise ValueError(said.err)


STAGES = {
    "docs/tables.md": binned,
    "README.md": readme,
    "docs/two-organisations.md": trained,
    "docs/operate/runbook.md": readme,
}
