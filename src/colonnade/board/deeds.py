"""What can be done on a board: the verbs of the command line, by the person who is signed in, noted in the log."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from colonnade.board import views
from colonnade.board.gate import Refused
from colonnade.board.pages import Board, Form, download
from colonnade.cli.ledger.files import parse_key, signing_key
from colonnade.cli.recover import recovered
from colonnade.crypto.signatures import SigningKey
from colonnade.errors import InputError
from colonnade.federation.approval import approve, decline
from colonnade.ledger import Ledger
from colonnade.ledger.export import export

EXPORT_KEY = "export.key"
"""The board's own key for exports, in the kit or the folder; only its owner may read it."""


def decide(board: Board, request: Request, form: Form) -> Response:
    """Approve a job or decline it, as `colonnade party approve` and `decline` do."""
    kit, asked, person = board.place.kit, board.asked(request), request.state.session.person
    deed = form.get("decision")
    if kit is None or deed not in ("approve", "decline"):
        raise Refused(400, "A job is approved or declined.")
    if form.get("digest") != asked.digest:
        raise InputError(
            f"job {asked.job} asks for something else than when the page was made. Nothing was decided. Read it again."
        )
    with board.acts.failing(person, deed, of=asked.job):
        key = _key(form.get("key", ""))
        if deed == "approve":
            approve(kit, asked.job, by=person.name, key=key, patience=board.place.patience)
        else:
            because = form.get("because", "")
            decline(kit, asked.job, by=person.name, because=because, key=key, patience=board.place.patience)
    board.acts.note(person, deed, of=asked.job)
    return RedirectResponse(f"/requests/{asked.job}", 303)


def check_rows(board: Board, request: Request, _form: Form) -> Response:
    """Read every row of a party's file against its schema, as `colonnade doctor` does."""
    own = board.named_file(request)
    findings, clipped = views.checked(own, board.place)
    board.acts.note(request.state.session.person, "checked rows", of=own.path.name)
    return board.page(
        request, "checked.html", title="Rows", file=views.data(own), findings=findings, clipped=clipped
    )


def recover(board: Board, request: Request, _form: Form) -> Response:
    """Finish a run that was stopped after its release was paid for, as `colonnade recover` does."""
    name, person = request.path_params["run"], request.state.session.person
    path = board.place.runs.folder / board.place.runs.find(name).name
    with board.acts.failing(person, "recovered a run", of=name):
        place, _ = recovered(path)
    board.acts.note(person, "recovered a run", of=name)
    return RedirectResponse(f"/runs/{quote(place.name)}", 303)


def sign_export(board: Board, request: Request, form: Form) -> Response:
    """Every entry of a ledger, signed, as `colonnade ledger --export --key` writes it.

    Without a key of the person's own it is the board's, which is made when it is first needed.
    """
    person = request.state.session.person
    with board.acts.failing(person, "exported a ledger", of=request.path_params["key"]):
        view = board.named_ledger(request)
        key = _key(form.get("key", "")) or signing_key(board.place.folder / EXPORT_KEY)
        text = export(Ledger.open(view.path, patience=board.place.patience), key)
    board.acts.note(person, "exported a ledger", of=f"{view.key}, signed by {key.public.hex()}")
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
