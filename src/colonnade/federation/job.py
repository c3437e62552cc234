"""Job files: what the parties of a federation agreed to do, and nothing that belongs to one of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import Field

from colonnade.data.declaring import Name, nearest_name
from colonnade.data.documents import Document, Form, Listed, check_fields
from colonnade.data.encoder import LEAST_GAMMA_NEAREST, MOST_GAMMA
from colonnade.errors import GroupMismatch, LabelMismatch, OutOfRange, PartyMismatch, PlanError
from colonnade.methods.method import Method
from colonnade.methods.table import check_evaluated, checked_options, default_method, method_named
from colonnade.models.class_weights import check_options
from colonnade.protocols.alignment import Alignment, check_alignment
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.plans import DEFAULT_GAMMA, NoOptions, Task, TrainingSpec
from colonnade.runtime.party import Group


class _JobForm(Form):
    name: Name
    task: Task
    method: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    parties: Listed[str]
    active: str | None = None
    server: str = "server"
    computing_parties: Listed[str] | None = None
    threshold: int | None = None
    disclosed_noise: int | None = None
    epsilon: float
    delta: float | None = None
    accepted_delta: float | None = None
    gamma: int = DEFAULT_GAMMA
    verify: Verify | None = None
    components: int | None = None
    alignment: Alignment = "auto"
    timeout: float = 600.0
    held_out: float | None = None


_ROLES: dict[str, Any] = {
    "server": "server",
    "computing_parties": None,
    "threshold": None,
    "disclosed_noise": None,
}


class Job(_JobForm):
    """What the parties agreed to do: its file, checked, with the method and its options.

    `because` says why this method, where the job names none; `text` is the job as it was written, for people.
    """

    method: str
    options: Form  # type: ignore[assignment]
    path: Path
    text: str
    because: str = ""

    @classmethod
    def load(cls, path: str | Path) -> Job:
        return cls.of(Document.load(path), Path(path))

    @classmethod
    def parse(cls, text: str, *, name: str = "job") -> Job:
        return cls.of(Document.parse(text, name), Path(name))

    @classmethod
    def of(cls, document: Document, path: Path) -> Job:
        if isinstance(how := document.data.get("alignment"), str):
            check_alignment(how, document.where(("alignment",)))
        form = document.check(_JobForm)
        share = "a share of the people between 0 and 1; a common choice is 0.2"
        gammas = f"between {LEAST_GAMMA_NEAREST} and {MOST_GAMMA}; leave it out for {DEFAULT_GAMMA}"
        confirmed = f"the same as delta, {form.delta!r}, which it confirms, or be left out"
        only_pca = f"left out, because the task is {form.task!r} and only 'pca' has components"
        check_fields(
            form,
            document,
            ("epsilon", form.epsilon > 0, "greater than 0; a common choice is 1"),
            ("delta", form.delta is None or 0 < form.delta < 1, "between 0 and 1, well below 1/rows"),
            ("held_out", form.held_out is None or 0 < form.held_out < 1, share),
            ("timeout", form.timeout > 0, "a number of seconds greater than 0"),
            ("gamma", LEAST_GAMMA_NEAREST <= form.gamma <= MOST_GAMMA, gammas),
            ("components", form.components is None or form.components > 0, "at least 1"),
            ("components", form.components is None or form.task == "pca", only_pca),
            ("accepted_delta", form.accepted_delta in (None, form.delta), confirmed),
        )
        if form.computing_parties is not None and (
            len(form.computing_parties) < 3 or len(form.computing_parties) % 2 == 0
        ):
            named = ", ".join(form.computing_parties)
            raise GroupMismatch(
                f"{document.where(('computing_parties',))}: found {len(form.computing_parties)} ({named}); so "
                f"that t of them may collude "
                "there must be 2t + 1 computing parties, so 3, 5, 7 and so on. Name more, or leave the field out."
            )
        if form.parties and form.active is not None and form.active not in form.parties:
            raise LabelMismatch(
                f"{document.where(('active',))}: found {form.active!r}, which is not among the parties "
                f"({', '.join(form.parties)}).{nearest_name(form.active, form.parties)}"
            )
        fields = dict(form) | {"method": form.method or "moments", "options": NoOptions()}
        job = cls.model_construct(path=path, text=document.text, **fields)
        try:
            job.group()
        except PlanError as error:
            field = "parties"
            # The field without which the group would be one.
            for name, default in _ROLES.items():
                with suppress(PlanError):
                    job.model_copy(update={name: default}).group()
                    field = name
            raise type(error)(f"{document.where((field,))}: {error}") from None
        return _with_method(job, form, document)

    @property
    def spec(self) -> TrainingSpec:
        # Whose data is public is not a field of a job.
        names = [each.name for each in fields(TrainingSpec) if each.name != "public"]
        return TrainingSpec(**{name: getattr(self, name) for name in names})

    def group(self) -> Group:
        return Group.of(self.parties, active=self.active, **{name: getattr(self, name) for name in _ROLES})


def _with_method(job: Job, form: _JobForm, document: Document) -> Job:
    name, because = form.method, ""
    if name is None and job.verify not in (None, "none"):
        name, because = "moments", "checks of what is dealt were asked for"
    elif name is None:
        name, because = default_method(
            job.task, job.group(), epsilon=job.epsilon, delta=job.delta, gamma=job.gamma
        )
    method = method_named(name, job.task, place=document.where(("method",)))
    options = checked_options(method, form.options, document=document)
    if job.verify not in (None, "none") and not (isinstance(method, Method) and method.checks):
        raise OutOfRange(
            f"{document.where(('verify',))}: found {job.verify!r}, but by method {name!r} nothing that is dealt "
            "is checked. Leave it out, or write 'none'."
        )
    if job.held_out is not None:
        check_evaluated(method, job.task, place=document.where(("held_out",)))
    job = job.model_copy(update={"method": name, "options": options, "because": because})
    check_options(job.options, document, task=job.task, held_out=job.held_out)
    return job


EXACT, NOISY = "exact-scores", "noisy-scores"
SCORES = (EXACT, NOISY)
"""What a policy must name before a party takes part in scoring."""


class _ScoreForm(Form):
    name: Name
    scores: str
    parties: Listed[str]
    receiver: str
    server: str = "server"
    epsilon: float = 0.0
    delta: float | None = None
    accepted_delta: float | None = None
    alignment: Alignment = "auto"
    timeout: float = 600.0


class ScoreJob(_ScoreForm):
    """What the parties agreed to score, and who alone sees it. `epsilon` is 0 where scores are exact."""

    path: Path
    text: str

    @classmethod
    def of(cls, document: Document, path: Path) -> ScoreJob:
        if isinstance(how := document.data.get("alignment"), str):
            check_alignment(how, document.where(("alignment",)))
        form = document.check(_ScoreForm)
        check_fields(
            form,
            document,
            ("epsilon", "epsilon" not in document.data or form.epsilon > 0, "greater than 0, or left out"),
            ("delta", form.delta is None or 0 < form.delta < 1, "between 0 and 1"),
            ("timeout", form.timeout > 0, "a number of seconds greater than 0"),
        )
        if form.receiver not in form.parties:
            raise PartyMismatch(
                f"{document.where(('receiver',))}: found {form.receiver!r}, which is not among the parties "
                f"({', '.join(form.parties)}).{nearest_name(form.receiver, form.parties)}"
            )
        job = cls.model_construct(path=path, text=document.text, **dict(form))
        try:
            job.group()
        except PlanError as error:
            raise type(error)(f"{document.where(('parties',))}: {error}") from None
        return job

    @property
    def method(self) -> str:
        return NOISY if self.epsilon else EXACT

    def group(self) -> Group:
        return Group.of(self.parties, server=self.server)


def load_job(path: str | Path) -> Job | ScoreJob:
    return _of(Document.load(path), Path(path))


def parse_job(text: str, *, name: str = "job") -> Job | ScoreJob:
    return _of(Document.parse(text, name), Path(name))


def _of(document: Document, path: Path) -> Job | ScoreJob:
    return ScoreJob.of(document, path) if "scores" in document.data else Job.of(document, path)
