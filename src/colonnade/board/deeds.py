"""What can be done on a board: the verbs of the command line, by the person who is signed in, noted in the log."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from colonnade.board import views
from colonnade.board.gate import Refused
from colonnade.board.pages import Board
from colonnade.cli.ledger.files import parse_key
from colonnade.crypto.signatures import SigningKey
from colonnade.data.documents import without_passwords
from colonnade.errors import ColonnadeError, InputError
from colonnade.federation.approval import approve, decline

Form = Mapping[str, str]


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
    try:
        key = _key(form.get("key", ""))
        if deed == "approve":
            approve(kit, asked.job, by=person.name, key=key)
        else:
            decline(kit, asked.job, by=person.name, because=form.get("because", ""), key=key)
    except ColonnadeError as error:
        board.acts.note(person, deed, of=asked.job, found=without_passwords(str(error)))
        raise
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


def leave(board: Board, request: Request, _form: Form) -> Response:
    """Sign out."""
    return board.leave(request)


def _key(text: str) -> SigningKey | None:
    if not text.strip():
        return None
    try:
        return parse_key(text)
    except ValueError:
        raise InputError("that is no signing key: paste what is in the file of your key.") from None
