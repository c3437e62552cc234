"""What came of a run, computed to its end: whoever writes or shows it fits nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.errors import ColonnadeError
from colonnade.evaluation.estimates import Estimate
from colonnade.evaluation.evaluate import Evaluation
from colonnade.evaluation.held_out import HeldOut, decided, estimate_alone
from colonnade.federation.federation import Federation, Run, Site
from colonnade.federation.job import Job
from colonnade.federation.train import Trained, train_more, train_on
from colonnade.methods.method import TrainingResult
from colonnade.models.release import MomentRelease
from colonnade.models.uncertainty import Watch


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A model of each label, the job's own first; `alone` is how good the label holder's own columns would be."""

    job: Job
    run: Run[Any]
    result: TrainingResult | None
    models: tuple[Trained, ...]
    notes: tuple[str, ...]
    evaluation: Evaluation | None
    alone: Estimate | None

    @property
    def failure(self) -> ColonnadeError | None:
        return self.models[0].failure


def finish_training(
    job: Job,
    run: Run[Any],
    place: Federation | Site,
    result: TrainingResult | None,
    *,
    failure: ColonnadeError | None = None,
    evaluation: HeldOut = None,
    watch: Watch | None = None,
) -> TrainedRun:
    """Fit every model of a run, with what noise did to it unless `watch` skips that.

    `failure` is why nothing came of it, if nothing did; `evaluation` is how good it is on the people held out, or why
    that is not known.
    """
    watch = watch or Watch()
    first = train_on(result, job, run, failure=failure, public=place.public, watch=watch)
    skipped = watch.skipped
    found, threshold = decided(job, first, evaluation)
    more = []
    if isinstance(result, MomentRelease):
        more = train_more(result, run, public=place.public, watch=watch)
    evaluated = found if isinstance(found, Evaluation) else None
    notes = (
        *first.notes,
        f"No model was learnt: {first.failure}" if first.failure else "",
        found if isinstance(found, str) else "",
        evaluated.note if evaluated is not None else "",
        threshold,
        skipped,
    )
    return TrainedRun(
        job,
        run,
        result,
        (first, *more),
        tuple(filter(None, notes)),
        evaluated,
        None if evaluated is None else estimate_alone(run, evaluated),
    )
