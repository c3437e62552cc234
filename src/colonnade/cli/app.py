"""The verbs, put together, and what happens when one of them fails.

Every complaint has a number, and `colonnade explain NUMBER` says more about it. Exit codes: 0 done; 1 an internal
error; 2 the command line itself is wrong; 3 input; 4 plan; 5 privacy, a release was refused; 6 ledger; 7 protocol;
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
from colonnade.cli.screen import complain, group, say_json
from colonnade.errors import ColonnadeError, InputError
from colonnade.runs.drafts import terminated_as_interrupted

DONE = 0
INTERNAL = 1
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

app = group(
    "Private learning on columns that different organisations hold about the same people.",
    *(demo.demo, schema.new, schema.schema, plan.plan, schema.align, train.train, compare.compare),
    *(lab.attack, lab.audit, predict.predict, predict.evaluate),
    *(models.export, models.describe, models.synthesize),
    *(runs.runs, runs.recover, runs.show, runs.report, ledger.ledger, board.board),
    *(doctor.doctor, explain.explain),
    name="colonnade",
    # Its tracebacks can show values of variables, which may be data.
    pretty_exceptions_enable=False,
)
for named, verbs in (("privacy", privacy), ("federation", federation), ("party", party), ("job", job)):
    app.add_typer(verbs.app, name=named)


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
    except Exception as error:
        if message := _refused_input(error):
            return _report("InputError", message, InputError.exit_code, as_json, number=InputError.number)
        if os.environ.get(TRACEBACK):
            raise
        # Where, but not the message: an unforeseen one may quote data.
        step = traceback.extract_tb(error.__traceback__)[-1]
        message = (
            f"an internal error, not a mistake in your input: {type(error).__name__} at {step.filename}, line "
            f"{step.lineno}. Set {TRACEBACK}=1 to see all of it, and report it."
        )
        # What a verb adds is its own words: what stays charged, and where the record is.
        message = " ".join((message, *getattr(error, "__notes__", ())))
        return _report("InternalError", message, INTERNAL, as_json, number=ColonnadeError.number)


def _refused_input(error: Exception) -> str:
    """What the system or Python says of a path or a file that was given; nothing of any other error."""
    if isinstance(error, OSError):
        name = "" if error.filename is None else str(error.filename)
        if error.errno == errno.ENAMETOOLONG:
            return f"{name[:MAX_SHOWN]}…: the name has {len(name)} letters, longer than a path can be."
        return f"{name}{': ' if name else ''}{error.strerror or error}."
    if isinstance(error, RecursionError):
        return "a file that was read is nested too deep. Nothing that Colonnade writes is; see if it was changed."
    if isinstance(error, ValueError) and NUL_IN_PATH.search(str(error)):
        return "a path holds a NUL character, which no file can have in its name. Take it out."
    return ""


def _interrupted(as_json: bool) -> int:
    return _report("Interrupted", INTERRUPTION, INTERRUPTED, as_json, number=explain.INTERRUPTED)


def _report(kind: str, message: str, code: int, as_json: bool, *, number: str) -> int:
    from colonnade.data.documents import without_passwords

    # A file that does not exist is quoted as it was named, and what was named may be how to reach a database.
    message = without_passwords(message)
    if as_json:
        facts = {"kind": kind, "number": number, "page": explain.page(number), "message": message}
        say_json({"error": {**facts, "exit_code": code}})
    else:
        complain(message, number)
    return code
