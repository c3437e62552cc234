"""Jobs for scores: people are scored between the sites that trained a model, by what each of them kept of it::

    name = "new customers"
    scores = "596ca27d-8325-4ccd-bb80-460765e4591c"
    parties = ["bank", "clinic"]
    receiver = "bank"

`scores` is the job whose model it is. Without `epsilon` scores are exact: they show the receiver, for every person, the
other parties' part, and are refused for people the model was trained on. With it they carry noise and are charged.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from colonnade.data.declaring import Name, nearest_name
from colonnade.data.documents import Document, Form
from colonnade.errors import OutOfRange, PartyMismatch, PlanError
from colonnade.federation.job import Job
from colonnade.protocols.alignment import Alignment, check_alignment
from colonnade.runtime.group import Group

EXACT, NOISY = "exact-scores", "noisy-scores"
SCORES = (EXACT, NOISY)
"""What a policy must name before a party takes part in scoring."""


class _ScoreForm(Form):
    name: Name
    scores: str
    parties: list[str]
    receiver: str
    server: str = "server"
    epsilon: float | None = None
    delta: float | None = None
    accepted_delta: float | None = None
    alignment: Alignment = "auto"
    timeout: float = 600.0


@dataclass(frozen=True)
class ScoreJob:
    """What the parties agreed to score, and who alone sees it. `epsilon` is 0 where scores are exact."""

    path: Path
    name: str
    model: str
    parties: tuple[str, ...]
    receiver: str
    server: str
    epsilon: float
    delta: float | None
    accepted_delta: float | None
    alignment: Alignment
    timeout: float
    text: str = dataclasses.field(default="", compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, *, name: str = "job") -> ScoreJob:
        """The job in a TOML text; `name` is how messages call it."""
        return cls.of(Document.parse(text, name), Path(name))

    @classmethod
    def of(cls, document: Document, path: Path) -> ScoreJob:
        if isinstance(how := document.data.get("alignment"), str):
            check_alignment(how, document.where(("alignment",)))
        form = document.check(_ScoreForm)
        for field, value, fits, limit in (
            (
                "epsilon",
                form.epsilon,
                form.epsilon is None or form.epsilon > 0,
                "greater than 0, or left out",
            ),
            ("delta", form.delta, form.delta is None or 0 < form.delta < 1, "between 0 and 1"),
            ("timeout", form.timeout, form.timeout > 0, "a number of seconds greater than 0"),
        ):
            if not fits:
                raise OutOfRange(f"{document.where((field,))}: found {value!r}; it must be {limit}.")
        if form.receiver not in form.parties:
            raise PartyMismatch(
                f"{document.where(('receiver',))}: found {form.receiver!r}, which is not among the parties "
                f"({', '.join(form.parties)}).{nearest(form.receiver, form.parties)}"
            )
        job = cls(
            path=path,
            name=form.name,
            model=form.scores,
            parties=tuple(form.parties),
            receiver=form.receiver,
            server=form.server,
            epsilon=form.epsilon or 0.0,
            delta=form.delta,
            accepted_delta=form.accepted_delta,
            alignment=form.alignment,
            timeout=form.timeout,
            text=document.text,
        )
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
    """The job in a TOML file, for a model or for scores."""
    return _of(Document.load(path), Path(path))


def parse_job(text: str, *, name: str = "job") -> Job | ScoreJob:
    """The job in a TOML text, for a model or for scores."""
    return _of(Document.parse(text, name), Path(name))


def _of(document: Document, path: Path) -> Job | ScoreJob:
    return ScoreJob.of(document, path) if "scores" in document.data else Job.of(document, path)
