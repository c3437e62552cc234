"""The record of a run: what `facts.json` holds, and all that text, page, card and board are made of.

`facts.schema.json` beside this module is its JSON Schema. Numbers that are not finite are null in the file. What has a
default here may be missing: the run has nothing to say there.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from colonnade.federation.files import FORMAT
from colonnade.markup import html_table
from colonnade.privacy.observers import about_text

Number = float | None
"""A number, None where it is not finite: an ε that no proof bounds."""


def _without_defaults(schema: dict[str, Any]) -> None:
    for field in schema.get("properties", {}).values():
        field.pop("default", None)


class Record(BaseModel):
    """A part of a record; what it was made of is what is written, and no default."""

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, protected_namespaces=(), json_schema_extra=_without_defaults
    )

    def to_data(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_unset=True)


class GuaranteeRecord(Record):
    observer: str
    unit: str
    epsilon: Number
    delta: float
    assumption: str
    method: str
    sentence: str


class TotalRecord(Record):
    """An account of a ledger: what it has spent of which budget, and the ε of one more release that would fit."""

    dataset: str
    unit: str
    observer: str
    epsilon: Number
    delta: float
    budget: Number
    left: Number
    entries: int
    private: bool
    otherwise: int = 0
    fits: Number = None


class BeforeRecord(Record):
    epsilon_before: Number
    left_before: Number


class ExactRecord(Record):
    dataset: str
    receiver: str
    people: int


class EntryRecord(Record):
    number: int
    time: str
    kind: str
    what: str
    hash: str


class LedgerRecord(Record):
    """A party's ledger: others may read the accounts of one data set, and the party head and entries too.

    `verified` counts entries and receipts that were checked; `signer` is that of an export.
    """

    party: str
    head: str = ""
    totals: list[TotalRecord]
    exact: list[ExactRecord] = []
    entries: list[EntryRecord] = []
    signer: str | None = None
    verified: dict[str, int] = {}


class PartyRecord(Record):
    name: str
    columns: list[str] = []
    holds_label: bool = False
    keeps_shares: bool
    labels: int | None = None


class NoiseRecord(Record):
    """The noise of a release of moments, whose variance is 2μ on a grid of γ steps."""

    standard_deviation: float
    mu: str
    gamma: int


class PointRecord(Record):
    """What a column adds to the score at one of its values, and how far noise may have moved that."""

    at: str
    effect: float
    half_width: Number


class EffectRecord(Record):
    column: str
    owner: str
    ordered: bool
    points: list[PointRecord]
    range: float

    @property
    def ends(self) -> tuple[PointRecord, PointRecord]:
        by_effect = attrgetter("effect")
        return min(self.points, key=by_effect), max(self.points, key=by_effect)

    @property
    def clear(self) -> bool:
        """Whether some effect is farther from zero than the noise can have moved it."""
        return any(
            point.half_width is not None and abs(point.effect) > point.half_width for point in self.points
        )


class EffectsRecord(Record):
    row: str
    columns: list[EffectRecord]


class IntervalsRecord(Record):
    """How far noise may have moved each coefficient."""

    rate: float
    covers: str
    coefficients: list[list[float]]
    half_widths: list[list[Number]]


class ModelFactsRecord(Record):
    """A model as it may be shown; empty where noise left none."""

    features: list[str] = []
    owners: list[str] = []
    rows: list[str] = []
    coefficients: list[list[float]] = []
    explained_variance: list[float] = []
    learnable_rank: int | None = None
    intercept: list[float] = []
    split: bool = False
    paper: list[str] = []
    classes: dict[str, float] = {}
    rule: dict[str, Any] = {}
    by_column: list[EffectsRecord] = []
    count_noise: float | None = None
    intervals: IntervalsRecord | None = None
    network: dict[str, Any] = {}
    numbers: dict[str, int] = {}
    epochs: int | None = None
    curve: list[dict[str, Any]] = []

    @property
    def none_stands_out(self) -> bool:
        """Whether there are intervals, and every effect of every column is within its own."""
        columns = [column for row in self.by_column for column in row.columns]
        return self.intervals is not None and not any(column.clear for column in columns)


class SpectrumRecord(Record):
    """Eigenvalues of the scatter of rows against what noise alone shows."""

    eigenvalues: list[float]
    edge: float
    floor: float
    learnable_rank: int


class StepRecord(Record):
    step: str
    bytes: int
    rounds: int


class FlowRecord(Record):
    sender: str = Field(validation_alias="from", serialization_alias="from")
    to: str
    step: str
    bytes: int


class TrafficRecord(Record):
    bytes: int
    rounds: int
    steps: list[StepRecord] = []
    flows: list[FlowRecord]


class LabelRecord(Record):
    """The model of one of several labels; what the first learnt stands with the run's own."""

    label: str
    kind: str
    model: str | None
    measured: dict[str, float] | None
    failure: str | None
    model_facts: ModelFactsRecord = ModelFactsRecord()
    evaluated: bool = False


class FigureRecord(Record):
    """A figure of an evaluation, what noise and chance may have moved it, and what always the same answer has."""

    value: float
    noise: float
    sampling: float
    baseline: float


class ClassRecord(Record):
    figures: dict[str, FigureRecord]
    curves: dict[str, list[list[Number]]]


class EvaluationRecord(Record):
    """How good a model is: of two classes, of several (`each`), or of a number (`pairs`); by whom, if by one alone."""

    people: int
    exact: bool
    label: str | None = None
    classes: list[str] = []
    counts: list[float] = []
    figures: dict[str, FigureRecord]
    confusion: list[list[float]] = []
    each: dict[str, ClassRecord] = {}
    threshold: float | None = None
    threshold_error: float = 0.0
    recalibration: list[Number] = []
    curves: dict[str, list[list[Number]]] = {}
    calibration: list[dict[str, float]] = []
    pairs: list[list[float]] | None = None
    run: str = ""
    guarantees: list[str] = []
    private: bool = True
    receiver: str | None = None
    deviation: float = 0.0


class ForecastSide(Record):
    bytes: int
    rounds: int
    seconds: Number
    error: Number


class ForecastRecord(Record):
    predicted: ForecastSide
    measured: ForecastSide
    note: str


class RequestRecord(Record):
    method: str
    task: str
    epsilon: float
    gamma: int
    options: dict[str, Any]
    parties: list[str]
    active: str | None
    server: str
    computing_parties: list[str]
    threshold: int
    disclosed_noise: int | None = None
    held_out: float | None = None


class RunRecord(Record):
    """Everything worth reading about one run, of those who are here; in one process that is everybody."""

    name: str
    version: str
    versions: dict[str, str] = {}
    task: str
    method: str
    run: str
    plan: dict[str, Any]
    rows: int
    parties: list[PartyRecord]
    server: PartyRecord
    private: bool
    warning: str | None
    notes: list[str]
    guarantees: list[GuaranteeRecord]
    noise: NoiseRecord | None
    collusion: str = ""
    model_facts: ModelFactsRecord
    spectrum: SpectrumRecord | None
    measured: dict[str, float] | None
    measured_on: int | None = None
    traffic: TrafficRecord
    ledgers: dict[str, LedgerRecord]
    before: dict[str, list[BeforeRecord]] = {}
    time: str = ""
    labels: list[LabelRecord] = []
    evaluated: EvaluationRecord | None = None
    forecast: ForecastRecord | None = None
    requested: RequestRecord | None = None
    format: int = FORMAT
    digest: str = ""

    def about(self, item: GuaranteeRecord) -> str:
        return about_text(item.observer, item.unit, [party.name for party in self.parties])


class StopRecord(Record):
    """Where a run stopped and why, as peers may know it; `reached` are the last steps of its members."""

    party: str | None
    reached: dict[str, str | None]
    kind: str = ""
    reason: str


class ChargeRecord(Record):
    time: str
    what: str


class FailureRecord(Record):
    state: str = "failed"
    name: str
    version: str
    time: str
    task: str
    epsilon: float
    run: str
    stopped: StopRecord
    charged: dict[str, ChargeRecord]
    ledgers: dict[str, LedgerRecord]
    format: int = FORMAT
    digest: str = ""


class SuccessRecord(Record):
    rate: float
    low: float
    high: float
    chance: float
    hits: int | float
    trials: int


class Attempt(Record):
    attack: str
    attacker: str
    target: str
    run: str
    defence: str
    success: SuccessRecord | None
    by_epoch: list[SuccessRecord]
    refused: str | None
    note: str


class AttackRecord(Record):
    name: str
    people: int
    epsilon: float
    delta: float
    findings: list[Attempt]


class ExperimentRecord(Record):
    """ε is at least `epsilon`, except with probability 1 − `confidence`.

    `hits` and `misses` are how often the event came where it should and where it should not; `most` is the largest
    bound that so many trials could have given.
    """

    kind: str = ""
    what: str = ""
    sessions: int = 0
    epsilon: float
    confidence: float
    hits: int
    misses: int
    trials: int
    most: float


class FindingRecord(Record):
    """What an audit showed of one observer: ε is at least `lower`; `upper` is proved, or claimed by a paper."""

    observer: str
    unit: str
    about: str
    delta: float
    proved: bool
    source: str = ""
    upper: Number
    lower: float
    most: float
    exceeded: bool
    experiments: list[ExperimentRecord]

    @property
    def limit(self) -> float | None:
        return self.upper if self.upper is not None and self.upper < float("inf") else None


class AuditRecord(Record):
    name: str
    method: str
    people: str
    runs: int = 0
    draws: int = 0
    sessions: int
    seconds: float
    confidence: float = 0.95
    notes: list[str]
    findings: list[FindingRecord]
    defect: bool = False


class ComparisonRow(Record):
    method: str
    title: str = ""
    paper: bool
    trusted: bool
    split: bool
    epsilon: Number
    scores: list[float]
    failures: list[str]
    guarantees: list[GuaranteeRecord]
    seconds: float | None
    notes: list[str]
    further: dict[str, list[float]] = {}
    mean: Number
    spread: Number
    bytes: float | None


class ComparisonRecord(Record):
    name: str
    task: str
    public: bool
    epsilons: list[float]
    delta: float | None
    seeds: int
    trained_on: int
    held_out: int
    constants: dict[str, float] = {}
    rows: list[ComparisonRow]
    left_out: list[dict[str, str]]
    metric: str
    metric_note: str
    larger_is_better: bool
    constant: float | None
    time: str = ""

    @property
    def people(self) -> int:
        return self.held_out * self.seeds

    def _repr_html_(self) -> str:
        rows = [
            (
                row.method,
                "-" if row.epsilon is None else f"{row.epsilon:g}",
                "not shown" if row.mean is None else f"{row.mean:.4f}",
                "" if row.spread is None else f"± {row.spread:.4f}",
            )
            for row in self.rows
        ]
        return html_table(f"{self.metric} by method", ("method", "ε", self.metric, "over splits"), rows)
