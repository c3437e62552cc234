"""What is asked of a run, and what every plan is, whatever its protocol: agreed before data is touched."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, TypedDict, TypeVar

from colonnade import errors
from colonnade.data.documents import Form
from colonnade.data.labels import LabelBlock, kinds_for
from colonnade.data.schema import PublicSchema
from colonnade.ledger import CoalitionBound, LedgerLine, Release
from colonnade.privacy.events import event_to_data
from colonnade.privacy.guarantee import Guarantee, View, guarantee
from colonnade.privacy.observers import SERVER_NAME, Colluding, ColumnsOf, PartOf, members_of
from colonnade.protocols.agreement import digest
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.assumptions import Verify
from colonnade.runtime.party import Group

Task = Literal["classification", "regression", "pca"]
Schemas = tuple[PublicSchema, ...]
DEFAULT_GAMMA = 1 << 12
"""The grid of a moment release and of an objective."""
USUAL_THRESHOLD = 0.5
"""The threshold that nothing is said about."""
OptionsT = TypeVar("OptionsT", bound=Form)
_INSTEAD = "Take method = 'moments', which learns all of them from one release"


@dataclass(frozen=True, kw_only=True)
class Spec(ABC):
    """What the parties compare before they plan; a δ too large to protect is taken if `accepted_delta` repeats it."""

    delta: float | None = None
    accepted_delta: float | None = None
    alignment: Alignment = "auto"

    @property
    @abstractmethod
    def method(self) -> str:
        """The name of what is asked for."""

    @property
    def takes_labels(self) -> bool:
        """Whether it learns several labels at once, or none."""
        return False

    @property
    def in_shares(self) -> bool:
        """Whether computing parties hold shares of everybody's columns: its plans are `SharedPlan`s."""
        return False

    def check(self) -> None:  # noqa: B027 # most have nothing to refuse so early
        """Refuse what no rows and no columns could make possible."""

    @abstractmethod
    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> Any:
        """The plan for these columns and rows, made anew."""

    def plan(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> Any:
        self.check()
        return _planned(self, group, schemas, rows)

    def to_data(self) -> dict[str, Any]:
        return {
            "method": self.method,
            **{item.name: _plain(getattr(self, item.name)) for item in fields(self)},
        }


class NoOptions(Form):
    """A method with nothing to choose."""


class Options(Form, ABC):
    """What may be chosen of a method, and the plan that keeps it."""

    method: ClassVar[str]
    takes_labels: ClassVar[bool] = False
    in_shares: ClassVar[bool] = False

    def check(self, spec: TrainingSpec) -> None:
        """Refuse what no rows and no columns could make possible."""

    @abstractmethod
    def plan(self, spec: TrainingSpec, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> Any:
        """The plan with the least noise that keeps ε, or an error that says why there is none."""


class ClassOptions(Form):
    """What may be chosen of a classifier that says log-odds: class weights, and the threshold of the second class."""

    threshold: float | str = USUAL_THRESHOLD
    class_weight: str | dict[str, float] | None = None


@dataclass(frozen=True)
class TrainingSpec(Spec):
    """What a user wants of a method; `options` are the method's own. `verify` None is the strongest by default.

    `public` are the owners of columns if all declared their data public: only then may something protect nobody.
    """

    task: Task
    epsilon: float
    options: Form = field(default_factory=NoOptions, kw_only=True)
    gamma: int = field(default=DEFAULT_GAMMA, kw_only=True)
    verify: Verify | None = field(default=None, kw_only=True)
    public: tuple[str, ...] = field(default=(), kw_only=True)

    def with_options(self, **changes: Any) -> TrainingSpec:
        """The same with other options, taken as they are; a plan refuses what it cannot be made of."""
        if unknown := sorted(set(changes) - set(type(self.options).model_fields)):
            raise TypeError(f"{type(self.options).__name__} has no {', '.join(unknown)}")
        return replace(self, options=self.options.model_copy(update=changes))

    @property
    def own(self) -> Options:
        if not isinstance(self.options, Options):
            raise TypeError(f"{type(self.options).__name__} are not options of a method with a protocol")
        return self.options

    @property
    def method(self) -> str:
        return self.own.method

    @property
    def takes_labels(self) -> bool:
        return self.own.takes_labels

    @property
    def in_shares(self) -> bool:
        return self.own.in_shares

    def check(self) -> None:
        self.own.check(self)

    def to_data(self) -> dict[str, Any]:
        """As plain values, a method's own beside the rest: γ of an option is the one that counts."""
        data = super().to_data()
        own: dict[str, Any] = data.pop("options")
        return data | own

    def planned(self, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> Any:
        return self.own.plan(self, group, schemas, rows)


def options_of(spec: TrainingSpec, form: type[OptionsT]) -> OptionsT:
    if not isinstance(spec.options, form):
        raise TypeError(f"this method takes {form.__name__}, not {type(spec.options).__name__}")
    return spec.options


def check_job_gamma(spec: TrainingSpec, instead: str) -> None:
    """Refuse the grid of a moment release where a method has a grid of its own, or none."""
    if spec.gamma != DEFAULT_GAMMA:
        raise errors.PlanError(f"gamma = {spec.gamma} {instead}")


def refuse_paper_plan(calibration: str) -> None:
    """The paper's own mode is a simulation and asks the parties for nothing."""
    if calibration == "paper":
        raise errors.OnlyForPublicData(
            "calibration = 'paper' simulates the paper's formulas on public data; there is no plan of it."
        )


def check_one_label(schemas: Iterable[PublicSchema], what: str, instead: str = _INSTEAD) -> None:
    for schema in schemas:
        if schema.more_labels:
            names = ", ".join(label.column for label in schema.labels)
            raise errors.LabelMismatch(
                f"{what} learns one label, and {schema.party} declares {len(schema.labels)} ({names}). {instead}, or "
                "keep one of them in the schema."
            )


@lru_cache(maxsize=64)
def _planned(spec: Spec, group: Group, schemas: tuple[PublicSchema, ...], rows: int) -> Any:
    # A plan is public and the same for every party, so parties in one process may share the work.
    if not spec.takes_labels:
        check_one_label(schemas, spec.method)
    plan = spec.planned(group, schemas, rows)
    if group.disclosed_noise is not None and not plan.noise_in_parts:
        raise errors.PlanError(
            f"disclosed_noise = {group.disclosed_noise} is for noise that several dealers add in parts, and "
            f"{spec.method} has none. Leave it out."
        )
    return plan


def _plain(value: Any) -> Any:
    if isinstance(value, Form):
        return value.model_dump(mode="json")
    if hasattr(value, "to_data"):
        return value.to_data()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


FORMAT = 4
"""Of plans: since 2 every plan names its views in one form, since 3 who deals noise and how many parts are a whole,
since 4 what was asked."""


PlanT = TypeVar("PlanT", bound="Plan", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """Everything the parties of a run agree on before it touches data. Equal plans have equal hashes.

    A method's own plan says what it is to each observer (`views`), what leaves (`what`) and what else was agreed
    (`own_data`); guarantees, the release and the hash follow.
    """

    spec: Spec
    group: Group
    rows: int
    schemas: tuple[PublicSchema, ...]
    delta: float

    charged_as: ClassVar[str]
    """What a ledger calls the release of a run."""
    published: ClassVar[bool]
    """Whether what is opened is for everybody to read, or stays with those who took part."""
    noise_in_parts: ClassVar[bool] = False
    """Whether dealers add parts of one noise, so that it matters how many of them may become known."""

    @property
    @abstractmethod
    def views(self) -> tuple[View, ...]:
        """What the run is to each observer."""

    @property
    @abstractmethod
    def what(self) -> str:
        """What leaves, in words."""

    @abstractmethod
    def own_data(self) -> dict[str, Any]:
        """What was derived from what was asked, as plain values."""

    def check_drawable(self) -> None:  # noqa: B027 # most have nothing to refuse
        """Refuse, before any data is touched, noise that no table can draw and sums that could wrap around."""

    def receiver_for(self, party: str) -> str:
        return self.group.server

    def lines_for(self, party: str) -> tuple[LedgerLine, ...]:
        """What an owner's ledger holds of this run: the lines about its own columns."""
        return lines_about(party, self.views)

    @property
    def share_holders(self) -> tuple[str, ...]:
        return ()

    @property
    def noise_from(self) -> tuple[str, ...]:
        """Who knows a part of the noise without owning columns."""
        return ()

    @property
    def is_published(self) -> bool:
        return self.published

    @property
    @abstractmethod
    def shown_to(self) -> tuple[str, ...]:
        """Who receives something that is not published, shares aside."""

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        return guarantees_of(self.views, self.delta)

    def release(self, party: str, *, run: str, reproducible: bool) -> Release:
        """What a member charges before anything leaves: the lines about its own columns, none if it owns nothing."""
        holders = tuple(self._observed(name) for name in self.share_holders)
        return Release(
            id=f"{run}/{self.charged_as}",
            run=run,
            plan=self.hash,
            what=self.what,
            receiver=self.receiver_for(party),
            lines=self.lines_for(party) if party in self.group.owners else (),
            reproducible=reproducible,
            owners=self.group.owners,
            shown_to=tuple(self._observed(name) for name in self.shown_to),
            share_holders=holders,
            threshold=self.group.threshold if holders else 0,
            coalitions=tuple(
                CoalitionBound(view.observer.owners, view.event)
                for view in self.views
                if isinstance(view.observer, Colluding)
            ),
            published=self.is_published,
            server="" if self.group.server in self.group.owners else self.group.server,
            noise_from=self.noise_from,
        )

    def _observed(self, name: str) -> str:
        return SERVER_NAME if name == self.group.server and name not in self.group.owners else name

    def to_data(self) -> dict[str, Any]:
        """The whole plan as plain values, derived numbers included, so that a difference shows where it is."""
        return {
            "format": FORMAT,
            **group_data(self.group),
            "rows": self.rows,
            "spec": self.spec.to_data(),
            "delta": self.delta,
            "schemas": {schema.party: schema.to_data() for schema in self.schemas},
            **self.own_data(),
            # One view of each event: a plan names every observer already by its parties.
            "views": [
                [view.observer.name, view.unit.name, event_to_data(view.event)]
                for view in {view.event: view for view in self.views}.values()
            ],
        }

    @cached_property
    def hash(self) -> str:
        """SHA-256 of `to_data`, which the parties compare."""
        return digest(self.to_data())


@dataclass(frozen=True, kw_only=True)
class TrainingPlan(Plan):
    """A plan by which a model is trained: what was asked, with the options of its method, and what follows from it."""

    spec: TrainingSpec


class Agreed(TypedDict):
    """What every plan of a training holds before anything is derived."""

    spec: TrainingSpec
    group: Group
    rows: int
    schemas: tuple[PublicSchema, ...]
    delta: float


def agreed(
    spec: TrainingSpec, group: Group, schemas: Schemas, rows: int, *, task: Task | None = None
) -> Agreed:
    """Refuse columns and a δ of which no plan can be made; `task` is a method's only one, whatever was asked."""
    check_parties(group, schemas, task or spec.task)
    delta = checked_delta(spec.epsilon, spec.delta, spec.accepted_delta, rows)
    return Agreed(spec=spec, group=group, rows=rows, schemas=schemas, delta=delta)


def group_data(group: Group) -> dict[str, Any]:
    return {
        "owners": list(group.owners),
        "server": group.server,
        "computing_parties": list(group.computing_parties),
        "threshold": group.threshold,
        "active": group.active,
        "dealers": list(group.dealers),
        "whole": group.whole,
    }


def guarantees_of(views: Iterable[View], delta: float) -> tuple[Guarantee, ...]:
    return tuple(
        guarantee(view.event, observer=view.observer, unit=view.unit, delta=delta, assumption=view.assumption)
        for view in views
    )


def lines_about(party: str, views: Iterable[View]) -> tuple[LedgerLine, ...]:
    """What an owner's ledger holds of these views: all about its own columns. Coalitions have no accounts."""
    return tuple(
        LedgerLine(view.observer.name, view.unit.name, view.event)
        for view in views
        if not isinstance(view.observer, Colluding)
        and party not in members_of(view.observer)
        and (not isinstance(view.unit, PartOf | ColumnsOf) or view.unit.party == party)
    )


def default_delta(rows: int) -> float:
    """1e-5, or a tenth of 1/n rounded down to a power of ten where that is smaller: at least 1/(100n) there."""
    return min(1e-5, 10.0 ** math.floor(math.log10(1 / (10 * rows))))


def checked_delta(epsilon: float, delta: float | None, accepted_delta: float | None, rows: int) -> float:
    """The δ of a plan; at or above 1/n, where a whole row could be published, only if `accepted_delta` repeats it."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise errors.PlanError(f"epsilon = {epsilon:g}, but privacy loss is a positive number. Try 1.")
    if rows < 1:
        raise errors.PlanError("there are no aligned rows to learn from.")
    if delta is None:
        return default_delta(rows)
    if not 0 < delta < 1:
        raise errors.PlanError(
            f"delta = {delta:g}, but it is a probability between 0 and 1. Try {default_delta(rows):g}."
        )
    if delta >= 1 / rows and accepted_delta != delta:
        raise errors.DeltaTooLarge(
            f"delta = {delta:g} is not below 1/n = {1 / rows:.3g} for {rows} rows: it would allow publishing a "
            f"person's row outright. Use {default_delta(rows):g}, or say accepted_delta = {delta:g} if you mean it."
        )
    return delta


def check_parties(group: Group, schemas: tuple[PublicSchema, ...], task: Task) -> None:
    """Refuse columns that are not the owners', and a label that is missing, double or of the wrong kind."""
    if tuple(schema.party for schema in schemas) != group.owners:
        raise errors.PlanError("the schemas of a plan are those of its owners, in their order")
    if task == "pca":
        return
    holders = [schema.party for schema in schemas if schema.label is not None]
    if not holders:
        raise errors.LabelMismatch(
            f"{task} needs a label, and no party declares one. Add a [label] table to the schema of one party."
        )
    if len(holders) > 1:
        raise errors.LabelMismatch(
            f"one party holds the label; {', '.join(holders)} all declare one. Keep one of them."
        )
    if group.active != holders[0]:
        raise errors.LabelMismatch(
            f"the job says that {group.active or 'nobody'} holds the label, but {holders[0]} declares one. "
            f"Write active = {holders[0]!r}."
        )
    holder = schemas[group.owners.index(holders[0])]
    label = holder.labels[0]
    kind, kinds = label.kind, " or ".join(kinds_for(task))
    if label.task != task and holder.more_labels:
        raise errors.LabelMismatch(
            f"of several labels the first says how columns are coded, and that of {holders[0]}, "
            f"{label.column!r}, is of kind {kind!r}. Write task = {label.task!r}, or declare one of kind "
            f"{kinds} first."
        )
    if label.task != task:
        raise errors.LabelMismatch(
            f"{task} needs a label of kind {kinds}; {holders[0]} declares kind {kind!r}. "
            "Change the task, or the label's declaration."
        )


def check_two_classes(label: LabelBlock, holder: str, *, why: str, remedy: str) -> None:
    if len(label.classes) != 2:
        raise errors.LabelMismatch(
            f"{why} a label of two classes; {holder} declares {len(label.classes)}. {remedy}"
        )


def check_computing_parties(group: Group) -> None:
    if not group.computing_parties:
        raise errors.GroupMismatch(
            f"{' and '.join(group.owners)} have no computing parties for their shares. Name a server as third, or take "
            "method = 'encrypted' or 'private-messages', which need none."
        )


# A peer's declaration decides how large the matrix is.
MOST_COLUMNS = 1 << 15
# What one party holds for an entry of the matrix at its peak: shares in three limbs, noise, and their sums.
BYTES_PER_ENTRY = 64


def on_grid(planned: Callable[[int], PlanT], gamma: int, *, least: int) -> PlanT:
    """The plan at this γ, or why there is none and the largest γ below it at which there is one."""

    def fits(grid: int) -> bool:
        try:
            planned(grid)
        except errors.PlanError:
            return False
        return True

    try:
        return planned(gamma)
    except errors.PlanError as error:
        advice = f"No gamma from {least} up fits: raise epsilon, or use fewer rows, fewer columns or another noise."
        if gamma > least and fits(least):
            low, high = least, gamma
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle) else (low, middle)
            advice = f"The largest gamma that fits is {low}."
        raise type(error)(f"{str(error).rstrip('.')}. {advice}") from None


def check_memory(columns: int, *, what: str = "a moment matrix") -> None:
    """Refuse a matrix that nobody, or not this machine, could hold, and say what it would take."""
    need = columns * columns * BYTES_PER_ENTRY
    memory = physical_memory()
    if columns > MOST_COLUMNS:
        limit = f"{MOST_COLUMNS} columns is the most"
    elif memory is not None and need > memory:
        limit = "a machine that takes part has less"
    else:
        return
    raise errors.TooMuchMemory(
        f"the declared columns make {what} of {columns} columns, which takes {need / 2**30:.0f} GiB of memory at every "
        f"party; {limit}. Declare fewer of them, or map them to fewer features."
    )


def physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
