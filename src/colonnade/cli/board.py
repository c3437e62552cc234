"""`colonnade board`: a web page on this machine on which an organisation sees and decides."""

from __future__ import annotations

import getpass
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from colonnade.cli.screen import argument, as_json, note, option, say, say_json
from colonnade.errors import InputError, NotInstalled

PORT = 8765


def board(
    folder: Path = argument(
        "KIT|FOLDER", "A party's kit, or a folder of jobs and runs without a federation."
    ),
    runs: Path | None = option(
        "--runs FOLDER", "Where runs were written, if not in the kit or in runs within FOLDER."
    ),
    person: list[str] = option(
        "--person NAME", "Somebody who may decide; repeat. The account on this machine if left out.", []
    ),
    auditor: list[str] = option("--auditor NAME", "Somebody who may look and decides nothing; repeat.", []),
    port: int = option("--port PORT", "Where to answer; 0 for any that is free.", PORT),
    listen: str = option(
        "--listen ADDRESS", "Another address of this machine; only behind a proxy.", "127.0.0.1"
    ),
    proxy: Path | None = option(
        "--proxy FILE",
        "A proxy that signs people in (TOML): its address, its headers, who may decide and look.",
    ),
) -> None:
    """Open a web page on this machine, on which an organisation sees what was learnt, and decides.

    It shows budgets, runs, requests for approval, the ledger and the data, from what lies in the kit or in the folder.
    Looking runs and charges nothing. Only this machine can open it, with a link that works once; each person has one of
    their own, and what they do is noted under their name.

    Examples (`colonnade demo` writes such a folder):
      colonnade board demo-run
      colonnade board bank/kit --person "Ada Byron" --person "Ben Gurevich" --auditor "Eve Mont"
      colonnade board bank/kit --proxy board.toml
    """
    try:
        from colonnade.board.access import Person, Proxy
        from colonnade.board.server import serve
        from colonnade.board.workspace import Workspace
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn", "anyio", "h11"):
            raise
        raise NotInstalled(
            f"the board needs {error.name}, which is not installed. pip install 'colonnade[board]'."
        ) from None
    if proxy is not None and (person or auditor):
        raise typer.BadParameter(
            "with --proxy its file names who may decide and look, not --person or --auditor."
        )
    names = [*(person or [getpass.getuser()]), *auditor]
    if len({name.casefold() for name in names}) < len(names):
        raise InputError("--person and --auditor: somebody is named twice. Each person has one link.")
    for name in names:
        if not name.strip() or len(name) > 100 or not name.isprintable():
            raise InputError(f"--person: {name!r} is not a valid name of a person: use 1 to 100 letters.")
    people = [Person(name, "officer") for name in names[: len(names) - len(auditor)]]
    people += [Person(name, "auditor") for name in auditor]
    with suppress(KeyboardInterrupt):
        serve(
            Workspace(folder, runs=runs),
            people,
            listen=listen,
            port=port,
            proxy=None if proxy is None else Proxy.load(proxy),
            started=say_json if as_json() else _say,
        )


def _say(facts: dict[str, Any]) -> None:
    if not facts["alone"]:
        note("another board has this open too. Both show the same, and a decision counts once.")
    say(f"The board of {facts['board']} answers at {facts['address']}. Ctrl-C ends it.")
    for one in facts["links"]:
        role = "" if one["role"] == "officer" else ", who looks only"
        say(f"\n{one['name']}{role}, once: {one['link']}")
