"""What a policy says of one option of a method, of how often ids are compared, and of who approves a job."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from colonnade.data.declaring import nearest_name
from colonnade.data.documents import Document, Form, check, shown
from colonnade.errors import OutOfRange, PolicyRefused, UnknownChoice, UnknownKey, WrongType
from colonnade.federation.job import Job
from colonnade.ledger import Comparison
from colonnade.methods.table import METHODS
from colonnade.privacy.observers import named_observer
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.plans import DEFAULT_GAMMA

ANY = "*"
ANYTHING = "any"
OBSERVERS = ("server", "reader", "party:*", "coalition:*")
GRID = "gamma"
_KEY = re.compile(r"[0-9A-Fa-f]{64}")


class RangeForm(Form):
    """Numbers from `least` to `most`; either may be left out."""

    least: float | None = None
    most: float | None = None


class AlignmentsForm(Form):
    """How often ids may be compared: `most` times in any `days` days, or ever."""

    most: int
    days: float | None = None


@dataclass(frozen=True)
class Accepted:
    """The values of one option that a policy accepts beside its default."""

    option: str
    least: float | None = None
    most: float | None = None
    among: tuple[Any, ...] | None = None

    def takes(self, value: Any) -> bool:
        """Whether a job may ask for this value."""
        if self.among is not None:
            return value in self.among
        if self.least is None and self.most is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        # Written so that what is not a number is refused too.
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        if self.among is not None:
            return f"{self.option}: {', '.join(map(str, self.among))}"
        bounds = [
            f"at {word} {bound:g}"
            for word, bound in (("least", self.least), ("most", self.most))
            if bound is not None
        ]
        return f"{self.option}: {', '.join(bounds) or 'anything'}"


@dataclass(frozen=True)
class Alignments:
    """How often ids of one data set may be compared, with whomever."""

    most: int
    days: float | None

    def __str__(self) -> str:
        window = "" if self.days is None else f" in {self.days:g} days"
        return f"at most {self.most} time{'' if self.most == 1 else 's'}{window}"

    def check(self, earlier: Sequence[Comparison], dataset: str, *, place: str) -> None:
        """Return if there may be one more comparison of a data set now, after these."""
        since = ""
        if self.days is not None:
            began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=self.days)
            since = began.isoformat(timespec="microseconds")
        times = sum(one.dataset == dataset and one.time >= since for one in earlier)
        if times >= self.most:
            raise PolicyRefused(
                f"{place}: ids of {dataset!r} were compared {times} time{'' if times == 1 else 's'}, and accepted is "
                f"{self}. Wait, or raise it there if your people may be looked up more often."
            )


def alignments_of(form: AlignmentsForm | None, document: Document) -> Alignments | None:
    if form is None:
        return None
    if form.most < 0 or (form.days is not None and form.days <= 0):
        raise OutOfRange(
            f"{document.where(('alignments',))}: found most = {form.most}, days = {form.days}; write a number of times "
            "and, if it is to be in any so many days, a number of days greater than 0."
        )
    return Alignments(form.most, form.days)


@dataclass(frozen=True)
class Approvers:
    """How many people approve a job before it begins, and, where they have keys of their own, who may."""

    number: int
    keys: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        of = f" of {', '.join(name for name, _ in self.keys)}" if self.keys else ""
        who = {1: "a person" if not of else "one", 2: "two people" if not of else "two"}[self.number]
        verb = "approves" if self.number == 1 else "approve"
        return f"{who}{of} {verb} every job{', each with a key' if of else ''}"


Approving = Literal["ask", "two"]
Submitting = Literal["one", "two"]


def people_of(
    approval: Approving | None, approvers: Mapping[str, str] | None, document: Document
) -> Approvers | None:
    """Who approves a job, checked; None if nobody is asked."""
    if approval is None:
        if approvers is not None:
            raise OutOfRange(
                f'{document.where(("approvers",))}: people are named and nobody is asked. Write approval = "ask" or '
                '"two".'
            )
        return None
    number = 1 if approval == "ask" else 2
    for name, key in (approvers or {}).items():
        if not _KEY.fullmatch(key):
            raise WrongType(
                f"{document.where(('approvers', name))}: a public key is 64 hexadecimal digits, as `colonnade party "
                "approver FILE` prints it."
            )
    named = tuple((name, key.lower()) for name, key in (approvers or {}).items())
    if len({key for _, key in named}) < len(named):
        raise OutOfRange(
            f"{document.where(('approvers',))}: two people have the same key, and one of them could sign for both. "
            "Give each a key of their own."
        )
    if approvers is not None and len(named) < number:
        raise OutOfRange(
            f"{document.where(('approvers',))}: {number} of them must approve a job, each with a key of their own, and "
            f"there {'is' if len(named) == 1 else 'are'} {len(named)}. Name more people."
        )
    return Approvers(number, named)


def check_limits(epsilons: Mapping[str, float], document: Document) -> None:
    """Return if a policy's limits are for observers that there are, and greater than 0."""
    for observer, epsilon in epsilons.items():
        where = document.where(("epsilon", observer))
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise OutOfRange(f"{where}: found {epsilon!r}; it must be greater than 0.")
        if not observer.endswith(ANY):
            try:
                named_observer(observer)
            except ValueError as error:
                raise UnknownChoice(f"{where}: {error}.{nearest_name(observer, OBSERVERS)}") from None
        elif observer not in (ANY, "party:*", "coalition:*"):
            raise UnknownChoice(
                f"{where}: found {observer!r}; patterns are '*', 'party:*' and 'coalition:*'."
                f"{nearest_name(observer, OBSERVERS)}"
            )


def options_of(
    given: Mapping[str, Mapping[str, Any]], document: Document
) -> tuple[tuple[str, tuple[Accepted, ...]], ...]:
    """What a policy accepts of each method's options, checked against what the methods have."""
    options = []
    for method, listed in given.items():
        if method not in METHODS:
            raise UnknownChoice(
                f"{document.where(('options', method))}: no method is called {method!r}; there are "
                f"{', '.join(METHODS)}.{nearest_name(method, METHODS)}"
            )
        known = (*METHODS[method].options.model_fields, GRID)
        rules = []
        for option, value in listed.items():
            place = ("options", method, option)
            if option not in known:
                raise UnknownKey(
                    f"{document.where(place)}: {method!r} has no option {option!r}; known are "
                    f"{', '.join(dict.fromkeys(known))}.{nearest_name(option, known)}"
                )
            rules.append(_accepted(option, value, document, place))
        options.append((method, tuple(rules)))
    return tuple(options)


def _accepted(option: str, value: Any, document: Document, place: tuple[str, ...]) -> Accepted:
    if value == ANYTHING:
        return Accepted(option)
    if isinstance(value, list):
        return Accepted(option, among=tuple(value))
    if isinstance(value, Mapping) and value:
        form = check(RangeForm, dict(value), document=document, prefix=place)
        return Accepted(option, form.least, form.most)
    raise WrongType(
        f"{document.where(place)}: found {shown(value)}; write a list of accepted values, {{least = …, most = …}}, or "
        f'"{ANYTHING}".'
    )


def check_options(job: Job, accepted: Sequence[Accepted], *, policy: str) -> None:
    """Return if every option of a job has its default, or a value that the policy accepts."""
    rules = {rule.option: rule for rule in accepted}
    requested: list[tuple[str, Any, Any]] = [
        (name, getattr(job.options, name), field.get_default(call_default_factory=True))
        for name, field in type(job.options).model_fields.items()
    ]
    requested.append((GRID, job.gamma, DEFAULT_GAMMA))
    for name, value, default in requested:
        if value == default or (name in rules and rules[name].takes(value)):
            continue
        said = f"accepted is {rules[name]}" if name in rules else f"accepted is the default, {shown(default)}"
        raise PolicyRefused(
            f"{policy}, options.{job.method}.{name}: the job asks for {shown(value)}, and {said}. To accept it, write "
            f"{_remedy(name, value)} under [options.{job.method}]."
        )


def check_verify(least: Verify | None, found: Verify | None, *, policy: str, planned: bool) -> None:
    """Return if a job, or the plan made of it, checks as much of what others deal as a policy asks.

    Without a word in the policy a job may check what it does by default or more, and may not say "none".
    """
    order: tuple[Verify, ...] = ("none", "rows", "all")
    if least is None:
        short = found == "none" and not planned
    else:
        short = planned and order.index(found or "none") < order.index(least)
    if short:
        said = "accepted is the default, or more" if least is None else f"the least accepted is {least!r}"
        raise PolicyRefused(
            f"{policy}, verify: of what others deal the job checks {found or 'none'!r}, and {said}. To accept it, "
            f'write verify = "{found or "none"}".'
        )


def _remedy(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"{name} = [{str(value).lower()}]"
    if isinstance(value, int | float) and math.isfinite(value):
        short = f"{value:g}"
        return f"{name} = {{most = {short if float(short) == value else repr(value)}}}"
    if isinstance(value, str):
        return f'{name} = ["{value}"]'
    return f'{name} = "{ANYTHING}"'
