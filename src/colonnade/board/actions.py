"""What can be done on a board: the verbs of the command line, by the person who is signed in, noted in the log."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from colonnade.board import views
from colonnade.board.pages import Board, Form, download
from colonnade.board.request_checks import Refused
from colonnade.crypto.signatures import SigningKey
from colonnade.errors import InputError
from colonnade.federation.approval import approve, decline
from colonnade.ledger import Ledger
from colonnade.ledger.export import export, parse_key, signing_key
from colonnade.runs.recovery import recovered

EXPORT_KEY = "export.key"
"""The board's own key for exports, in the kit or the folder; only its owner may read it."""


def decide(board: Board, request: Request, form: Form) -> Response:
    """Approve a job or decline it, as `colonnade party approve` and `decline` do."""
    kit, job, person = board.workspace.kit, board.find_request(request), request.state.session.person
    decision, patience = form.get("decision"), board.workspace.patience
    if kit is None or decision not in ("approve", "decline"):
        raise Refused(400, "A job is approved or declined.")
    if form.get("digest") != job.digest:
        raise InputError(
            f"job {job.job} asks for something else than when the page was made. Nothing was decided. Read it again."
        )
    with board.log.failures(person, decision, of=job.job):
        key = _key(form.get("key", ""))
        if decision == "approve":
            approve(kit, job.job, by=person.name, key=key, patience=patience)
        else:
            because = form.get("because", "")
            decline(kit, job.job, by=person.name, because=because, key=key, patience=patience)
    board.log.write(person, decision, of=job.job)
    return RedirectResponse(f"/requests/{job.job}", 303)


def check_rows(board: Board, request: Request, _form: Form) -> Response:
    """Read every row of a party's file against its schema."""
    own = board.find_own_file(request)
    facts = views.checked_rows(own)
    board.log.write(request.state.session.person, "checked rows", of=own.path.name)
    return board.page(request, "rows.html", title="Rows", **facts)


def recover(board: Board, request: Request, _form: Form) -> Response:
    """Finish a run that was stopped after its release was paid for, as `colonnade recover` does."""
    name, person = request.path_params["run"], request.state.session.person
    path = board.workspace.runs.folder / board.workspace.runs.find(name).name
    with board.log.failures(person, "recovered a run", of=name):
        folder, _ = recovered(path)
    board.log.write(person, "recovered a run", of=name)
    return RedirectResponse(f"/runs/{quote(folder.name)}", 303)


def sign_export(board: Board, request: Request, form: Form) -> Response:
    """Every entry of a ledger, signed, as `colonnade ledger --export --key` writes it.

    Without a key of the person's own it is the board's, which is made when it is first needed.
    """
    person = request.state.session.person
    with board.log.failures(person, "exported a ledger", of=request.path_params["key"]):
        view = board.find_ledger(request)
        key = _key(form.get("key", "")) or signing_key(board.workspace.folder / EXPORT_KEY)
        text = export(Ledger.open(view.path, patience=board.workspace.patience), key)
    board.log.write(person, "exported a ledger", of=f"{view.key}, signed by {key.public.hex()}")
    return download(text.encode(), f"{view.key}.json")


def leave(board: Board, request: Request, _form: Form) -> Response:
    return board.leave(request)


def _key(text: str) -> SigningKey | None:
    if not text.strip():
        return None
    try:
        return parse_key(text)
    except ValueError:
        raise InputError("that is no signing key: paste what is in the file of your key.") from None
