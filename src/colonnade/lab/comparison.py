"""Every method on the same people at the same ε: what privacy costs, and what each way of getting it costs.

The data is public: the people are split by a public seed, each method trains on one part through its real protocol,
and its accuracy on the other part is exact. On private data that would be a release of its own.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.data.declaring import nearest_name
from colonnade.data.documents import Form, check
from colonnade.data.table import Table
from colonnade.errors import ColonnadeError, InputError
from colonnade.evaluation.open_rows import METRICS, HeldOut, split
from colonnade.federation.federation import Federation
from colonnade.methods.baselines.gathering import TRUST
from colonnade.methods.method import AnyMethod, TrainedModel
from colonnade.methods.table import METHODS
from colonnade.models.fitting import NoiseWarning
from colonnade.models.release import MomentRelease
from colonnade.privacy.guarantee import Guarantee
from colonnade.privacy.paper import LABEL
from colonnade.protocols.plans import DEFAULT_GAMMA, Task, TrainingSpec, check_parties
from colonnade.report.facts import guarantee_facts
from colonnade.report.record import ComparisonRecord, ComparisonRow
from colonnade.runtime.party import Group, silent


@dataclass(frozen=True)
class Contender:
    """`paper` marks one that is calibrated as a paper says; `label` tells two of one method apart."""

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
        return f"{self.method.title} ({LABEL})" if self.paper else self.method.title


@dataclass(frozen=True)
class ComparisonEntries:
    contenders: tuple[Contender, ...]
    left_out: tuple[tuple[str, str], ...]

    def runs(
        self, task: Task, epsilons: Sequence[float], **terms: Any
    ) -> list[tuple[Contender, float | None, TrainingSpec]]:
        """Every contender at every ε, or once where it has none; `terms` are what specs have in common."""
        return [
            (entry, epsilon, TrainingSpec(task, epsilon or epsilons[-1], options=entry.options, **terms))
            for entry in self.contenders
            for epsilon in (epsilons if entry.method.has_epsilon else (None,))
        ]


def field_of(
    methods: Iterable[AnyMethod],
    task: Task,
    *,
    named: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    paper: bool = False,
) -> ComparisonEntries:
    """Every method that can do the task, or those named; each with its options, else with its defaults.

    `paper` adds a contender with a paper's calibration. A method that was named and cannot do the task
    is an error; one that could and may not is left out with its reason.
    """
    table = {method.name: method for method in methods}
    for name in (*(named or ()), *(options or {})):
        if name not in table:
            raise InputError(
                f"no method is called {name!r}; there are {', '.join(table)}.{nearest_name(name, tuple(table))}"
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
        reason = _reason(method, task, given)
        if reason and named is not None:
            raise InputError(f"method {name!r} cannot take part: {reason}")
        if reason:
            left_out.append((name, reason))
            continue
        contenders.append(Contender(method, check(method.options, given, name=f"options of {name!r}")))
        choice = paper_choice(method)
        if paper and choice is not None:
            form = check(method.options, {**given, choice: "paper"}, name=f"options of {name!r}")
            contenders.append(Contender(method, form, paper=True))
    if not contenders:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out)
        raise InputError(f"no method is left to compare. {reasons}")
    return ComparisonEntries(tuple(contenders), tuple(left_out))


def paper_choice(method: AnyMethod) -> str | None:
    """The option that asks for a paper's own formula by the value "paper"; None if the method has none."""
    return next((name for name in ("calibration", "defence") if name in method.options.model_fields), None)


def _reason(method: AnyMethod, task: Task, given: Mapping[str, Any]) -> str:
    if task not in method.tasks:
        return f"it is for {', '.join(method.tasks)}, not for {task}."
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


DEFAULT_EPSILONS = (0.1, 1.0, 10.0)
DEFAULT_SEEDS = 5
TEST_SHARE = 0.2
METRIC_NOTES: dict[Task, str] = {
    "classification": "the share of held-out people whose class is predicted right",
    "regression": "over held-out people, the label scaled to [−1, 1]",
    "pca": "of held-out people, over that of their own best directions",
}
# Public data is charged to ledgers that end with the run; nothing is to be refused there.
_UNLIMITED = (1e9, 0.5)
Advance = Callable[[str, int, int], None]


def compare(
    tables: Iterable[Table],
    *,
    task: Task,
    epsilons: Sequence[float] = DEFAULT_EPSILONS,
    methods: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    paper: bool = False,
    field: ComparisonEntries | None = None,
    delta: float | None = None,
    accepted_delta: float | None = None,
    gamma: int = DEFAULT_GAMMA,
    seeds: int = DEFAULT_SEEDS,
    test_share: float = TEST_SHARE,
    components: int | None = None,
    server: str = "server",
    threshold: int | None = None,
    computing_parties: tuple[str, ...] | None = None,
    timeout: float = 600.0,
    noise_seed: int | None = None,
    progress: Advance = silent,
) -> ComparisonRecord:
    """Compare methods on tables that are public: calling this declares them so, and nothing is charged.

    Every method that can do the task takes part, or those named in `methods`; `options` are by method, and `paper`
    adds the calibrations of papers, which guarantee nothing. A `field` takes the place of all three. Seeds 0, 1, …
    each give a split of the people that all tables have in common; noise is fresh, unless a study seeds it. A party
    that waits longer than `timeout` seconds for another gives up.
    """
    given = list(tables)
    chosen = field or field_of(METHODS.values(), task, named=methods, options=options, paper=paper)
    requested_epsilons = checked_epsilons(epsilons)
    if seeds < 1:
        raise InputError(f"seeds = {seeds}; a comparison needs at least one split.")
    holders = [table.party for table in given if table.schema.label is not None]
    seats: dict[str, Any] = {"server": server, "threshold": threshold, "computing_parties": computing_parties}
    owners = tuple(table.party for table in given)
    group = Group.of(owners, active=holders[0] if holders else None, **seats)
    check_parties(group, tuple(table.public() for table in given), task)
    terms: dict[str, Any] = {"delta": delta, "accepted_delta": accepted_delta, "gamma": gamma}
    runs = chosen.runs(task, requested_epsilons, **terms)
    outcomes: list[list[_Run]] = [[] for _ in runs]
    constants, trained_on, tested_on = [], 0, 0
    for seed in range(seeds):
        training, testing = split(given, seed=seed, share=test_share)
        held_out = HeldOut(task, testing, components=components)
        constants.append(held_out.constant_figures())
        trained_on, tested_on = training[0].rows, testing[0].rows
        for number, (entry, _, spec) in enumerate(runs):
            progress("comparing", seed * len(runs) + number, seeds * len(runs))
            place = Federation(
                training,
                budget=_UNLIMITED,
                timeout=timeout,
                public=True,
                noise_seed=None if noise_seed is None else noise_seed + seed,
                **seats,
            )
            outcomes[number].append(_run(entry, place, spec, held_out))
    progress("comparing", seeds * len(runs), seeds * len(runs))
    metric = METRICS[task]
    means = {name: statistics.fmean(one[name] for one in constants) for name in constants[0]}
    return ComparisonRecord(
        name="",
        task=task,
        public=True,
        epsilons=list(requested_epsilons),
        delta=delta,
        seeds=seeds,
        trained_on=trained_on,
        held_out=tested_on,
        constants=means,
        rows=[_row(entry, at, done) for (entry, at, _), done in zip(runs, outcomes, strict=True)],
        left_out=[{"method": method, "reason": reason} for method, reason in chosen.left_out],
        metric=metric,
        metric_note=METRIC_NOTES[task],
        larger_is_better=task != "regression",
        constant=means.get(metric),
    )


def comparison_facts(comparison: ComparisonRecord, *, name: str) -> ComparisonRecord:
    return comparison.model_copy(update={"name": name})


def checked_epsilons(epsilons: Sequence[float]) -> tuple[float, ...]:
    if not len(epsilons):
        raise InputError("the list of ε is empty. Give at least one, for instance 0.1,1,10.")
    for epsilon in epsilons:
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise InputError(f"the list of ε holds {epsilon:g}; privacy loss is a finite number above 0.")
    for before, after in itertools.pairwise(epsilons):
        if after == before:
            raise InputError(f"the list of ε holds {after:g} twice. Give each once.")
        if after < before:
            shown = ",".join(f"{epsilon:g}" for epsilon in sorted(set(epsilons)))
            raise InputError(
                f"the list of ε has {after:g} after {before:g}. Give it in rising order: {shown}."
            )
    return tuple(float(epsilon) for epsilon in epsilons)


@dataclass(frozen=True)
class _Run:
    figures: Mapping[str, float]
    failure: str | None
    guarantees: tuple[Guarantee, ...]
    seconds: float
    bytes_sent: int | None
    split: bool
    notes: tuple[str, ...]


def _run(entry: Contender, federation: Federation, spec: TrainingSpec, held_out: HeldOut) -> _Run:
    """What noise or a plan made impossible is a reason."""
    start = time.perf_counter()
    trained: TrainedModel | MomentRelease | None = None
    figures: Mapping[str, float] = {}
    failure = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoiseWarning)
        try:
            trained = entry.method.train(federation, spec)
            seconds = time.perf_counter() - start
            figures = held_out.figures(trained)
        except ColonnadeError as error:
            seconds = time.perf_counter() - start
            failure = str(error)
    notes = [str(item.message) for item in caught if issubclass(item.category, NoiseWarning)]
    if isinstance(trained, TrainedModel):
        notes += trained.notes
    sent = [run.outcome.bytes_sent for run in federation.runs]
    return _Run(
        figures,
        failure,
        tuple(trained.privacy) if trained is not None else (),
        seconds,
        sum(sent) if sent else None,
        isinstance(trained, TrainedModel) and trained.split,
        tuple(notes),
    )


def _row(entry: Contender, epsilon: float | None, runs: Sequence[_Run]) -> ComparisonRow:
    sent = [run.bytes_sent for run in runs if run.bytes_sent is not None]
    scored = [run.figures for run in runs if run.figures]
    main, *others = scored[0] if scored else [""]
    scores = [figures[main] for figures in scored]
    promised = next((run.guarantees for run in runs if run.guarantees), ())
    return ComparisonRow(
        method=entry.name,
        title=entry.title,
        paper=entry.paper,
        trusted=any(item.assumption == TRUST for run in runs for item in run.guarantees),
        split=any(run.split for run in runs),
        epsilon=epsilon,
        scores=scores,
        failures=[run.failure for run in runs if run.failure is not None],
        guarantees=[] if entry.paper else [guarantee_facts(item) for item in promised],
        seconds=statistics.fmean(run.seconds for run in runs),
        notes=list(dict.fromkeys(note for run in runs for note in run.notes)),
        further={name: [figures[name] for figures in scored if name in figures] for name in others},
        mean=statistics.fmean(scores) if scores else None,
        spread=statistics.stdev(scores) if len(scores) > 1 else None,
        bytes=statistics.fmean(sent) if sent else None,
    )
