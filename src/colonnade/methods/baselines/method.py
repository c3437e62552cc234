"""Baselines as methods: what a trusted party could do with everybody's rows, and vertical training without noise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from colonnade.data.documents import Form
from colonnade.errors import DataError, LabelMismatch
from colonnade.federation.federation import Federation
from colonnade.methods.baselines.descents import CentralLoss, Law, descend, schedule, walk, wander
from colonnade.methods.baselines.gathering import Gathered, check_public, gather, release_of
from colonnade.methods.glm.losses import GlmOptions, Loss, Positive, chosen_loss
from colonnade.methods.glm.models import linear_model, solve_parts
from colonnade.methods.glm.rows import ClippedRows
from colonnade.methods.messages.method import SPLIT
from colonnade.methods.messages.plan import PrivateMessagesOptions
from colonnade.methods.messages.protocol import private_messages_session
from colonnade.methods.method import Array, Baseline, LinearModel, TrainedModel, in_label_units
from colonnade.models.files.document import Privacy
from colonnade.models.release import MomentRelease
from colonnade.noise import DiscreteGaussianNoise
from colonnade.numbers.threads import few_threads
from colonnade.privacy.calibrate import calibrate
from colonnade.privacy.events import Approximated, DiscreteGaussian
from colonnade.privacy.sensitivity.matrix import matrix_change_zero_out
from colonnade.protocols.plans import NoOptions, TrainingSpec, check_parties, options_of
from colonnade.randomness import Randomness

NO_NOISE = "Messages were sent without noise, for comparison: no privacy. Public data only."
ALONE = "The active party trained on its own columns alone. Nothing left it, and nothing reached it."
TOGETHER = "All rows lay in one place, without any privacy, for comparison. Public data only."
# Nothing pulls weights back in an ideal run, and rows that are not stretched need no clipping.
_FAR = 1e6
# 2/β for rows of norm 1, where the loss has a curvature β at most; a guess where it has none.
_RATES = {"logistic": 8.0, "svm": 1.0, "least_squares": 1.0, "poisson": 0.2, "gamma": 0.2}


class IdealOptions(GlmOptions):
    """There is nothing to protect, so there is no radius; `learning_rate` is smaller for losses that bend more."""

    epochs: Annotated[int, Field(ge=1)] = 500
    batch: Annotated[int, Field(ge=1)] | None = None
    learning_rate: Positive | None = None
    seed: Annotated[int, Field(ge=0)] = 0


def ideal(federation: Federation, spec: TrainingSpec) -> TrainedModel:
    options = options_of(spec, IdealOptions)
    return ideal_messages(federation, spec, chosen_loss(spec, options), options)


def ideal_messages(
    federation: Federation, spec: TrainingSpec, loss: Loss, options: IdealOptions
) -> TrainedModel:
    check_public(federation, "protects nobody")
    rate = options.learning_rate or _RATES.get(loss.name, 1.0)
    changed = {"loss": loss.name, "learning_rate": rate, "radius": _FAR, "stretch": 1.0}
    messages = PrivateMessagesOptions.model_validate(options.model_dump() | changed)
    public = replace(spec, options=messages, public=federation.group.owners, alignment=federation.alignment)
    run = federation.run(private_messages_session, public.with_options(calibration="none"))
    plan = run.plan
    weights = {owner: run.result(owner).weights for owner in plan.group.owners}
    notes = (NO_NOISE, SPLIT)
    trained = linear_model(plan.clipped, loss, plan.label, weights, privacy=Privacy(()), notes=notes)
    return replace(trained, run=run)


def alone(federation: Federation, spec: TrainingSpec) -> TrainedModel:
    """The active party without the others: its exact model on its own columns, 0 on everybody else's."""
    options = options_of(spec, GlmOptions)
    return exactly(federation, spec, chosen_loss(spec, options), options, alone=True)


def exactly(
    federation: Federation, spec: TrainingSpec, loss: Loss, options: GlmOptions, *, alone: bool
) -> TrainedModel:
    """The exact model of any loss, of the active party alone or of all rows, on the people in common."""
    if not alone:
        check_public(federation, "protects nobody")
    group = federation.group
    schemas = tuple(federation.tables[owner].schema.public(owner) for owner in group.owners)
    check_parties(group, schemas, spec.task)
    active = group.active or group.owners[0]
    clipped = ClippedRows(schemas, active, stretch=1.0)
    results = federation.align().results
    tables = {owner: results[owner] for owner in ((active,) if alone else group.owners)}
    label = federation.tables[active].schema.label
    if label is None:
        raise LabelMismatch(f"{active} declares no label.")
    loss.check(label)
    parts = {
        owner: np.concatenate([clipped.of(owner, block) for block in table.blocks()])
        for owner, table in tables.items()
    }
    labels = np.concatenate([block.label for block in tables[active].blocks() if block.label is not None])
    targets = loss.targets(label, labels)
    weights = solve_parts(parts, targets, active=active, loss=loss, penalty=options.penalties())
    for owner in group.owners:
        weights.setdefault(owner, np.zeros(clipped.encoders[owner].width))
    notes = (ALONE if alone else TOGETHER,)
    return linear_model(clipped, loss, label, weights, privacy=Privacy(()), notes=notes, split=alone)


IDEAL = Baseline(
    name="vfl-non-private",
    title="vertical training by messages without noise",
    tasks=("classification", "regression"),
    options=IdealOptions,
    simulate=ideal,
    has_epsilon=False,
)
SINGLE = Baseline(
    name="single-party",
    title="the active party alone, exact",
    tasks=("classification", "regression"),
    options=GlmOptions,
    simulate=alone,
    has_epsilon=False,
    public_only=False,
)


# Where the mean loss is as flat as this it is at its least.
_FLAT = 1e-6


def exact_classes(features: Array, classes: NDArray[np.int64], *, penalty: float) -> tuple[Array, Array]:
    """Least summed log-loss plus penalty/2·‖weights‖²; `classes` are numbered from 0 and all occur."""
    # Loading it takes longer than most runs wait for anything, and few are compared with no privacy.
    from scipy.optimize import minimize

    count, width = features.shape
    occurring = int(classes.max()) + 1
    loss = CentralLoss("classes", classes, outputs=1 if occurring == 2 else occurring)
    everybody = np.arange(count)
    bordered = np.column_stack([features, np.ones(count)])
    ridge = np.append(np.full(width, penalty / count), 0.0)

    def objective(point: Array) -> tuple[float, Array]:
        weights = point.reshape(loss.outputs, width + 1)
        scores = bordered @ weights.T
        slope = loss.residuals(scores, everybody).T @ bordered / count + ridge * weights
        return float(loss.values(scores, everybody).mean() + (ridge * weights**2).sum() / 2), slope.ravel()

    with few_threads(bordered.size):
        solution = minimize(
            objective,
            np.zeros(loss.outputs * (width + 1)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 2000, "maxfun": 10_000, "ftol": 1e-13, "gtol": _FLAT},
        )
    weights = np.asarray(solution.x).reshape(loss.outputs, width + 1)
    return weights[:, :-1], weights[:, -1]


def gaussian_release(rows: Gathered, *, randomness: Randomness) -> MomentRelease:
    """The moments with discrete Gaussian noise: σ² on the diagonal, σ²/2 off it, within (ε, δ) of the plan.

    Guarantee: a zeroed record changes the matrix by D with F² = Σ Dᵢᵢ² + 2 Σ Dᵢⱼ² at most that of
    `matrix_change_zero_out`, and D_α ≤ α F²/2σ² for every order α, as for one discrete Gaussian of variance σ² and
    sensitivity F (docs/proofs/baselines.md). `mu` of the release is half the variance on the diagonal, as
    everywhere; its law is another.
    """
    plan = rows.plan
    change = Fraction(matrix_change_zero_out(plan.shape_of_all_but(None)).frobenius)
    variance = _variance(change, plan.coefficients, epsilon=plan.spec.epsilon, delta=plan.delta)
    diagonal = DiscreteGaussianNoise(variance).draw(plan.size, randomness)
    off_diagonal = DiscreteGaussianNoise(variance / 2).draw((plan.size, plan.size), randomness)
    upper = np.triu(off_diagonal, 1)
    noisy = rows.moments() + upper + upper.T + np.diag(diagonal)
    edge = sum(plan.widths.values())
    noisy[edge:, edge:] *= plan.labels.opened
    guarantees = rows.privacy(Approximated(DiscreteGaussian(change, variance), draws=plan.coefficients))
    return release_of(
        plan, noisy, mu=variance / 2, guarantees=guarantees, reproducible=randomness.reproducible
    )


@lru_cache(maxsize=256)
def _variance(sensitivity: Fraction, entries: int, *, epsilon: float, delta: float) -> Fraction:
    return calibrate(
        lambda variance: Approximated(DiscreteGaussian(sensitivity, variance), draws=entries),
        epsilon=epsilon,
        delta=delta,
    )


NO_PRIVACY = "This model was trained without any privacy, for comparison."
# Below this penalty, in units of the summed loss, only classes that a line separates exactly would differ.
_PENALTY = 1e-3
_NEVER = 1e9


class DescentOptions(Form):
    """A step takes a twentieth of the rows unless `batch` says how many; the rate is 8 for classes, ½ for numbers."""

    epochs: Annotated[int, Field(ge=1)] = 20
    batch: Annotated[int, Field(ge=1)] | None = None
    clip: Annotated[float, Field(gt=0)] = 1.0
    learning_rate: Annotated[float, Field(gt=0)] | None = None


class LaplaceOptions(DescentOptions):
    """The same with Laplace noise, where every further look at a record costs as much as the first."""

    epochs: Annotated[int, Field(ge=1)] = 3
    clip: Annotated[float, Field(gt=0)] = 4.0


class WalkOptions(Form):
    """How far private Frank-Wolfe may go, in steps and in the L1 norm of its weights: 10 for classes, 2 for numbers."""

    steps: Annotated[int, Field(ge=1)] = 60
    radius: Annotated[float, Field(gt=0)] | None = None


def without_privacy(federation: Federation, spec: TrainingSpec) -> TrainedModel | MomentRelease:
    rows = gather(federation, spec)
    if spec.task == "pca":
        return release_of(rows.plan, rows.moments(), mu=Fraction(0), reproducible=False)
    if not rows.plan.label.one_hot:
        centre, middle = rows.features.mean(axis=0), rows.labels.mean()
        line = np.linalg.lstsq(rows.features - centre, rows.labels - middle, rcond=None)[0]
        coefficients, intercepts = line[None, :], np.atleast_1d(middle - centre @ line)
    else:
        occurring, classes = np.unique(rows.labels, return_inverse=True)
        if len(occurring) < 2:
            raise DataError("only one class occurs among the rows, so there is nothing to tell apart.")
        fitted = exact_classes(rows.features, classes, penalty=_PENALTY)
        coefficients, intercepts = _of_all_classes(*fitted, occurring, width=rows.plan.label.width)
    return LinearModel(coefficients, intercepts, frame=rows.frame, privacy=Privacy(()), notes=(NO_PRIVACY,))


def frank_wolfe(federation: Federation, spec: TrainingSpec) -> TrainedModel:
    options = options_of(spec, WalkOptions)
    rows = gather(federation, spec)
    if rows.loss.outputs > 1:
        raise LabelMismatch(
            f"private Frank-Wolfe is for two classes or a number; {rows.plan.label.width} classes are declared."
        )
    classes = rows.plan.label.one_hot
    radius = options.radius or (10.0 if classes else 2.0)
    plan = walk(options.steps, radius=radius, epsilon=spec.epsilon, delta=rows.delta)
    # The algorithm's ball is about features of modulus at most 1, not about rows of norm at most 1.
    scale = np.sqrt(rows.plan.attributes)
    features = np.column_stack([rows.features * scale, np.ones(rows.plan.rows)])
    bound = 1.0 if classes else 1.0 + radius
    randomness = federation.randomness("trusted party")
    weights = wander(features, rows.loss, plan, bound=bound, randomness=randomness)
    weights[:-1] *= scale
    privacy = rows.privacy(plan.event, reproducible=randomness.reproducible)
    return _linear_model(rows, weights[None, :], privacy)


def _descended(federation: Federation, spec: TrainingSpec, *, law: Law) -> TrainedModel:
    options, rows = options_of(spec, DescentOptions), gather(federation, spec)
    plan = schedule(
        rows.plan.rows,
        entries=rows.loss.outputs * rows.bordered.shape[1],
        law=law,
        epochs=options.epochs,
        batch=options.batch or max(1, rows.plan.rows // 20),
        epsilon=spec.epsilon,
        delta=rows.delta,
    )
    randomness = federation.randomness("trusted party")
    rate = options.learning_rate or (8.0 if rows.plan.label.one_hot else 0.5)
    how = {"clip": options.clip, "learning_rate": rate}
    weights = descend(rows.bordered, rows.loss, plan, randomness=randomness, **how)
    delta = None if law == "gaussian" else 0.0
    privacy = rows.privacy(plan.event, delta=delta, reproducible=randomness.reproducible)
    return _linear_model(rows, weights, privacy)


def _linear_model(rows: Gathered, weights: Array, privacy: Privacy) -> TrainedModel:
    learnt = in_label_units(rows.plan.label, weights[:, :-1], weights[:, -1])
    return LinearModel(*learnt, frame=rows.frame, privacy=privacy)


def _of_all_classes(
    coefficients: Array, intercepts: Array, occurring: NDArray[Any], *, width: int
) -> tuple[Array, Array]:
    """A class that does not occur is never predicted."""
    if width == 2:
        return coefficients, intercepts
    if len(occurring) == 2:
        coefficients = np.concatenate([np.zeros_like(coefficients), coefficients])
        intercepts = np.concatenate([np.zeros_like(intercepts), intercepts])
    all_coefficients = np.zeros((width, coefficients.shape[1]))
    all_intercepts = np.full(width, -_NEVER)
    all_coefficients[occurring.astype(np.int64)] = coefficients
    all_intercepts[occurring.astype(np.int64)] = intercepts
    return all_coefficients, all_intercepts


BASELINES: tuple[Baseline, ...] = (
    Baseline(
        name="non-private",
        title="no privacy, exact",
        tasks=("classification", "regression", "pca"),
        options=NoOptions,
        simulate=without_privacy,
        has_epsilon=False,
    ),
    Baseline(
        name="central",
        title="central Gaussian moments",
        tasks=("classification", "regression", "pca"),
        options=NoOptions,
        simulate=lambda federation, spec: gaussian_release(
            gather(federation, spec), randomness=federation.randomness("trusted party")
        ),
    ),
    Baseline(
        name="dp-sgd",
        title="central DP-SGD",
        tasks=("classification", "regression"),
        options=DescentOptions,
        simulate=partial(_descended, law="gaussian"),
    ),
    Baseline(
        name="dp-sgd-laplace",
        title="central DP-SGD, Laplace",
        tasks=("classification", "regression"),
        options=LaplaceOptions,
        simulate=partial(_descended, law="laplace"),
    ),
    Baseline(
        name="frank-wolfe",
        title="central private Frank-Wolfe",
        tasks=("classification", "regression"),
        options=WalkOptions,
        simulate=frank_wolfe,
    ),
)
