"""Files that the commands of a page need and that the page does not write: small, made up, and about nobody."""

from pathlib import Path

import numpy as np
from fences import ROOT, fences, perform

LABEL = 'label = {column = "repaid", kind = "classes", classes = ["no", "yes"]}\n'
BANK_SCHEMA = f"""id = "customer"
columns.income = {{kind = "numeric", low = 0, high = 100_000, transform = "log1p"}}
{LABEL}
[columns.employment]
kind = "categorical"
categories = ["employed", "self-employed", "none of these"]
other = "none of these"
"""
INSURER_SCHEMA = 'id = "person"\ncolumns.claims = {kind = "numeric", low = 0, high = 5}\n'
BINNED = {
    "bank": f"""id = "customer"
columns.income = {{kind = "bins", bins = 8, low = 0, high = 100_000, ordered = true, whole = true}}
columns.employment = {{kind = "categorical", categories = ["employed", "self-employed", "retired"]}}
{LABEL}""",
    "insurer": """id = "person"
columns.claims = {kind = "bins", edges = [1, 2, 3], low = 0, high = 5, ordered = true, whole = true}
""",
}
PARTY = """party = "{party}"
data = "{party}.csv"
schema = "{party}.schema.toml"
dataset = "{dataset} 2026"
ledger = "{party}.ledger"
budget = [{{epsilon = 4.0, delta = 1e-6}}{more}]
"""
FOR_INSURER = ', {observer = "party:insurer", epsilon = 2.0, delta = 1e-6}'


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
    parties = {
        "bank": PARTY.format(party="bank", dataset="customers", more=FOR_INSURER),
        "insurer": PARTY.format(party="insurer", dataset="claims", more=""),
    }
    for folder in (Path(), Path("public"), Path("new")):
        folder.mkdir(exist_ok=True)
        tables(folder, first=0 if folder.name != "new" else 1000)
        (folder / "job.toml").write_text(job)
        (folder / "bank.schema.toml").write_text(BANK_SCHEMA)
        (folder / "insurer.schema.toml").write_text(INSURER_SCHEMA)
        for party, text in parties.items():
            (folder / f"{party}.toml").write_text(("public = true\n" if folder.name else "") + text)
    Path("visits.toml").write_text(job)


def with_ledger() -> None:
    readme()
    _perform("colonnade ledger bank.toml --new --reason 'nothing ran yet'")


def binned() -> None:
    """A run on many people whose numbers are declared in ordered bins, so that tables can be made of its release."""
    readme()
    tables(Path(), people=6000)
    for party, schema in BINNED.items():
        Path(f"{party}.schema.toml").write_text(schema)
    _perform("colonnade train job.toml --output runs/first")


def _perform(line: str) -> None:
    said = perform(line)
    if said.code:
        raise ValueError(said.err)


STAGES = {
    "docs/tables.md": binned,
    "README.md": readme,
    "docs/two-organisations.md": with_ledger,
    "docs/operate/runbook.md": readme,
}
