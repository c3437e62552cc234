"""The verbs, put together, and what happens when one of them fails.

Every complaint has a number, and `colonnade explain NUMBER` says more about it. Exit codes: 0 done; 1 a mistake in
Colonnade; 2 the command line itself is wrong; 3 input; 4 plan; 5 privacy, a release was refused; 6 ledger; 7 protocol;
130 interrupted.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from typing import Any

import typer

from colonnade import __version__
from colonnade.cli import (
    board,
    compare,
    demo,
    doctor,
    explain,
    federation,
    job,
    lab,
    ledger,
    models,
    party,
    plan,
    predict,
    privacy,
    runs,
    schema,
    train,
)
from colonnade.cli.screen import complain, say_json
from colonnade.errors import ColonnadeError, InputError
from colonnade.runs.folders import terminated_as_interrupted

DONE = 0
MISTAKE = 1
INTERRUPTED = 130
INTERRUPTION = (
    "stopped. No half-written folder was left. What a ledger had charged by then stays charged, because it may have "
    "been seen: `colonnade runs` lists such a run, and `colonnade ledger PARTY` shows the charge."
)
TRACEBACK = "COLONNADE_TRACEBACK"
MAX_SHOWN = 120
NUL_IN_PATH = re.compile("embedded null (?:byte|character)")
# Typer carries its own copy of the class that all mistakes on a command line share, and names only this heir.
_UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="colonnade",
    help="Private learning on columns that different organisations hold about the same people.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    # Its tracebacks can show values of variables, which may be data.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("new")(schema.new)
app.command("schema")(schema.schema)
app.command("plan")(plan.plan)
app.command("align")(schema.align)
app.command("train")(train.train)
app.command("compare")(compare.compare)
app.command("attack")(lab.attack)
app.command("audit")(lab.audit)
app.command("predict")(predict.predict)
app.command("evaluate")(predict.evaluate)
app.command("export")(models.export)
app.command("describe")(models.describe)
app.command("synthesize")(models.synthesize)
app.command("runs")(runs.runs)
app.command("recover")(runs.recover)
app.command("show")(runs.show)
app.command("report")(runs.report)
app.command("ledger")(ledger.ledger)
app.command("board")(board.board)
app.add_typer(privacy.app, name="privacy")
app.add_typer(federation.app, name="federation")
app.add_typer(party.app, name="party")
app.add_typer(job.app, name="job")
app.command("doctor")(doctor.doctor)
app.command("explain")(explain.explain)


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
    with terminated_as_interrupted():
        return _run(sys.argv[1:] if arguments is None else arguments)


def _run(given: list[str]) -> int:
    as_json = "--json" in given
    try:
        result = app(args=given, standalone_mode=False, prog_name="colonnade")
        code = int(result) if isinstance(result, int) else DONE
        # Typer makes an exit code of Ctrl-C, and says nothing.
        return _interrupted(as_json) if code == INTERRUPTED else code
    except ColonnadeError as error:
        return _report(type(error).__name__, str(error), error.exit_code, as_json, number=error.number)
    except _UsageError as error:
        if not given:
            typer.echo(error.format_message())
            return DONE
        path = error.ctx.command_path if error.ctx is not None else "colonnade"
        said = error.format_message().rstrip(".")
        message = f"{said}{'' if said.endswith('?') else '.'} See `{path} --help`."
        return _report("UsageError", message, int(error.exit_code), as_json, number=explain.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(as_json)
    except (BrokenPipeError, SystemExit):
        # Typer makes an exit of a broken pipe.
        # Whoever read the output has seen enough; nothing is left to say it to.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        return DONE
    except OSError as error:
        message = _refused_by_system(error)
        return _report("InputError", message, InputError.exit_code, as_json, number=InputError.number)
    except RecursionError:
        message = "a file that was read is nested too deep. Nothing that Colonnade writes is; see if it was changed."
        return _report("InputError", message, InputError.exit_code, as_json, number=InputError.number)
    except Exception as error:
        if isinstance(error, ValueError) and NUL_IN_PATH.search(str(error)):
            message = "a path holds a NUL character, which no file can have in its name. Take it out."
            return _report("InputError", message, InputError.exit_code, as_json, number=InputError.number)
        if os.environ.get(TRACEBACK):
            raise
        return _report("Mistake", _mistake(error), MISTAKE, as_json, number=ColonnadeError.number)


def _refused_by_system(error: OSError) -> str:
    """What the operating system says, of what; a name that is too long is not shown at length."""
    name = "" if error.filename is None else str(error.filename)
    if error.errno == errno.ENAMETOOLONG:
        return f"{name[:MAX_SHOWN]}…: the name has {len(name)} letters, longer than a path can be."
    return f"{name}{': ' if name else ''}{error.strerror or error}."


def _mistake(error: Exception) -> str:
    """Where, but not the message: an unforeseen one may quote data."""
    step = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"a mistake in Colonnade, not in your input: {type(error).__name__} at {step.filename}, line {step.lineno}. "
        f"Set {TRACEBACK}=1 to see all of it, and report it."
    )


def _interrupted(as_json: bool) -> int:
    return _report("Interrupted", INTERRUPTION, INTERRUPTED, as_json, number=explain.INTERRUPTED)


def _report(kind: str, message: str, code: int, as_json: bool, *, number: str) -> int:
    from colonnade.data.documents import without_passwords

    # A file that does not exist is quoted as it was named, and what was named may be how to reach a database.
    message = without_passwords(message)
    if as_json:
        page = explain.page(number)
        say_json(
            {"error": {"kind": kind, "number": number, "page": page, "message": message, "exit_code": code}}
        )
    else:
        complain(message, number)
    return code
