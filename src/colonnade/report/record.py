"""The record of a run: what `facts.json` holds, and all that text, page, card and board are made of.

`facts.schema.json` beside this module is its JSON Schema. Numbers that are not finite are null in the file. What may be
missing is marked so: an earlier version did not write it, or this run has nothing to say there.
"""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

Number = float | None
"""A number, None where it is not finite: an ε that no proof bounds."""


class GuaranteeRecord(TypedDict):
    """What one observer learns at most about one unit."""

    observer: str
    unit: str
    epsilon: Number
    delta: float
    assumption: str
    method: str
    sentence: str


class TotalRecord(TypedDict):
    """An account of a ledger: what it has spent of which budget."""

    dataset: str
    unit: str
    observer: str
    epsilon: Number
    delta: float
    budget: Number
    left: Number
    entries: int
    private: bool
    otherwise: NotRequired[int]


class BeforeRecord(TypedDict):
    """The same account before the run."""

    epsilon_before: Number
    left_before: Number


class ExactRecord(TypedDict):
    """Exact scores that left without noise."""

    dataset: str
    receiver: str
    people: int


class TotalsRecord(TypedDict):
    """What others may read of a party's ledger: the accounts of one data set."""

    party: str
    totals: list[TotalRecord]
    exact: list[ExactRecord]


class PartyRecord(TypedDict):
    """A party and what it brought."""

    name: str
    columns: list[str]
    holds_label: bool
    labels: NotRequired[int]
    keeps_shares: bool


class ServerRecord(TypedDict):
    """Who coordinated."""

    name: str
    keeps_shares: bool


class NoiseRecord(TypedDict):
    """The noise of a release of moments, whose variance is 2μ on a grid of γ steps."""

    standard_deviation: float
    mu: str
    gamma: int


class PointRecord(TypedDict):
    """What a column adds to the score at one of its values, and how far noise may have moved that."""

    at: str
    effect: float
    half_width: Number


class EffectRecord(TypedDict):
    """The effect of a column over its range."""

    column: str
    owner: str
    ordered: bool
    points: list[PointRecord]
    range: float


class EffectsRecord(TypedDict):
    """The effects of all columns on one row of coefficients, the strongest first."""

    row: str
    columns: list[EffectRecord]


class IntervalsRecord(TypedDict):
    """How far noise may have moved each coefficient."""

    rate: float
    covers: str
    coefficients: list[list[float]]
    half_widths: list[list[Number]]


class LearntRecord(TypedDict, total=False):
    """A model as it may be shown; empty where noise left none."""

    features: list[str]
    owners: list[str]
    rows: list[str]
    coefficients: list[list[float]]
    intercept: list[float]
    explained_variance: list[float]
    learnable_rank: int
    split: bool
    paper: list[str]
    classes: dict[str, float]
    rule: dict[str, Any]
    by_column: list[EffectsRecord]
    count_noise: float
    intervals: IntervalsRecord
    network: dict[str, Any]
    numbers: dict[str, int]
    epochs: int
    curve: list[dict[str, Any]]


class SpectrumRecord(TypedDict):
    """Eigenvalues of the scatter of rows against what noise alone shows."""

    eigenvalues: list[float]
    edge: float
    floor: float
    learnable_rank: int


class StepRecord(TypedDict):
    """Bytes and rounds of one step of the protocol."""

    step: str
    bytes: int
    rounds: int


FlowRecord = TypedDict("FlowRecord", {"from": str, "to": str, "step": str, "bytes": int})
"""Bytes of one step from one member to another."""


class TrafficRecord(TypedDict):
    """What was sent, but for finding the common people."""

    bytes: int
    rounds: int
    steps: NotRequired[list[StepRecord]]
    flows: list[FlowRecord]


class LabelRecord(TypedDict):
    """The model of one of several labels; what the first learnt stands with the run's own."""

    label: str
    kind: str
    model: str | None
    measured: dict[str, float] | None
    failure: str | None
    learnt: NotRequired[LearntRecord]
    evaluated: NotRequired[bool]


class ForecastSide(TypedDict):
    """What a run was foretold to take, or took."""

    bytes: int
    rounds: int
    seconds: Number
    error: Number


class ForecastRecord(TypedDict):
    """What was foretold of a run on public data, and what it took."""

    predicted: ForecastSide
    measured: ForecastSide
    note: str


class RequestRecord(TypedDict):
    """What the parties agreed to run, all of it in the job."""

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
    held_out: NotRequired[float]
    disclosed_noise: int | None


class RunRecord(TypedDict):
    """Everything worth reading about one run, of those who are here; in one process that is everybody."""

    name: str
    version: str
    versions: NotRequired[dict[str, str]]
    task: str
    method: NotRequired[str]
    run: str
    plan: dict[str, Any]
    rows: int
    parties: list[PartyRecord]
    server: ServerRecord
    private: bool
    warning: str | None
    notes: list[str]
    guarantees: list[GuaranteeRecord]
    noise: NoiseRecord | None
    collusion: NotRequired[str]
    learnt: LearntRecord
    spectrum: SpectrumRecord | None
    measured: dict[str, float] | None
    measured_on: NotRequired[int | None]
    traffic: TrafficRecord
    ledgers: dict[str, TotalsRecord]
    before: NotRequired[dict[str, list[BeforeRecord]]]
    time: NotRequired[str]
    labels: NotRequired[list[LabelRecord]]
    evaluated: NotRequired[dict[str, Any]]
    forecast: NotRequired[ForecastRecord]
    requested: NotRequired[RequestRecord]
    format: NotRequired[int]
    digest: NotRequired[str]
