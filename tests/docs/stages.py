"""Files that the commands of a page need and that the page does not write: small, made up, and about nobody."""

import shutil
from pathlib import Path

import numpy as np
from fences import ROOT, fences, perform

STAGE = Path(__file__).with_name("stage")
PARTIES = ("bank", "insurer")


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
    for folder in (Path(), Path("public"), Path("new")):
        folder.mkdir(exist_ok=True)
        tables(folder, first=0 if folder.name != "new" else 1000)
        (folder / "job.toml").write_text(job)
        for party in PARTIES:
            shutil.copy(STAGE / f"{party}.schema.toml", folder)
            text = (STAGE / f"{party}.toml").read_text()
            (folder / f"{party}.toml").write_text(("public = true\n" if folder.name else "") + text)
    Path("visits.toml").write_text(job)


def with_ledger() -> None:
    readme()
    _perform("colonnade ledger bank.toml --new --reason 'nothing ran yet'")


def binned() -> None:
    """A run on many people whose numbers are declared in ordered bins, so that tables can be made of its release."""
    readme()
    tables(Path(), people=6000)
    for party in PARTIES:
        shutil.copyfile(STAGE / f"{party}.binned.toml", f"{party}.schema.toml")
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
