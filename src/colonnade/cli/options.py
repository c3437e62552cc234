"""Options that several verbs share, so that they are called and explained alike everywhere."""

from __future__ import annotations

import typer

AS_JSON: bool = typer.Option(False, "--json", help="Print one JSON object instead of text.")
VERBOSE: bool = typer.Option(
    False, "--verbose", "-v", help="Also print exact statements and costs, as the report has them."
)
PARTY_FILES = typer.Option(
    [], "--party", "-p", metavar="FILE", help="A party's own file (TOML); repeat for each party."
)
LABEL: str | None = typer.Option(
    None,
    "--label",
    "-l",
    metavar="NAME",
    help="Of a run with several labels, the one that is meant; the first if left out.",
)
