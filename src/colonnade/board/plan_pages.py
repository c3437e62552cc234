"""The pages and acts of planning: a form, a plan with its forecast, the job's file."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from colonnade.board import plans
from colonnade.board.drafts import draft_of, fields_of, next_steps, save
from colonnade.board.forecasts import question
from colonnade.board.gate import Refused
from colonnade.board.pages import Board, Form, download
from colonnade.data.documents import without_passwords
from colonnade.errors import ColonnadeError


class PlanPages:
    """What is looked at when a job is planned."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def form(self, request: Request) -> Response:
        """An empty form, one that begins with a job here, or one as it was sent before."""
        asked = request.query_params
        if asked.get("from"):
            fields = dict(self._board.plans.find(asked["from"]).form)
        else:
            fields = fields_of(self._board.place, asked.get("job", ""))
        return form_page(self._board, request, fields)

    def show(self, request: Request) -> Response:
        """A plan: what it would cost at once, what it would bring as soon as that is known."""
        board, made = self._board, self._board.plans.find(request.path_params["plan"])
        return board.page(
            request,
            "planned.html",
            title=made.draft.job.name,
            key=made.key,
            job=made.draft.job,
            text=made.draft.text,
            facts=made.facts,
            forecast=plans.forecast_facts(board.forecasts.get(_key(made.key))),
            people=made.draft.rows,
            narrowed=list(made.draft.narrowed),
            elsewhere=[party for party in made.draft.job.parties if party not in made.draft.files],
            saved=[str(path) for path in made.saved],
            commands=next_steps(made.draft, made.saved, board.place) if made.saved else [],
        )

    def job_file(self, request: Request) -> Response:
        return download(self._board.plans.find(request.path_params["plan"]).draft.text.encode(), "job.toml")

    async def events(self, request: Request) -> Response:
        """How far the forecast of a plan is."""
        made = self._board.plans.find(request.path_params["plan"])
        forecast = self._board.forecasts.get(_key(made.key))
        return self._board.stream(lambda: None if forecast is None or forecast.ended else forecast.words)


def form_page(
    board: Board, request: Request, fields: dict[str, str], *, wrong: str = "", status: int = 200
) -> Response:
    """The form with what was entered, and what is wrong with it."""
    facts = plans.form_facts(board.place, fields)
    return board.page(
        request, "plan.html", title="Plan", status=status, wrong=wrong, made=board.plans.latest(), **facts
    )


def make_plan(board: Board, request: Request, form: Form) -> Response:
    """Plan what a form asks for, as `colonnade plan` does: nothing is run, written or charged."""
    fields = {name: value for name, value in form.items() if name != "form_token"}
    return _planned(board, request, fields)


def act_on_plan(board: Board, request: Request, form: Form) -> Response:
    """Save the job of a plan, or plan it with another method."""
    made, person = board.plans.find(request.path_params["plan"]), request.state.session.person
    deed = form.get("deed")
    if deed == "method":
        return _planned(board, request, {**made.form, "method": form.get("method", "")})
    if deed != "save":
        raise Refused(400, "A plan is saved, or made with another method.")
    with board.acts.failing(person, "saved a job", of=made.draft.job.name):
        made.saved = save(made.draft, board.place)
    board.acts.note(person, "saved a job", of=str(made.saved[0]))
    return RedirectResponse(f"/plan/{made.key}", 303)


def _planned(board: Board, request: Request, fields: dict[str, str]) -> Response:
    person = request.state.session.person
    try:
        draft = draft_of(board.place, fields, by=person.name)
        facts: dict[str, Any] = plans.promised(draft)
    except ColonnadeError as error:
        return form_page(board, request, fields, wrong=without_passwords(str(error)), status=409)
    made = board.plans.add(draft, facts, fields)
    asked = question(
        draft.text,
        draft.schemas,
        rows=draft.rows,
        files=[file.path for file in draft.files.values()],
        every=draft.every,
    )
    board.forecasts.begin(_key(made.key), asked)
    board.acts.note(person, "planned", of=draft.job.name)
    return RedirectResponse(f"/plan/{made.key}", 303)


def _key(plan: str) -> str:
    return f"plan {plan}"
