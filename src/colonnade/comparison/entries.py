"""Which methods a comparison is between: those that can do the task, with their options, sound or as a paper has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.data.declaring import nearest
from colonnade.data.documents import Form, check
from colonnade.errors import InputError
from colonnade.methods.method import AnyMethod
from colonnade.protocols.specs import Task

PAPER = "paper formula, not a guarantee"


@dataclass(frozen=True)
class Contender:
    """One method with its options; `paper` marks one that is calibrated as a paper says.

    `label` tells two contenders of one method apart.
    """

    method: AnyMethod
    options: Form
    paper: bool = False
    label: str = ""

    @property
    def name(self) -> str:
        if self.label:
            return self.label
        return f"{self.method.name} (paper)" if self.paper else self.method.name

    @property
    def title(self) -> str:
        return f"{self.method.title} ({PAPER})" if self.paper else self.method.title

    def at(self, epsilons: Sequence[float]) -> tuple[float | None, ...]:
        """The ε it runs at: all of them, or once if it has none."""
        return tuple(epsilons) if self.method.has_epsilon else (None,)


@dataclass(frozen=True)
class ComparisonEntries:
    """Who takes part in a comparison, and who does not, with the reason."""

    contenders: tuple[Contender, ...]
    left_out: tuple[tuple[str, str], ...]


def field_of(
    methods: Iterable[AnyMethod],
    task: Task,
    *,
    named: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    paper: bool = False,
    public: bool = True,
) -> ComparisonEntries:
    """Every method that can do the task, or those named; each with its options, else with its defaults.

    `paper` adds, to each method that has a paper's calibration, a second contender with it, on public data only.
    A method that was named and cannot do the task is an error; one that could and may not is left out with its reason.
    """
    table = {method.name: method for method in methods}
    for name in (*(named or ()), *(options or {})):
        if name not in table:
            raise InputError(
                f"no method is called {name!r}; there are {', '.join(table)}.{nearest(name, tuple(table))}"
            )
    if named is not None and not named:
        raise InputError(f"the list of methods is empty. Name some of {', '.join(table)}.")
    contenders: list[Contender] = []
    left_out: list[tuple[str, str]] = []
    for name in dict.fromkeys(named if named is not None else table):
        method = table[name]
        given = dict((options or {}).get(name, {}))
        if named is None and task not in method.tasks:
            continue
        reason = _reason(method, task, given, public=public)
        if reason and named is not None and method.public_only <= public:
            raise InputError(f"method {name!r} cannot take part: {reason}")
        if reason:
            left_out.append((name, reason))
            continue
        contenders.append(Contender(method, check(method.options, given, name=f"options of {name!r}")))
        choice = paper_choice(method)
        if paper and public and choice is not None:
            form = check(
                method.options,
                {**given, choice: "paper"},
                name=f"options of {name!r}",
            )
            contenders.append(Contender(method, form, paper=True))
    if not contenders:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out)
        raise InputError(f"no method is left to compare. {reasons}")
    return ComparisonEntries(tuple(contenders), tuple(left_out))


def paper_choice(method: AnyMethod) -> str | None:
    """The option that asks for a paper's own formula by the value "paper"; None if the method has none."""
    return next((name for name in ("calibration", "defence") if name in method.options.model_fields), None)


def _reason(method: AnyMethod, task: Task, given: Mapping[str, Any], *, public: bool) -> str:
    """Why a method cannot take part; empty if it can."""
    if task not in method.tasks:
        return f"it is for {', '.join(method.tasks)}, not for {task}."
    if method.public_only and not public:
        return "it looks at everybody's rows in one place, which is only for data declared public."
    try:
        method.needs()
    except InputError as error:
        return str(error)
    needed = [
        name
        for name, field in method.options.model_fields.items()
        if field.is_required() and name not in given
    ]
    return f"it needs options that have no default: {', '.join(needed)}." if needed else ""
