"""Every attack that fits some parties' data, on recorded runs of the undefended protocol and of the defended one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table
from colonnade.errors import RemoteProtocolError
from colonnade.lab import attacks
from colonnade.lab.experiments import Progress, run_recorded
from colonnade.methods.encrypted import protocol as encrypted
from colonnade.methods.encrypted.plan import EncryptedOptions, EncryptedPlan
from colonnade.methods.encrypted.protocol import IdealDescent, OwnerState, OwnerTranscript, Question
from colonnade.protocols.plans import TrainingSpec, options_of
from colonnade.randomness import SystemRandomness, public_permutation
from colonnade.report.record import Attempt
from colonnade.runtime.party import Group, Party, silent

Array = NDArray[np.float64]
Asker = Callable[[EncryptedPlan, str], Question]


@dataclass(frozen=True, eq=False)
class Transcript:
    """What every owner could write down, and the truth to score an attack with."""

    plan: EncryptedPlan
    diaries: Mapping[str, OwnerTranscript]
    holdings: Mapping[str, OwnerState]

    @property
    def labels(self) -> Array:
        labels = self.holdings[self.plan.active].labels
        if labels is None:
            raise ValueError("the active party brought no labels")
        return labels

    @property
    def largest_starting_score(self) -> float:
        """ε of corollary 4.5: the largest |θ₀ᵀx|, which the attacker knows from how weights are initialised."""
        scores = [self.holdings[owner].features @ diary.weights[0] for owner, diary in self.diaries.items()]
        return float(np.max(np.abs(np.sum(scores, axis=0))))

    def view(self, owner: str) -> attacks.OwnerView:
        holding = self.holdings[owner]
        return attacks.OwnerView(self.plan, owner, self.diaries[owner], holding.features, holding.labels)


def owners_alone(tables: Mapping[str, Table]) -> Group:
    """The group of these parties; two need nobody else."""
    holders = [party for party, table in tables.items() if table.schema.label is not None]
    active = holders[0] if holders else None
    if len(tables) == 2:
        first, second = tables
        return Group.pair(first, second, active=active)
    return Group.of(tuple(tables), active=active)


def planned(tables: Mapping[str, Table], spec: TrainingSpec) -> EncryptedPlan:
    schemas = tuple(table.public() for table in tables.values())
    plan: EncryptedPlan = spec.plan(owners_alone(tables), schemas, _rows(tables))
    return plan


def recorded(
    tables: Mapping[str, Table],
    spec: TrainingSpec,
    *,
    attacker: str | None = None,
    asks: Asker | None = None,
    progress: Progress = silent,
) -> tuple[Transcript, Question | None]:
    """`attacker` asks something else than was agreed, if `asks` says so."""
    group = owners_alone(tables)
    question = asks(planned(tables, spec), attacker) if asks is not None and attacker is not None else None

    async def program(party: Party, table: Table | None) -> encrypted.Descended:
        own = question if party.name == attacker else None
        return await encrypted.encrypted_session(party, table, spec, own)

    outcome = run_recorded(program, group, tables, progress=progress)
    results = {owner: outcome.results[owner] for owner in group.owners}
    plan = results[group.owners[0]].plan
    diaries = {owner: result.diary for owner, result in results.items() if result.diary is not None}
    return Transcript(plan, diaries, _holdings(tables, plan)), question


def arbiters(tables: Mapping[str, Table], spec: TrainingSpec) -> tuple[Transcript, IdealDescent]:
    """A run in which an arbiter tells every party its gradient after each batch, without encryption in between."""
    plan = planned(tables, spec)
    randomness = {owner: SystemRandomness() for owner in plan.group.owners}
    ideal = encrypted.ideal_descent(plan, tables, randomness)
    return Transcript(plan, ideal.diaries, _holdings(tables, plan)), ideal


def messages_by_epoch(plan: EncryptedPlan, ideal: IdealDescent, owner: str) -> list[Array]:
    steps = plan.schedule.steps_per_epoch
    messages = []
    for epoch in range(plan.schedule.epochs):
        message = np.zeros(plan.rows)
        sent = ideal.messages[owner][epoch * steps : (epoch + 1) * steps]
        for rows, numbers in zip(plan.batches(epoch), sent, strict=True):
            message[rows] = numbers / (1 << plan.fraction_bits)
        messages.append(message)
    return messages


def _holdings(tables: Mapping[str, Table], plan: EncryptedPlan) -> dict[str, OwnerState]:
    return {owner: OwnerState(owner, tables[owner], plan, SystemRandomness()) for owner in plan.group.owners}


# Inner products of so few people are n(n + 1)/2 unknowns that so many epochs determine.
_FEW, _MANY_EPOCHS, _FAST = 12, 12, 0.5
_RECORDED = "our protocol, recorded"


def _options(spec: TrainingSpec) -> EncryptedOptions:
    return options_of(spec, EncryptedOptions)


@dataclass(frozen=True)
class Campaign:
    """All parties' tables hold the same people in the same order and are declared public.

    `people` is how many of them take part in encrypted runs; an arbiter's run, which takes no time, has all.
    """

    tables: Mapping[str, Table]
    spec: TrainingSpec
    people: int
    progress: Progress = silent

    def findings(self) -> Iterator[Attempt]:
        # The defence is worked out for the Taylor coefficient, whatever is attacked without it.
        for spec in (
            self.spec.with_options(defence="none"),
            self.spec.with_options(defence="sound", approximation="taylor"),
        ):
            yield from self._labels(spec)
            yield from self._arbiter(spec)
            yield from self._packed(spec)
            yield from self._columns(spec)

    @cached_property
    def _some(self) -> dict[str, Table]:
        if self.people >= _rows(self.tables):
            return dict(self.tables)
        chosen = public_permutation(_rows(self.tables), seed=1)[: self.people]
        return {party: table.take(chosen) for party, table in self.tables.items()}

    @cached_property
    def _attacker(self) -> str:
        """The party without the label that has the most columns: it has the most equations."""
        plan = planned(self.tables, self.spec.with_options(defence="none", batch=None))
        return max((owner for owner in plan.group.owners if owner != plan.active), key=plan.width)

    def _fitting(self, spec: TrainingSpec, tables: Mapping[str, Table]) -> TrainingSpec:
        """The spec with batches of as many records as the attacker has columns, unless it names its own."""
        width = planned(tables, spec.with_options(batch=None)).width(self._attacker)
        return spec.with_options(batch=min(_rows(tables), _options(spec).batch or max(2, width)))

    def _labels(self, spec: TrainingSpec) -> Iterator[Attempt]:
        transcript, _ = recorded(self._some, self._fitting(spec, self._some), progress=self.progress)
        yield self._from_gradients(transcript, _RECORDED)
        if transcript.plan.width(transcript.plan.active) == 0 and transcript.plan.splits:
            view = transcript.view(self._attacker)
            guesses = attacks.labels_without_other_columns(view, transcript.holdings[self._attacker].integers)
            success = attacks.label_success(guesses, transcript.labels)
            yield self._attempt("labels of a party without columns", transcript.plan, success=success)

    def _arbiter(self, spec: TrainingSpec) -> Iterator[Attempt]:
        transcript, ideal = arbiters(self.tables, self._fitting(spec, self.tables))
        yield self._from_gradients(transcript, "an arbiter's gradients, everybody")
        if _options(spec).defence == "sound":
            plan = transcript.plan
            sigma = float(plan.noise_of(plan.active).sigma_squared) ** 0.5 / (1 << plan.fraction_bits)
            messages = messages_by_epoch(plan, ideal, plan.active)
            averaged = attacks.average_signs(messages, transcript.labels, sigma=sigma)
            yield self._attempt(
                "labels from averaged messages",
                plan,
                run="every message in the clear, everybody",
                success=averaged.by_looks[-1],
                by_epoch=averaged.by_looks,
                note=f"σ = {sigma:.3g}; Φ(2·√looks/σ) = {averaged.predicted[-1]:.3f} after the last epoch",
            )

    def _packed(self, spec: TrainingSpec) -> Iterator[Attempt]:
        attack, attacker, tables = "labels from packed answers", self._attacker, self._some
        if not planned(self.tables, spec).splits:
            reason = f"not run: with {_options(spec).approximation} the label holder is asked for no sums"
            yield self._attempt(attack, planned(self.tables, spec), run="our protocol", note=reason)
            return
        rows = _rows(tables)
        reads = attacks.PackedQuestion(
            planned(tables, spec.with_options(defence="none", batch=rows)), attacker
        ).reads
        packed = spec.with_options(epochs=1, batch=min(rows, reads, 256))
        plan = planned(tables, packed)
        try:
            transcript, requested = recorded(
                tables, packed, attacker=attacker, asks=attacks.PackedQuestion, progress=self.progress
            )
        except RemoteProtocolError as error:
            yield self._attempt(attack, plan, refused=str(error))
        else:
            guesses = np.zeros(rows)
            captured = requested.captured if isinstance(requested, attacks.PackedQuestion) else []
            for batch, values in zip(transcript.plan.batches(0), captured, strict=True):
                guesses[batch[: len(values)]] = -np.sign(np.array(values, dtype=np.float64))
            note = f"batches of {_options(packed).batch}, with {plan.width(attacker)} columns"
            yield self._attempt(
                attack, plan, success=attacks.label_success(guesses, transcript.labels), note=note
            )
        attack = "claiming more columns"
        try:
            recorded(tables, packed, attacker=attacker, asks=lambda _plan, _owner: attacks.WideQuestion())
        except RemoteProtocolError as error:
            yield self._attempt(attack, plan, refused=str(error))
        else:
            note = "it was not refused: the peer took the claim"
            yield self._attempt(attack, plan, run="our protocol", note=note)

    def _columns(self, spec: TrainingSpec) -> Iterator[Attempt]:
        plan = planned(self.tables, spec)
        if len(self.tables) != 2:
            reason = "not run: with more than two parties a sum does not say whose columns it is of"
            yield self._attempt("columns of the other party", plan, run="our protocol", note=reason)
            return
        active, passive = plan.active, self._attacker
        if plan.width(passive) == 1 and plan.width(active) >= 2:
            yield self._column(spec, active, passive)
        elif plan.width(active) == 1 and plan.width(passive) >= 2:
            yield self._column(spec, passive, active)
        elif plan.width(active) >= 2:
            yield self._inner_products(spec, active, passive)

    def _column(self, spec: TrainingSpec, attacker: str, target: str) -> Attempt:
        width = planned(self._some, spec.with_options(batch=None)).width(attacker)
        several = spec.with_options(batch=min(width, self.people), epochs=max(4, _options(spec).epochs))
        transcript, _ = recorded(self._some, several, progress=self.progress)
        plan, view, labels = transcript.plan, transcript.view(attacker), transcript.labels
        if attacker != plan.active:
            labels = attacks.recover_labels(view, labels).guesses
        truth = transcript.holdings[target].features[:, 0]
        recovered = attacks.recover_column(
            attacks.foreign_scores(view, labels), rows=plan.rows, step=plan.step_size
        )
        signed = recovered * (np.sign(np.nansum(recovered * truth)) or 1.0)
        return self._attempt(
            "the only column",
            plan,
            attacker=attacker,
            target=target,
            success=attacks.value_success(signed, truth),
        )

    def _inner_products(self, spec: TrainingSpec, attacker: str, target: str) -> Attempt:
        few = public_permutation(_rows(self.tables), seed=2)[:_FEW]
        tables = {party: table.take(few) for party, table in self.tables.items()}
        batch = min(len(few) // 2, planned(tables, spec.with_options(batch=None)).width(attacker))
        long = spec.with_options(batch=max(1, batch), epochs=_MANY_EPOCHS, learning_rate=_FAST)
        transcript, _ = recorded(tables, long, progress=self.progress)
        recovered = attacks.recover_inner_products(
            attacks.foreign_scores(transcript.view(attacker), transcript.labels),
            rows=len(few),
            step=transcript.plan.step_size,
            starts_at_zero=_options(spec).initialisation == "zero",
        )
        features = transcript.holdings[target].features
        upper = np.triu_indices(len(few))
        return self._attempt(
            "inner products of records",
            transcript.plan,
            attacker=attacker,
            target=target,
            success=attacks.value_success(recovered[upper], (features @ features.T)[upper], tolerance=0.05),
            note=f"{len(few)} people, {_MANY_EPOCHS} epochs; entries within a twentieth of their spread",
        )

    def _from_gradients(self, transcript: Transcript, run: str) -> Attempt:
        view, largest = transcript.view(self._attacker), transcript.largest_starting_score
        recovery = attacks.recover_labels(view, transcript.labels, largest_score=largest)
        note = f"{recovery.determined:.0%} of the batches determine every coefficient"
        if recovery.safe_steps is not None and transcript.plan.options.defence == "none":
            note += f"; cannot fail in the first {recovery.safe_steps.value:.0f} steps"
        epochs, plan = recovery.by_epoch, transcript.plan
        return self._attempt(
            "labels from gradients", plan, run=run, success=epochs[0], by_epoch=epochs, note=note
        )

    def _attempt(
        self,
        attack: str,
        plan: EncryptedPlan,
        *,
        success: attacks.Success | None = None,
        by_epoch: tuple[attacks.Success, ...] = (),
        **facts: Any,
    ) -> Attempt:
        """Unless something else is said, the party without the label attacks its holder in our protocol."""
        usual = {"attacker": self._attacker, "target": plan.active, "run": _RECORDED}
        return Attempt(
            attack=attack,
            **{"refused": None, "note": "", **usual, **facts},
            defence=plan.options.defence,
            success=None if success is None else success.record,
            by_epoch=[each.record for each in by_epoch],
        )


def _rows(tables: Mapping[str, Table]) -> int:
    return min(table.rows for table in tables.values())
