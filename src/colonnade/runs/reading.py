"""Finished and failed runs on the disk, of one process or at a site: how a person names one, and what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.errors import InputError, ModelDamaged, ModelError
from colonnade.federation.files import FACTS, LOG, OUTCOME, PAID, check_format, is_sealed
from colonnade.report.plain import Section, lines_text
from colonnade.runs.drafts import FAILED, holds_paid, left_behind, name_of

if TYPE_CHECKING:
    from colonnade.models.files.linear_file import ModelFile
    from colonnade.models.release import MomentRelease
    from colonnade.report.record import FailureRecord, RunRecord

RUNS = Path("runs")
RECORDS = (FACTS, FAILED, OUTCOME)
UNFINISHED = "unfinished"
"""Paid for and not written to its end: `colonnade recover` does."""
GOES_ON = "running or killed"
"""A member's job that left a log and no record."""


@dataclass(frozen=True, eq=False)
class RunFolder:
    """One run: its folder and its facts as they were read; of one that failed, or as a member of a site noted them."""

    path: Path
    facts: dict[str, Any]

    @cached_property
    def run(self) -> RunRecord:
        from colonnade.report.record import RunRecord

        return RunRecord.model_validate(self.facts)

    @cached_property
    def failure(self) -> FailureRecord:
        from colonnade.report.record import FailureRecord

        return FailureRecord.model_validate(self.facts)

    @property
    def failed(self) -> bool:
        return self.facts.get("state") == "failed"

    @property
    def state(self) -> str:
        state = self.facts.get("state")
        if self.recorded or state in (UNFINISHED, GOES_ON, "failed"):
            return str(state)
        return "done" if self.facts.get("model_facts") else "no model"

    @property
    def record(self) -> Path:
        return next(self.path / name for name in RECORDS if name == OUTCOME or (self.path / name).is_file())

    @property
    def recorded(self) -> bool:
        """Whether there is only what a member of a job noted: it failed, or was for scores."""
        return "member" in self.facts


def find_run(given: Path) -> RunFolder:
    """The run that a person means: a folder, its facts.json, or a name within `runs`."""
    named = given.name in (*RECORDS, "report.html") and given.is_file()
    path = given.parent if named else given
    for place in (path, RUNS / path):
        if is_run(place):
            return read_run(place)
    known = [str(run) for run in (*runs_in(RUNS), *runs_in(path), *runs_in(path.parent))]
    meant = _nearest_run(path, known)
    if path.exists():
        raise ModelError(f"{path} is not a run: it holds neither {FACTS} nor {FAILED} nor {OUTCOME}.{meant}")
    raise ModelError(f"there is no run {path}.{meant}")


def release_of(given: Path) -> MomentRelease:
    """The release of the run that a person means, or of a file; a `ModelError` where a run left none."""
    from colonnade.federation.train import RELEASE
    from colonnade.models.release import MomentRelease

    if given.is_file() and given.suffix == ".npz":
        return MomentRelease.load(given)
    run = find_run(given)
    if not (run.path / RELEASE).is_file():
        raise ModelError(
            f"{run.path} has no {RELEASE}: {'the run failed' if run.failed else 'its method releases no moments'}. "
            'Train with method = "moments".'
        )
    return MomentRelease.load(run.path / RELEASE)


def is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in RECORDS)


def read_run(folder: Path) -> RunFolder:
    path = next(folder / name for name in RECORDS if (folder / name).is_file())
    facts = _sealed(path)
    if path.name == OUTCOME and not {"member", "state"} <= facts.keys():
        raise ModelDamaged(f"{path} holds no facts of a run: it was changed since the run wrote it.")
    return RunFolder(folder, facts)


def _sealed(path: Path) -> dict[str, Any]:
    """What a file of this version says, unchanged since it was written."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError):
        raise ModelDamaged(f"{path} is not JSON: it was changed or cut off since the run wrote it.") from None
    if not isinstance(facts, dict):
        raise ModelDamaged(f"{path} holds no facts of a run: it was changed since the run wrote it.")
    check_format(facts, path)
    if not is_sealed(facts):
        raise ModelDamaged(
            f"{path} was changed since the run wrote it: its digest is gone or of other facts, so no ε in it can be "
            "trusted. What each party was charged is in its ledger (`colonnade ledger PARTY`), and a report.html "
            "beside it may be as it was. Put the file back as it was."
        )
    return facts


def runs_in(folder: Path) -> tuple[Path, ...]:
    """The folders right below one that hold runs, by name; none if it cannot be looked into."""
    try:
        return tuple(
            sorted(path for path in folder.iterdir() if not path.name.startswith(".") and is_run(path))
        )
    except OSError:
        return ()


def unfinished_in(folder: Path) -> tuple[RunFolder, ...]:
    """The runs that were to be right below a folder and were stopped after they had kept what was paid for."""
    try:
        drafts = sorted(folder.glob(".*.draft"))
    except OSError:
        return ()
    return tuple(filter(None, map(unfinished, drafts)))


def unfinished(draft: Path) -> RunFolder | None:
    """The run that was to be made of a draft, if it was stopped after it had kept what was paid for."""
    with left_behind(draft) as free:
        if not free:
            return None
        return RunFolder(name_of(draft), {**_recorded(draft), "state": UNFINISHED})


def not_ended_in(folder: Path) -> tuple[RunFolder, ...]:
    """The jobs of a kit that left no record: their member takes part now, or its process was killed."""
    return tuple(filter(None, (not_ended(log.parent) for log in sorted(folder.glob(f"*/{LOG}")))))


def not_ended(folder: Path) -> RunFolder | None:
    if is_run(folder) or not (folder / LOG).is_file():
        return None
    return RunFolder(folder, {"state": UNFINISHED if holds_paid(folder) else GOES_ON})


def _recorded(draft: Path) -> dict[str, Any]:
    try:
        facts = json.loads((draft / PAID).read_text(encoding="utf-8"))["facts"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return facts if isinstance(facts, dict) else {}


def with_facts(run: RunFolder) -> RunFolder:
    """The run, if it has facts to make something of; else an `InputError` that says why it has none."""
    if run.recorded and run.failed:
        raise InputError(f"{run.path}: the run failed ({run.facts.get('reason', 'for no known reason')}).")
    if run.recorded and "scores" in run.facts:
        raise ModelError(
            f"{run.path} is of a job for scores, by the model of job {run.facts['scores']}: that one's run has the "
            "report. The scores are in parties/NAME.scores.csv at the party that asked."
        )
    if run.recorded:
        raise ModelDamaged(f"{run.path}: the run has ended, and its {FACTS} is gone. Put the file back.")
    return run


def recorded_text(run: RunFolder) -> str:
    facts = run.facts
    lines = [
        str(facts.get("job", "")),
        f"  {facts['state']}, as {facts['member']} noted it, job {facts.get('id')}",
    ]
    if run.failed:
        lines += ["", f"It stopped at step {facts.get('step', '')!r}: {facts.get('reason', '')}"]
        lines += ["What the ledger had charged by then stays charged; `colonnade ledger` has it."]
        return lines_text(lines)
    lines += [
        f"  {facts.get('rows')} people, run {str(facts.get('run', ''))[:12]}",
        "",
        "What each observer can learn at most",
    ]
    lines += [
        f"- {sentence}"
        for sentence in (*facts.get("guarantees", ()), *filter(None, [facts.get("statement")]))
    ]
    return lines_text(lines)


@contextmanager
def readable(run: RunFolder) -> Iterator[None]:
    """Facts that lack something, because another version wrote them or somebody changed them, are told as that."""
    from jinja2 import UndefinedError
    from pydantic import ValidationError

    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, UndefinedError, ValidationError) as error:
        from colonnade import __version__

        version = run.facts.get("version", "an unknown version")
        reason = f"{type(error).__name__} {error}"
        if isinstance(error, ValidationError):
            first = error.errors(include_input=False, include_url=False)[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise ModelError(
            f"{run.record} cannot be shown: {reason}. It was written by Colonnade {version}, and "
            f"this is {__version__}; or it was changed since. A report.html beside it is as it was."
        ) from None


def read_or_damaged(place: Path) -> RunFolder:
    try:
        return read_run(place)
    except InputError:
        # One damaged run must not hide the others; `show` says what is wrong with it.
        return RunFolder(place, {"state": "unreadable"})


def run_line(run: RunFolder) -> dict[str, Any]:
    """One run as a line of a list: what was asked, how good it is, when it was and how it ended."""
    from pydantic import ValidationError

    from colonnade.report.evaluation import score_text
    from colonnade.report.record import EvaluationRecord

    facts, score = run.facts, None
    if facts.get("evaluated"):
        with suppress(ValidationError):
            score = score_text(EvaluationRecord.model_validate(facts["evaluated"]))
    plan, epsilon = facts.get("plan"), facts.get("epsilon")
    if isinstance(plan, dict):
        # What promises nothing has none.
        epsilon = plan.get("spec", {}).get("epsilon") if facts.get("guarantees", True) else None
    return {
        "run": str(run.path),
        "name": facts.get("job") if run.recorded else facts.get("name"),
        "task": facts.get("task"),
        "epsilon": epsilon,
        "rows": facts.get("rows"),
        "score": score,
        "date": str(facts.get("time", facts.get("started", "")))[:19].replace("T", " "),
        "state": "unreadable" if facts.get("state") == "unreadable" else run.state,
    }


def page_of(run: RunFolder, alongside: Sequence[Path] = ()) -> str:
    """The page of a run, with the audit that was made of it since, if there is one, and what is in other folders."""
    from pydantic import ValidationError

    from colonnade.report.html import run_page
    from colonnade.report.lab import audit_section
    from colonnade.report.record import AuditRecord

    path, audit = run.path / "audit.json", None
    try:
        audit = audit_section(AuditRecord.model_validate(_sealed(path))) if path.exists() else None
    except ValidationError:
        raise ModelError(f"{path} was changed since it was written. Remove it, or audit again.") from None
    return run_page(run.run, [_section(folder) for folder in alongside], audit=audit)


def _section(folder: Path) -> Section:
    from colonnade.report.comparison import section_of

    named = [folder / name for name in ("comparison.json", FACTS) if (folder / name).is_file()]
    section = section_of(_sealed(named[0] if named else folder / FACTS))
    if section is None:
        raise InputError(
            f"--with: {folder} is neither of an attack nor of a comparison. Name a folder that `colonnade attack` or "
            "`colonnade compare` made; what `colonnade audit RUN` found is shown without being named."
        )
    return section


def released_model(path: Path, label: str | None = None) -> tuple[ModelFile, RunRecord | None]:
    """The model, of one label perhaps, if its weights were released, and its run's record if it lies beside it."""
    from colonnade.evaluation.predict import Stored
    from colonnade.models.files.linear_file import SPLIT, ModelFile, exportable
    from colonnade.report.text import record_of_label

    stored = Stored.load(path, label)
    if stored.whole is None:
        raise ModelError(f"{path}: {SPLIT}")
    if not isinstance(stored.whole, ModelFile):
        raise ModelError(
            f"{path} is a {stored.whole.kind}, and linear models can be exported. It scores people by "
            f"`colonnade predict {path}`."
        )
    folder = path if path.is_dir() else path.parent
    run = read_run(folder) if (folder / FACTS).is_file() else None
    predicted = stored.whole.frame.label.label
    if run is None:
        return exportable(stored.whole), None
    with readable(run):
        record = run.run
        if record.labels and predicted is not None:
            record = record_of_label(record, predicted.column)
    return exportable(stored.whole), record


def _nearest_run(path: Path, known: Iterable[str]) -> str:
    from colonnade.data.declaring import nearest_name

    names = sorted(set(known))
    if not names:
        return f" There are no runs in {RUNS} either; `colonnade train JOB` makes one."
    by_last = {Path(name).name: name for name in names}
    guess = nearest_name(path.name, by_last) or nearest_name(str(path), names)
    for last, name in by_last.items():
        guess = guess.replace(f"'{last}'", f"'{name}'")
    return guess or f" There are {', '.join(names[:5])}{' and more' if len(names) > 5 else ''}."
