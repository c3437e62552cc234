"""What is asked of a run, before anybody has said how many rows or which columns there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeVar

from colonnade.data.documents import Form
from colonnade.data.schema import PublicSchema
from colonnade.errors import LabelMismatch, OnlyForPublicData, PlanError
from colonnade.protocols.alignment import Alignment
from colonnade.protocols.assumptions import Verify
from colonnade.runtime.group import Group

Task = Literal["classification", "regression", "pca"]
DEFAULT_GAMMA = 1 << 12
"""The grid of a moment release and of an objective."""
USUAL_THRESHOLD = 0.5
"""The threshold that nothing is said about."""
OptionsT = TypeVar("OptionsT", bound=Form)
_INSTEAD = "Take method = 'moments', which learns all of them from one release"


@dataclass(frozen=True, kw_only=True)
class Spec(ABC):
    """What the parties compare before they plan.

    Without a δ a rule gives it; one that is too large to protect anybody is taken if `accepted_delta` repeats it.
    """

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
        """Whether keepers hold shares of everybody's columns: its plans are `SharedPlan`s."""
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
        """As plain values, for the parties to compare."""
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
    """What may be chosen of a classifier that says log-odds.

    `threshold` is the probability above which the second of two classes is predicted, or a rule by which it is read
    from the people held out. `class_weight` is "balanced", for weights that make all classes count alike, or a weight
    for each class.
    """

    threshold: float | str = USUAL_THRESHOLD
    class_weight: str | dict[str, float] | None = None


@dataclass(frozen=True)
class TrainingSpec(Spec):
    """What a user wants of a method; `options` are the method's own.

    `verify` is what is checked of what others deal; None: the strongest that a method offers by itself. `public` are
    the owners of columns if all of them declared their data public, and nobody otherwise: only then may something be
    asked for that protects nobody.
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
        """The options, of a method that has a protocol."""
        if not isinstance(self.options, Options):
            raise TypeError(f"{type(self.options).__name__} are no options of a method with a protocol")
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
    """The options of a method, which other methods' are not."""
    if not isinstance(spec.options, form):
        raise TypeError(f"this method takes {form.__name__}, not {type(spec.options).__name__}")
    return spec.options


def check_job_gamma(spec: TrainingSpec, instead: str) -> None:
    """Refuse the grid of a moment release where a method has a grid of its own, or none."""
    if spec.gamma != DEFAULT_GAMMA:
        raise PlanError(f"gamma = {spec.gamma} {instead}")


def refuse_paper_plan(calibration: str) -> None:
    """The paper's own mode is a simulation and asks the parties for nothing."""
    if calibration == "paper":
        raise OnlyForPublicData(
            "calibration = 'paper' simulates the paper's formulas on public data; there is no plan of it."
        )


def check_one_label(schemas: Iterable[PublicSchema], what: str, instead: str = _INSTEAD) -> None:
    """Refuse several labels where one is learnt."""
    for schema in schemas:
        if schema.more_labels:
            names = ", ".join(label.column for label in schema.labels)
            raise LabelMismatch(
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
        raise PlanError(
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
