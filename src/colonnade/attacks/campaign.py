"""Every attack that fits some parties' data, on the undefended protocol and on the defended one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.attacks.active import PackedQuestion, WideQuestion
from colonnade.attacks.averaging import average_signs
from colonnade.attacks.features import foreign_scores, recover_column, recover_inner_products
from colonnade.attacks.labels import labels_without_other_columns, recover_labels
from colonnade.attacks.success import Success, label_success, value_success
from colonnade.attacks.transcripts import (
    Progress,
    Transcript,
    arbiters,
    messages_by_epoch,
    planned,
    recorded,
)
from colonnade.data.table import Table
from colonnade.errors import RemoteProtocolError
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.protocols.specs import TrainingSpec, options_of
from colonnade.randomness import public_permutation
from colonnade.runtime.party import silent

Array = NDArray[np.float64]
# Inner products of so few people are n(n + 1)/2 unknowns that so many epochs determine.
_FEW, _MANY_EPOCHS, _FAST = 12, 12, 0.5


@dataclass(frozen=True)
class Finding:
    """One attack on one run: how well it did, epoch by epoch where that means something, or who refused it."""

    attack: str
    attacker: str
    target: str
    run: str
    defence: str
    success: Success | None = None
    by_epoch: tuple[Success, ...] = ()
    refused: str | None = None
    note: str = ""

    def to_data(self) -> dict[str, Any]:
        return {
            "attack": self.attack,
            "attacker": self.attacker,
            "target": self.target,
            "run": self.run,
            "defence": self.defence,
            "success": None if self.success is None else self.success.to_data(),
            "by_epoch": [success.to_data() for success in self.by_epoch],
            "refused": self.refused,
            "note": self.note,
        }


def _options(spec: TrainingSpec) -> EncryptedOptions:
    return options_of(spec, EncryptedOptions)


@dataclass(frozen=True)
class Campaign:
    """Whom to attack and how: all parties' tables hold the same people in the same order and are declared public.

    `people` is how many of them take part in encrypted runs; an arbiter's run, which takes no time, has all.
    """

    tables: Mapping[str, Table]
    request: TrainingSpec
    people: int
    progress: Progress = silent

    def findings(self) -> Iterator[Finding]:
        """The attacks, one after another."""
        # The defence is worked out for the Taylor coefficient, whatever is attacked without it.
        for request in (
            self.request.with_options(defence="none"),
            self.request.with_options(defence="sound", approximation="taylor"),
        ):
            yield from self._labels(request)
            yield from self._arbiter(request)
            yield from self._packed(request)
            yield from self._columns(request)

    @property
    def _some(self) -> dict[str, Table]:
        rows = min(table.rows for table in self.tables.values())
        if self.people >= rows:
            return dict(self.tables)
        chosen = public_permutation(rows, seed=1)[: self.people]
        return {party: table.take(chosen) for party, table in self.tables.items()}

    @property
    def _attacker(self) -> str:
        """The party without the label that has the most columns: it has the most equations."""
        plan = planned(self.tables, self.request.with_options(defence="none", batch=None))
        passives = [owner for owner in plan.group.owners if owner != plan.active]
        return max(passives, key=plan.width)

    def _fitting(self, request: TrainingSpec, tables: Mapping[str, Table]) -> TrainingSpec:
        """The request with batches of as many records as the attacker has columns, unless it names its own."""
        rows = min(table.rows for table in tables.values())
        width = planned(tables, request.with_options(batch=None)).width(self._attacker)
        return request.with_options(batch=min(rows, _options(request).batch or max(2, width)))

    def _labels(self, request: TrainingSpec) -> Iterator[Finding]:
        tables = self._some
        transcript, _ = recorded(tables, self._fitting(request, tables), progress=self.progress)
        yield _label_finding(transcript, self._attacker, "our protocol, recorded")
        if transcript.plan.width(transcript.plan.active) == 0 and transcript.plan.splits:
            view = transcript.view(self._attacker)
            guesses = labels_without_other_columns(view, transcript.holdings[self._attacker].integers)
            success = label_success(guesses, transcript.labels)
            yield _finding("labels of a party without columns", transcript, self._attacker, success=success)

    def _arbiter(self, request: TrainingSpec) -> Iterator[Finding]:
        transcript, ideal = arbiters(self.tables, self._fitting(request, self.tables))
        yield _label_finding(transcript, self._attacker, "an arbiter's gradients, everybody")
        if _options(request).defence == "sound":
            plan = transcript.plan
            sigma = float(plan.noise_of(plan.active).sigma_squared) ** 0.5 / (1 << plan.fraction_bits)
            averaged = average_signs(
                messages_by_epoch(plan, ideal, plan.active), transcript.labels, sigma=sigma
            )
            yield _finding(
                "labels from averaged messages",
                transcript,
                self._attacker,
                run="every message in the clear, everybody",
                success=averaged.by_looks[-1],
                by_epoch=averaged.by_looks,
                note=f"σ = {sigma:.3g}; Φ(2·√looks/σ) = {averaged.predicted[-1]:.3f} after the last epoch",
            )

    def _packed(self, request: TrainingSpec) -> Iterator[Finding]:
        if not planned(self.tables, request).splits:
            reason = f"not run: with {_options(request).approximation} the label holder is asked for no sums"
            yield self._without("labels from packed answers", request, reason)
            return
        tables, attacker = self._some, self._attacker
        rows = min(table.rows for table in tables.values())
        once = request.with_options(epochs=1)
        reads = PackedQuestion(
            planned(tables, request.with_options(defence="none", batch=rows)), attacker
        ).reads
        packed = once.with_options(batch=min(rows, reads, 256))
        try:
            transcript, asked = recorded(
                tables, packed, attacker=attacker, asks=PackedQuestion, progress=self.progress
            )
        except RemoteProtocolError as error:
            yield _refusal("labels from packed answers", tables, packed, attacker, error)
        else:
            guesses = np.zeros(rows)
            captured = asked.captured if isinstance(asked, PackedQuestion) else []
            for batch, values in zip(transcript.plan.batches(0), captured, strict=True):
                guesses[batch[: len(values)]] = -np.sign(np.array(values, dtype=np.float64))
            success = label_success(guesses, transcript.labels)
            note = f"batches of {_options(packed).batch}, with {transcript.plan.width(attacker)} columns"
            yield _finding("labels from packed answers", transcript, attacker, success=success, note=note)
        try:
            recorded(tables, packed, attacker=attacker, asks=lambda _plan, _owner: WideQuestion())
        except RemoteProtocolError as error:
            yield _refusal("claiming more columns", tables, packed, attacker, error)
        else:
            yield self._without(
                "claiming more columns", request, "it was not refused: the peer took the claim"
            )

    def _columns(self, request: TrainingSpec) -> Iterator[Finding]:
        """The other party's features, where two parties are alone."""
        if len(self.tables) != 2:
            reason = "not run: with more than two parties a sum does not say whose columns it is of"
            yield self._without("columns of the other party", request, reason)
            return
        plan = planned(self.tables, request)
        active, passive = plan.active, self._attacker
        if plan.width(passive) == 1 and plan.width(active) >= 2:
            yield from self._column(request, active, passive)
        elif plan.width(active) == 1 and plan.width(passive) >= 2:
            yield from self._column(request, passive, active)
        elif plan.width(active) >= 2:
            yield from self._inner_products(request, active, passive)

    def _without(self, attack: str, request: TrainingSpec, note: str) -> Finding:
        """An attack without a score, and why."""
        active = planned(self.tables, request).active
        return Finding(attack, self._attacker, active, "our protocol", _options(request).defence, note=note)

    def _column(self, request: TrainingSpec, attacker: str, target: str) -> Iterator[Finding]:
        tables = self._some
        batch = min(planned(tables, request.with_options(batch=None)).width(attacker), self.people)
        several = request.with_options(batch=batch, epochs=max(4, _options(request).epochs))
        transcript, _ = recorded(tables, several, progress=self.progress)
        view, labels = transcript.view(attacker), transcript.labels
        if attacker != transcript.plan.active:
            labels = recover_labels(view, labels).guesses
        truth = transcript.holdings[target].features[:, 0]
        recovered = recover_column(
            foreign_scores(view, labels), rows=transcript.plan.rows, step=transcript.plan.step_size
        )
        signed = recovered * (np.sign(np.nansum(recovered * truth)) or 1.0)
        yield _finding(
            "the only column", transcript, attacker, target=target, success=value_success(signed, truth)
        )

    def _inner_products(self, request: TrainingSpec, attacker: str, target: str) -> Iterator[Finding]:
        rows = min(table.rows for table in self.tables.values())
        few = public_permutation(rows, seed=2)[:_FEW]
        tables = {party: table.take(few) for party, table in self.tables.items()}
        batch = min(len(few) // 2, planned(tables, request.with_options(batch=None)).width(attacker))
        long = request.with_options(batch=max(1, batch), epochs=_MANY_EPOCHS, learning_rate=_FAST)
        transcript, _ = recorded(tables, long, progress=self.progress)
        scores = foreign_scores(transcript.view(attacker), transcript.labels)
        recovered = recover_inner_products(
            scores,
            rows=len(few),
            step=transcript.plan.step_size,
            starts_at_zero=_options(request).initialisation == "zero",
        )
        features = transcript.holdings[target].features
        upper = np.triu_indices(len(few))
        success = value_success(recovered[upper], (features @ features.T)[upper], tolerance=0.05)
        note = f"{len(few)} people, {_MANY_EPOCHS} epochs; entries within a twentieth of their spread"
        yield _finding(
            "inner products of records", transcript, attacker, target=target, success=success, note=note
        )


def _label_finding(transcript: Transcript, attacker: str, run: str) -> Finding:
    attack = recover_labels(
        transcript.view(attacker), transcript.labels, largest_score=transcript.largest_starting_score
    )
    solved = f"{attack.determined:.0%} of the batches determine every coefficient"
    safe = (
        "" if attack.safe_steps is None else f"; cannot fail in the first {attack.safe_steps.value:.0f} steps"
    )
    return _finding(
        "labels from gradients",
        transcript,
        attacker,
        run=run,
        success=attack.by_epoch[0],
        by_epoch=attack.by_epoch,
        note=solved + (safe if transcript.plan.options.defence == "none" else ""),
    )


def _finding(
    attack: str,
    transcript: Transcript,
    attacker: str,
    *,
    target: str | None = None,
    run: str = "our protocol, recorded",
    success: Success,
    by_epoch: tuple[Success, ...] = (),
    note: str = "",
) -> Finding:
    plan = transcript.plan
    whom = target or plan.active
    return Finding(attack, attacker, whom, run, plan.options.defence, success, by_epoch, None, note)


def _refusal(
    attack: str,
    tables: Mapping[str, Table],
    request: TrainingSpec,
    attacker: str,
    error: RemoteProtocolError,
) -> Finding:
    plan = planned(tables, request)
    return Finding(
        attack, attacker, plan.active, "our protocol, recorded", _options(request).defence, refused=str(error)
    )
