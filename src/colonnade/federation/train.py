"""From a job and its federation to a release, and from the release to a fitted model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import AlignedTable, Table
from colonnade.errors import ColonnadeError, JobError, PlanError, TooFewPeople
from colonnade.federation.federation import Federation, Run
from colonnade.federation.holdout import NoModel, Saves, keep_parts
from colonnade.federation.job import Job
from colonnade.methods.glm.losses import DEFAULT_LOSS, LOSSES
from colonnade.methods.method import LinearModel, Method, NoiseSummary, TrainedModel, TrainingResult, frame_of
from colonnade.methods.network.estimators import NeuralClassifier, NeuralRegressor
from colonnade.methods.network.network_file import NetworkModel, network_parts
from colonnade.methods.table import protocol_named, train_with
from colonnade.models.class_weights import check_classes, of_job, weights_text
from colonnade.models.effects import learning_facts
from colonnade.models.files.document import MODEL
from colonnade.models.files.linear_file import KINDS, Model, ModelFile, model_file, parts_of
from colonnade.models.fitting import NoiseWarning
from colonnade.models.inputs import InputSpec
from colonnade.models.logistic import LogisticRegression
from colonnade.models.pca import PCA
from colonnade.models.release import MomentRelease
from colonnade.models.uncertainty import Watch
from colonnade.protocols.plans import DEFAULT_GAMMA, Plan, TrainingSpec

DEFAULT_COMPONENTS = 2
RELEASE = "release.npz"
_NO_COEFFICIENTS: dict[str, Any] = {
    name: [] for name in ("features", "owners", "rows", "coefficients", "intercept")
}
Neural = NeuralClassifier | NeuralRegressor


@dataclass(frozen=True, eq=False)
class Trained:
    """What to show of a model and, on public data only, how good it is; `failure` says why noise left none."""

    model_facts: dict[str, Any]
    measured: dict[str, float] | None
    notes: tuple[str, ...]
    failure: NoModel | None
    model: Model | Neural | None = None


def spec_of(job: Job) -> TrainingSpec:
    protocol_of(job)
    return job.spec


def protocol_of(job: Job) -> Method:
    return protocol_named(job.method, place=f"{job.path}, method")


def check_people(plan: Plan, noise: NoiseSummary | None) -> None:
    """Refuse a plan for so few people that its noise hides all of them, before it is charged."""
    if noise is None or plan.rows >= noise.people:
        return
    who = "one person is" if plan.rows == 1 else f"{plan.rows} people are"
    raise TooFewPeople(
        f"noise of standard deviation {noise.deviation:.3g} on {noise.on} hides whatever {who} like, so nothing can be "
        f"learnt, and nothing was charged. At least {noise.people} people would do, better many times as many; or "
        "raise epsilon, at which the noise is smaller."
    )


def refuse_unlearnable(job: Job) -> Callable[[Plan, bool], None]:
    """What refuses, before it is charged, a plan for too few people, and options that its classes cannot have."""

    def ask(plan: Plan, counts: bool) -> None:
        # A simulation has no plan, and is refused in its own words.
        if not counts:
            return
        check_people(plan, protocol_of(job).noise(plan))
        for schema in plan.schemas:
            if schema.label is not None and schema.label.classes:
                check_classes(job.options, schema.label.classes)

    return ask


@contextmanager
def prefix_job_errors(job: Job) -> Iterator[None]:
    try:
        yield
    except PlanError as error:
        grid = f", gamma = {job.gamma}" if job.gamma != DEFAULT_GAMMA else ""
        raise type(error)(f"{job.path}{grid}: {error}") from None


def check_components(job: Job, features: int) -> None:
    if job.components is not None and job.components > features:
        raise JobError(
            f"{job.path}, components: found {job.components}, but the parties declare {features} features together. "
            "Ask for at most as many components."
        )


def result_for(job: Job, federation: Federation) -> TrainingResult:
    """Run what a job asks for. Where this raises and `federation.runs` has a run, that one was paid for."""
    check_components(job, federation.features(job.task))
    with prefix_job_errors(job):
        result = train_with(federation, job.method, job.spec)
    if not federation.runs:
        raise JobError(
            f"{job.path}, method: {job.method!r}, as asked here, is a simulation on public data, with no run between "
            f"parties to report on. `colonnade compare {job.path} --methods {job.method}` shows what it does."
        )
    return result


def result_at(job: Job, run: Run[Any]) -> TrainingResult | None:
    return protocol_of(job).model(job.spec, run.outcome.results)


def train_on(
    result: TrainingResult | None,
    job: Job | ModelSpec,
    run: Run[Any] | None,
    *,
    failure: NoModel | None = None,
    public: bool = False,
    watch: Watch | None = None,
) -> Trained:
    """Fit the model that a job asks for. What noise made impossible is a note or a failure, not an exception.

    Where all data is `public`, figures come from rows. Otherwise a model whose weights stay with their parties is not
    put together: no guarantee covers showing them to anybody.
    """
    if result is None:
        return Trained({}, None, (), failure)
    if isinstance(result, TrainedModel) and result.split and not public:
        shape: dict[str, Any] = {
            **_NO_COEFFICIENTS,
            "split": True,
            "paper": [str(figure) for figure in result.figures],
        }
        if isinstance(result, NetworkModel):
            shape = {key: value for key, value in _network_facts(result).items() if key != "curve"}
        return Trained(shape, None, result.notes, None)
    measured = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoiseWarning)
        try:
            model = model_for(job, result).fit(result)
        except ColonnadeError as error:
            return Trained({}, None, (), NoModel.of(error))
    if public and run is not None and job.task != "pca":
        name = "accuracy on the training rows" if job.task == "classification" else "R² on the training rows"
        rows, labels = joined_rows(run.aligned, model.frame_)
        measured = {name: float(model.score(rows, labels))}
    notes = result.notes if isinstance(result, TrainedModel) else ()
    if getattr(model, "class_weight", None) is not None:
        notes += (weights_text(model.class_weight_, counted=isinstance(model.class_weight, str)),)
    notes += tuple(str(warning.message) for warning in caught if issubclass(warning.category, NoiseWarning))
    return Trained(model_facts(model, result, watch), measured, notes, None, model)


def keep_result(
    folder: Path, job: Job, run: Run[Any], result: TrainingResult, model: Model | Neural | None
) -> None:
    if isinstance(result, MomentRelease):
        result.save(folder / RELEASE)
    if isinstance(result, TrainedModel) and result.split:
        keep_parts(folder, _parts(job, run, result))
    elif isinstance(model, Model):
        model_file(model, method=job.method, run=run.name).save(folder / MODEL)


def keep_opened(folder: Path, job: Job, run: Run[Any], result: TrainingResult) -> None:
    """What was paid for, and nothing that takes time: the release, or the model as the run left it."""
    if isinstance(result, MomentRelease) or result.split:
        keep_result(folder, job, run, result, None)
    else:
        keep_result(folder, job, run, result, model_for(job, result).fit(result))


def _parts(job: Job, run: Run[Any], whole: TrainedModel) -> Mapping[str, Saves]:
    kind = type(model_for(job, whole)).__name__
    if isinstance(whole, NetworkModel):
        return network_parts(kind, whole.network, whole.privacy, regime=whole.statement, run=run.name)
    if not isinstance(whole, LinearModel):
        raise TypeError(f"nobody has said how to take apart a {type(whole).__name__}")
    here = ModelFile(
        kind, whole.frame, whole.coefficients, whole.intercepts, whole.privacy, job.method, run.name
    )
    if whole.holder is None:
        return parts_of(here, active=run.plan.group.active)
    return {whole.holder: replace(here, party=whole.holder)} if whole.frame.encoders else {}


@dataclass(frozen=True)
class ModelSpec:
    """What is asked of a model where no job is at hand, or of a label after a job's first: its options are of that."""

    task: str
    components: int | None = None
    options: Any = None


def train_more(
    release: MomentRelease, run: Run[Any] | None, *, public: bool = False, watch: Watch | None = None
) -> list[Trained]:
    """The model of each label after the first, at no further cost; one that noise leaves nothing for says so."""
    views = [release.for_label(name) for name in release.label_names[1:]]
    return [train_on(view, ModelSpec(view.label.task), run, public=public, watch=watch) for view in views]


def model_for(job: Job | ModelSpec, result: TrainingResult) -> Any:
    """The model that a job's task asks for and that what was found is one of, not fitted yet."""
    if isinstance(result, NetworkModel):
        return NeuralClassifier() if job.task == "classification" else NeuralRegressor()
    if job.task != "pca":
        loss = result.loss if isinstance(result, LinearModel) else ""
        kind = KINDS[LOSSES[loss or DEFAULT_LOSS[job.task]].estimator]
        return kind(**of_job(job.options)) if kind is LogisticRegression else kind()
    return PCA(n_components=job.components or min(DEFAULT_COMPONENTS, frame_of(result).columns))


def model_facts(model: Any, result: TrainingResult, watch: Watch | None = None) -> dict[str, Any]:
    """Coefficients or directions by feature, to be shown, and what noise did to them unless `watch` skips it."""
    if isinstance(result, NetworkModel):
        return _network_facts(result)
    rows = np.atleast_2d(model.components_ if isinstance(model, PCA) else model.coef_)
    facts: dict[str, Any] = {
        "features": list(model.frame_.feature_names),
        "owners": list(model.frame_.owners),
        "rows": _row_names(model, len(rows)),
        "coefficients": [[float(value) for value in row] for row in rows],
    }
    if isinstance(model, PCA):
        facts["explained_variance"] = [float(value) for value in model.explained_variance_]
        facts["learnable_rank"] = int(model.learnable_rank_)
    else:
        facts["intercept"] = [float(value) for value in np.atleast_1d(model.intercept_)]
    if isinstance(result, TrainedModel):
        facts["split"] = result.split
        facts["paper"] = [str(figure) for figure in result.figures]
    elif isinstance(model, LogisticRegression):
        counts = result.class_moments().counts
        facts["classes"] = {
            name: float(count) for name, count in zip(result.label.classes, counts, strict=True)
        }
        facts["rule"] = asdict(model.rule_)
    return facts | (learning_facts(result, facts, watch) if isinstance(result, MomentRelease) else {})


def _network_facts(model: NetworkModel) -> dict[str, Any]:
    return {
        "split": True,
        "paper": [],
        **_NO_COEFFICIENTS,
        "network": model.network.design.to_data(),
        "numbers": {party: local.parameters for party, local in model.network.locals.items()},
        "epochs": model.epochs,
        "curve": [asdict(epoch) for epoch in model.history],
    }


def joined_rows(
    tables: Mapping[str, AlignedTable | Table], frame: InputSpec
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """All parties' aligned rows as features, and the labels: only for data that everybody declared public."""
    features = [
        np.concatenate([encoder.encode(block) for block in tables[party].blocks()])
        for party, encoder in frame.encoders
    ]
    scale = math.sqrt(frame.attributes)
    holder = next(table for table in tables.values() if table.schema.label is not None)
    declared = [label.column for label in holder.schema.labels]
    predicted = frame.label.label
    place = 0 if predicted is None or predicted.column not in declared else declared.index(predicted.column)
    values = np.concatenate([block.labels[place] for block in holder.blocks()])
    labels = frame.label.names(values) if frame.label.one_hot else values
    return np.concatenate(features, axis=1) / scale, labels


def _row_names(model: Any, count: int) -> list[str]:
    if isinstance(model, PCA):
        return [f"component {number + 1}" for number in range(count)]
    if model.reading.classifies:
        classes = [str(name) for name in model.frame_.label.classes]
        return classes if count > 1 else [classes[-1]]
    return [model.frame_.label.label.column if model.frame_.label.label is not None else "label"]
