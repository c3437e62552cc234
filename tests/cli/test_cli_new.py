"""`colonnade new`: files that lack only what a person has to say, and nothing over what is there."""

import tomllib
from pathlib import Path

from cli_project import Cli, Project

from colonnade.cli.app import run
from colonnade.data.sources import FileSource
from colonnade.federation.job import Job
from colonnade.federation.party_file import PartyFile

INPUT = 3


def test_new_files_are_complete_once_the_blanks_are_filled_in(project: Project, cli: Cli) -> None:
    made = ["new", "houses/risk", "--party", "bank=bank.csv", "--party", "insurer=insurer.csv"]
    assert "colonnade train houses/risk/job.toml" in cli(*made, "--label", "bank:risk")
    assert "label.classes: left blank" in cli("schema --check houses/risk/bank.schema.toml", code=INPUT)
    drafted = Path("houses/risk/bank.schema.toml").read_text()
    assert "[columns.risk]" not in drafted and 'column = "risk"' in drafted
    for party in ("bank", "insurer"):
        filled = Path(f"{party}.schema.toml").read_text()
        Path(f"houses/risk/{party}.schema.toml").write_text(filled)
    assert run(["train", "houses/risk/job.toml", "--output", "run"]) == 0
    assert "exists already" in cli(*made, "--label", "bank:risk", code=INPUT)


def test_ids_and_odd_names_of_columns_are_written_so_that_they_can_be_read(project: Project) -> None:
    odd = 'zahlt "gern", [ja]?'
    project.path("a.csv").write_text(f'Kunden-Nr,"{odd.replace(chr(34), chr(34) * 2)}",Alter\nK1,ja,3\n')
    parties = ["--party", "bank=a.csv", "--party", "insurer=insurer.csv"]
    made = [*parties, "--label", f"bank:{odd}", "--id", "bank:Kunden-Nr", "--id", "customer"]
    assert run(["new", 'the "risk"', *made]) == 0
    bank = tomllib.loads(Path('the "risk"/bank.schema.toml').read_text())
    assert bank["id"] == "Kunden-Nr" and bank["label"]["column"] == odd and list(bank["columns"]) == ["Alter"]
    other = tomllib.loads(Path('the "risk"/insurer.schema.toml').read_text())
    assert other["id"] == "customer" and "customer" not in other["columns"] and "label" not in other
    assert Job.load('the "risk"/job.toml').name == 'the "risk"'
    assert PartyFile.load('the "risk"/bank.toml').data == FileSource(Path('the "risk"/../a.csv'))
