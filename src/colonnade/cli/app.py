"""The verbs, put together, and what happens when one of them fails.

Exit codes: 0 done; 2 the command line itself is wrong; 3 input; 4 plan; 5 privacy, a release was refused;
6 ledger; 7 protocol; 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import typer

from colonnade import __version__
from colonnade.cli import demo, ledger, train
from colonnade.cli.screen import complain
from colonnade.errors import ColonnadeError

INTERRUPTED = 130
# Typer carries its own copy of the class that all mistakes on a command line share, and names only this heir.
_UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="colonnade",
    help="Private learning on columns that different organisations hold about the same people.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("ledger")(ledger.ledger)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"colonnade {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Say which version."
    ),
) -> None:
    """Options of the whole command line."""


def run(arguments: list[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in given
    try:
        result = app(args=given, standalone_mode=False, prog_name="colonnade")
        return int(result) if isinstance(result, int) else 0
    except ColonnadeError as error:
        _report(type(error).__name__, str(error), error.exit_code, as_json)
        return error.exit_code
    except _UsageError as error:
        _report("UsageError", error.format_message(), error.exit_code, as_json)
        return int(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _report(
            "Interrupted",
            "stopped. No half-written file was left. What a ledger had charged stays charged; see `colonnade ledger`.",
            INTERRUPTED,
            as_json,
        )
        return INTERRUPTED
    except BrokenPipeError:
        return 0


def _report(kind: str, message: str, code: int, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"error": {"kind": kind, "message": message, "exit_code": code}}))
    else:
        complain(message)
