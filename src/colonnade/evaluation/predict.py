"""Scores of people by a model from a file: anywhere by released weights, or between the parties of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from colonnade.data.block import Wrong, usable_blocks
from colonnade.data.declaring import nearest_name
from colonnade.data.files import csv_text, open_file
from colonnade.data.labels import Label
from colonnade.data.schema import Schema
from colonnade.data.table import BLOCK_ROWS, Table
from colonnade.errors import BadValues, LabelMismatch, ModelError, PlanError
from colonnade.evaluation import scores as joint
from colonnade.evaluation.estimates import error_text
from colonnade.federation.federation import Federation
from colonnade.methods.network.network_file import KINDS as NETWORKS
from colonnade.methods.network.network_file import WHOLE, NetworkFile
from colonnade.models.discriminant import class_codes
from colonnade.models.files.document import MODEL, MORE_MODELS, PARTIES, PEOPLE, Privacy, read_document
from colonnade.models.files.linear_file import ModelFile
from colonnade.models.files.membership import TrainingMembership
from colonnade.models.inputs import InputSpec
from colonnade.protocols.joint_scores import ScoresPlan, ScoresSpec

if TYPE_CHECKING:
    from colonnade.methods.network.network import Network


Saved = ModelFile | NetworkFile
Array = NDArray[np.float64]
SPLIT = (
    "the weights of method {method!r} stay with their parties because they were made with exact values, and scores by "
    "them would disclose people they were trained on: no guarantee covers that. Nothing was run. Train with a method "
    "that releases its model, such as 'moments', or declare public what is public."
)
RELEASED = "The weights are released: scoring with them discloses nothing to anybody else."
IN_ONE_PLACE = "All columns and all parts of the network lie here: scoring discloses nothing to anybody else."


@dataclass(frozen=True, eq=False)
class Scores:
    """`exact` is of how many people without noise, `noise` how far it moves every number, where there is some.

    `left_out` are those who could not be scored, with the reason.
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    values: Array
    predicted: tuple[str, ...] | None
    statement: str
    privacy: str
    exact: int = 0
    left_out: tuple[tuple[str, str], ...] = ()
    noise: Array | None = None


@dataclass(frozen=True, eq=False)
class Stored:
    """A model as it lies on the disk: whole, or in parts with their parties; and whom each party trained it on."""

    whole: Saved | None
    parts: Mapping[str, Saved]
    people: Mapping[str, TrainingMembership]

    @classmethod
    def load(cls, path: Path, label: str | None = None) -> Stored:
        """The model that a person means: a run's folder, or a model file; of a run with several labels that of one."""
        folder = path if path.is_dir() else path.parent
        own = folder / PARTIES
        people = {
            file.name.removesuffix(f".{PEOPLE}"): TrainingMembership.load(file)
            for file in own.glob(f"*.{PEOPLE}")
        }
        file = path if path.is_file() and label is None else model_of_label(folder, label)
        if file.is_file():
            model = load_model(file)
            if model.party is not None:
                raise ModelError(
                    f"{file} is {model.party}'s part of a model, and a part alone scores nobody. Give the folder of "
                    "a run in one process, which has all of them."
                )
            return cls(model, {}, people)
        parts = {
            part.name.removesuffix(f".{MODEL}"): load_model(part) for part in sorted(own.glob(f"*.{MODEL}"))
        }
        if not parts:
            raise ModelError(f"{path} holds no model. Give the folder of a finished run, or its {MODEL}.")
        return cls(None, parts, people)


def model_of_label(folder: Path, label: str | None) -> Path:
    """The file of the model of a label in a run's folder: of one with several labels that of the first by default."""
    first = folder / MODEL
    if label is None:
        return first
    named = models_by_label(folder)
    if named and label not in named:
        raise LabelMismatch(
            f"--label: {folder} has no model of {label!r}. It has one of {', '.join(named)}."
            + nearest_name(label, named)
        )
    return named.get(label, first)


def models_by_label(folder: Path) -> dict[str, Path]:
    files = [folder / MODEL, *sorted(folder.glob(MORE_MODELS.format(number="*")))]
    labels = {file: load_model(file).frame.label.label for file in files if file.is_file()}
    return {label.column: file for file, label in labels.items() if label is not None}


def load_model(path: Path) -> Saved:
    data = read_document(path)
    return (NetworkFile if data.get("kind") in NETWORKS else ModelFile).of(data, path)


def score_file(model: Saved, path: Path, *, id_columns: tuple[str, ...], strict: bool = True) -> Scores:
    """A row that is not as declared refuses the file, or where it is not `strict` is left out and named."""
    table = rows_of_model(model.frame, path, id_columns)
    ids = tuple(table.ids())
    left_out: tuple[tuple[str, str], ...] = ()
    try:
        features = np.concatenate([model.frame.block_features(block) for block in table.blocks()])
    except BadValues:
        wrong: Wrong = {}
        if not strict:
            columns, usable = table.schema.columns, [np.zeros((0, model.frame.columns))]
            relation = open_file(path, party="rows", columns=(*id_columns, *model.frame.column_names))
            for block, odd in usable_blocks(relation, list(columns), size=BLOCK_ROWS):
                wrong |= odd
                if block.rows:
                    usable.append(model.frame.block_features(block))
            features = np.concatenate(usable)
        if not 0 < len(wrong) < len(ids):
            raise
        left_out = tuple((ids[row], sentence) for row, sentence in wrong.items())
        ids = tuple(one for row, one in enumerate(ids) if row not in wrong)
    values, predicted = _read(model, scores_of(model, features))
    statement = f"{IN_ONE_PLACE} {WHOLE}" if isinstance(model, NetworkFile) else RELEASED
    return Scores(ids, names_of(model), values, predicted, statement, str(model.privacy), left_out=left_out)


def scores_of(model: Saved, features: Array) -> Array:
    if isinstance(model, NetworkFile):
        return model.network().scores(features)
    return model.scores(features @ model.weights.T)


def rows_of_model(
    frame: InputSpec, path: Path, id_columns: tuple[str, ...], *, label: Label | None = None
) -> Table:
    return Table("rows", path, Schema(id_columns, frame.named_columns, label=label))


def score_job(
    stored: Stored,
    federation: Federation,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    accepted_delta: float | None = None,
) -> Scores:
    """Scores of the people of a federation; only the active party, or else the first one, sees them."""
    first = stored.whole if stored.whole is not None else next(iter(stored.parts.values()))
    known = stored.people if stored.people or joint.is_remembered(first.run, federation) else None
    if isinstance(first, NetworkFile):
        network = network_of(stored, first)
        scored = network.score_people(
            federation, trained_on=known, epsilon=epsilon, delta=delta, accepted_delta=accepted_delta
        )
        plan = scored.run.plan
        return read_scores(first, scored.opened, scored.ids, plan, network=network, privacy=scored.privacy)
    model = first
    if stored.whole is None:
        # The parts beside each other: only for public data, in one process.
        files = [part for part in stored.parts.values() if isinstance(part, ModelFile)]
        model = replace(
            first,
            frame=InputSpec.joined([part.frame for part in files], first.frame.label),
            weights=np.concatenate([part.weights for part in files], axis=1),
            offsets=np.sum([part.offsets for part in files], axis=0),
            party=None,
        )
        if not federation.public:
            raise PlanError(SPLIT.format(method=first.method))
    request = ScoresSpec(
        receiver=federation.group.active or federation.group.owners[0],
        width=len(model.weights),
        bound=joint.linear_bound(model.frame, model.weights),
        weights="released" if stored.whole is not None else "public",
        epsilon=epsilon,
        delta=delta,
        accepted_delta=accepted_delta,
        alignment=federation.alignment,
    )
    terms = joint.linear_terms(model.frame, model.weights)
    scored = joint.score_jointly(federation, request, terms, trained_on=known)
    return read_scores(model, scored.sums, scored.ids, scored.run.plan, privacy=scored.privacy)


def read_scores(
    model: Saved,
    sums: Array,
    ids: tuple[str, ...],
    plan: ScoresPlan,
    *,
    network: Network | None = None,
    privacy: Privacy | None = None,
) -> Scores:
    """What the receiver makes of sums of all parties' terms; `network` is all of it, if it lies here."""
    raw = model.scores if isinstance(model, ModelFile) else (network or model.network()).read
    values, predicted = _read(model, raw(sums))
    noise = None
    if plan.deviation:
        values, noise = joint.expected(
            lambda around: _read(model, raw(around))[0],
            sums,
            deviation=plan.deviation,
            most=len(plan.group.owners) * plan.spec.bound,
        )
        if model.reading.answer == "probabilities":
            names, wide = model.frame.label.classes, values.shape[1] > 2
            above = values[:, 1] > model.threshold
            predicted = tuple(names[code] for code in (values.argmax(axis=1) if wide else above.astype(int)))
    said = str(Privacy(plan.guarantees) if privacy is None else privacy)
    return Scores(ids, names_of(model), values, predicted, plan.statement, said, plan.exact, noise=noise)


def score_rows(scores: Scores) -> list[tuple[str, ...]]:
    """Scores as lines of a table, the heads first; of noisy ones every number has its ± beside it."""
    heads, predicted = ["id", *scores.names], scores.predicted
    chances = [predicted is not None and name.startswith("probability of ") for name in scores.names]
    columns: list[Sequence[str]] = [scores.ids]
    if scores.noise is None:
        columns += [[f"{value:.6g}" for value in column] for column in scores.values.T]
    else:
        heads += [f"± {name}" for name in scores.names]
        for column, noise, probability in zip(scores.values.T, scores.noise.T, chances, strict=True):
            pairs = zip(column, noise, strict=True)
            columns.append([joint.noisy_text(*pair, probability=probability) for pair in pairs])
        columns += [[error_text(noise) for noise in column] for column in scores.noise.T]
    if predicted is not None:
        heads.append("predicted")
        columns.append(predicted)
    return [tuple(heads), *zip(*columns, strict=True)]


def scores_csv(scores: Scores) -> str:
    return csv_text(score_rows(scores))


def network_of(stored: Stored, first: NetworkFile) -> Network:
    parts = {name: part.network() for name, part in stored.parts.items() if isinstance(part, NetworkFile)}
    return first.network() if not parts else type(first.network()).joined(parts)


def names_of(model: Saved) -> tuple[str, ...]:
    width = len(model.weights) if isinstance(model, ModelFile) else 1
    return model.reading.names(model.frame.label, width)


def _read(model: Saved, scores: Array) -> tuple[Array, tuple[str, ...] | None]:
    values = model.reading.values(scores)
    if not model.reading.classifies:
        return values, None
    names = model.frame.label.classes
    return values, tuple(names[code] for code in class_codes(scores, model.threshold))
