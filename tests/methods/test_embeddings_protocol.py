"""Training on sums of embeddings: what is sent, what is learnt, what is refused, and how a run goes on."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embeddings_parties import EVERYBODY_PUBLIC, Line, Recorder, brings, group_of, run, tables_for
from numpy.typing import NDArray
from plan_runs import received
from scipy.stats import norm
from training_specs import requested
from typed import there, untyped

from colonnade.crypto.masks import packed_size
from colonnade.data.table import AlignedTable
from colonnade.errors import BudgetExceeded, DataError, InputError, LocalProtocolError, PlanError
from colonnade.ledger import Ledger
from colonnade.ledger.entry_store import Entry
from colonnade.methods.network.plan import EmbeddingsPlan, NetworkOptions
from colonnade.methods.network.protocol import PartyModels
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SystemRandomness
from colonnade.runtime.journal import journals_in
from colonnade.runtime.run import Outcome

FALSE_ALARM = 1e-9

PAPER = EVERYBODY_PUBLIC.with_options(beta=0.25, trials=4, embedding=3, batch=10, epochs=2)

PLAIN = PAPER.with_options(mechanism="none", beta=None)
NOISY = PAPER.with_options(mechanism="local-gaussian")
FROZEN = requested(
    NetworkOptions, task="classification", epsilon=4.0, delta=1e-5, trials=2, embedding=2, batch=10, epochs=1
)
LOCAL = FROZEN.with_options(regime="private-local", epochs=2, label_epsilon=1.0, parameters=10)


def fusion_of(outcome: Outcome) -> Recorder:
    result: Recorder = outcome.results["h"].brought.fusion
    return result


def test_without_noise_the_label_holder_reads_the_exact_sums_and_everybody_learns_from_its_gradient() -> None:
    tables = tables_for(24)
    outcome = run(tables, PLAIN)
    x = {table.party: next(table.blocks()).columns["x"] for table in tables}
    plan = outcome.results["h"].plan
    weights = {party: np.linspace(0.5, 1.0, 3) for party in x}
    for rows, sums, targets in fusion_of(outcome).seen:
        expected = sum(np.clip(x[party][rows, None] * weights[party], -1, 1) for party in x)
        assert np.allclose(sums, expected, atol=1e-6)
        gradient = sums * 0.01 - targets
        for party in x:
            weights[party] = weights[party] - 0.1 * (x[party][rows, None] * gradient).mean(axis=0)
    assert len(fusion_of(outcome).seen) == plan.steps
    for party, expected in weights.items():
        assert np.allclose(outcome.results[party].brought.contributor.weights, expected, atol=1e-5)


def test_with_noise_the_sums_are_the_estimate_of_everybodys_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, drawn = tables_for(24), []
    mechanism = type(PAPER.plan(group_of(tables), tuple(table.public() for table in tables), 24).noise)
    draw = untyped(mechanism).draw

    def witnessed(self: Any, values: NDArray[np.float64], randomness: SystemRandomness) -> NDArray[np.int64]:
        drawn.append(draw(self, values, randomness))
        last: NDArray[np.int64] = drawn[-1]
        return last

    monkeypatch.setattr(mechanism, "draw", witnessed)
    outcome = run(tables, PAPER)
    plan = outcome.results["h"].plan
    _, sums, _ = fusion_of(outcome).seen[0]
    assert np.array_equal(sums, plan.noise.estimate(sum(drawn[:3]), parties=3))


def test_a_frozen_label_holder_uses_its_own_embedding_as_it_is_and_sends_nothing_back() -> None:
    tables = tables_for(30, seed=3)
    outcome = run(tables, FROZEN.with_options(trials=2), record=True)
    sums = outcome.results["h"].sums
    plan = outcome.results["h"].plan
    own = next(tables[0].blocks()).columns["x"][:, None] * np.linspace(0.5, 1.0, 2)
    others = (sums - own) * float(plan.beta * plan.options.trials) + 2 * plan.options.trials / 2
    assert np.allclose(others, np.rint(others), atol=1e-6) and others.min() > -0.5 and others.max() < 4.5
    steps = {seen.step.split()[0] for party in ("p0", "p1") for seen in there(outcome.seen[party])}
    assert "back" not in steps and "sum" not in steps


def test_a_frozen_label_holder_of_the_local_baseline_adds_no_noise_to_its_own_embedding() -> None:
    tables = tables_for(30, parties=2, seed=3)
    outcome = run(tables, FROZEN.with_options(mechanism="local-gaussian"), record=True)
    sums = outcome.results["h"].sums
    sent = {int(step.split()[1]): rows / 4096 for step, rows in received(outcome, "h", "sum", "rows")}
    own = next(tables[0].blocks()).columns["x"][:, None] * np.linspace(0.5, 1.0, 2)
    for batch in outcome.results["h"].plan.batches(0):
        assert np.allclose(sums[batch.rows], own[batch.rows] + sent[batch.step], atol=1e-3)


def test_the_estimate_of_the_sums_is_unbiased_and_a_bias_of_three_tenths_would_be_noticed() -> None:
    bias, spread = _estimate_errors(shift=0.0)
    assert abs(bias) < norm.isf(FALSE_ALARM / 2) * spread
    bias, spread = _estimate_errors(shift=0.3)
    assert abs(bias) > norm.isf(FALSE_ALARM / 2) * spread


def _estimate_errors(*, shift: float) -> tuple[float, float]:
    tables = tables_for(4000, seed=5)
    outcome = run(tables, PAPER.with_options(batch=4000, epochs=1, embedding=2))
    rows, sums, _ = fusion_of(outcome).seen[0]
    x = {table.party: next(table.blocks()).columns["x"] for table in tables}
    exact = sum(np.clip(x[party][rows, None] * np.linspace(0.5, 1.0, 2), -1, 1) for party in x)
    variance = 3 / (4 * 4 * 0.25**2)
    return float((sums + shift - exact).mean()), math.sqrt(variance / untyped(exact).size)


def test_held_out_rows_are_looked_at_and_never_learnt_from_and_the_label_holder_may_stop() -> None:
    fusion = Recorder(np.ones((24, 1)), stops_after=1)
    request = PAPER.with_options(held_out=0.5, epochs=5)
    outcome = run(tables_for(24), request, bring=brings(request, fusion=fusion))
    learnt = np.concatenate([rows for rows, _, _ in fusion.seen])
    looked = np.concatenate([rows for rows, _, _ in fusion.looked])
    assert sorted([*learnt, *looked]) == list(range(24)) and len(looked) == 12
    assert {result.epochs for result in outcome.results.values()} == {1}


def test_a_private_local_run_learns_from_randomised_labels_that_stay_and_noisy_integer_sums() -> None:
    outcome = run(tables_for(40), LOCAL)
    plan = outcome.results["h"].plan
    targets = np.concatenate([targets for _, _, targets in fusion_of(outcome).seen])
    assert set(np.round(np.unique(np.abs(targets)), 6)) == {round(float(1 / (2 * plan.label_beta)), 6)}
    moved = outcome.results["p0"].brought.contributor.weights - np.linspace(0.5, 1.0, 2)
    assert np.abs(moved).max() > 0
    outcome = run(tables_for(40), LOCAL)
    labels: dict[Any, Any] = {}
    for rows, _, targets in fusion_of(outcome).seen:
        for row, target in zip(rows.tolist(), targets[:, 0].tolist(), strict=True):
            assert labels.setdefault(row, target) == target
    assert len(labels) == 40 and len(set(labels.values())) == 2


@pytest.mark.parametrize("bits", [16, 32])
def test_what_travels_is_k_bits_a_count_and_as_many_a_gradient_as_agreed(bits: int) -> None:
    tables = tables_for(20)
    outcome = run(tables, PAPER.with_options(gradient_bits=bits, epochs=1), record=True)
    plan = outcome.results["h"].plan
    assert plan.ring.bits == 4
    assert {words.nbytes for _, words in received(outcome, "h", "sum", "words")} == {packed_size(30, 4)}
    back = received(outcome, "p0", "back", "gradient")
    assert {gradient.nbytes for _, gradient in back} == {30 * bits // 8}
    assert outcome.bytes_by_step["sum"] > 4 * packed_size(30, 4)


def test_a_gradient_in_sixteen_bits_is_the_one_in_thirty_two_rounded() -> None:
    learnt = {}
    for bits in (16, 32):
        outcome = run(tables_for(20), PLAIN.with_options(gradient_bits=bits, epochs=1))
        learnt[bits] = outcome.results["p0"].brought.contributor.weights
    assert not np.array_equal(learnt[16], learnt[32])
    assert np.allclose(learnt[16], learnt[32], rtol=1e-3)


def test_a_refused_charge_leaves_nothing_of_the_data_on_the_wire() -> None:
    tables, seen = tables_for(20), []
    bring = brings(FROZEN)

    def watching(name: str) -> Callable[..., Any]:
        def inner(aligned: AlignedTable | None, plan: EmbeddingsPlan) -> PartyModels:
            brought = bring(name)(aligned, plan)
            if brought.contributor is not None:
                seen.append(brought.contributor)
            result: PartyModels = brought
            return result

        return inner

    with pytest.raises(BudgetExceeded, match="embedding coordinates"):
        run(tables, FROZEN, bring=watching, epsilon=1.0)
    assert seen and not any(contributor.embedded for contributor in seen)


class Bent(Line):
    """A network whose embeddings are wrong in one way."""

    wrong: Any = None

    def embed(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = self.wrong(super().embed(rows))
        return result


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda out: out * 0 + 1.0001, r"p0: the network gave embeddings outside \[−1, 1\]"),
        (lambda out: out * np.nan, "not numbers"),
        (lambda out: out[:, :1], r"embedded into shape \(10, 3\); the network gave \(10, 1\)"),
    ],
)
def test_an_embedding_that_is_not_as_agreed_is_refused_by_its_own_party(
    wrong: Callable[..., Any], says: str
) -> None:
    bring = brings(PAPER)

    def bent(name: str) -> Callable[..., Any]:
        def inner(aligned: AlignedTable | None, plan: EmbeddingsPlan) -> PartyModels:
            brought: PartyModels = bring(name)(aligned, plan)
            if name != "p0":
                return brought
            contributor = Bent(untyped(brought.contributor).features, 3)
            contributor.wrong = wrong
            return PartyModels(contributor, None)

        return inner

    with pytest.raises(DataError, match=says):
        run(tables_for(20), PAPER, bring=bent)


def test_a_network_of_another_width_or_size_is_refused_before_anything_is_charged() -> None:
    tables = tables_for(20)
    ledgers = {table.party: Ledger.in_memory(table.party) for table in tables}
    with pytest.raises(PlanError, match="embeddings of 5 numbers, but all parties agreed on 3"):
        run(tables, PAPER, bring=brings(PAPER, width=5), ledgers=ledgers)
    assert all(entry.kind != "charge" for ledger in ledgers.values() for entry in ledger.entries())
    request = LOCAL.with_options(parameters=1)
    with pytest.raises(PlanError, match="2 parameters; this plan accounts for noise on 1"):
        run(tables_for(20), request)


def test_a_gradient_that_is_no_number_stops_the_run() -> None:
    class Broken(Recorder):
        def learn(
            self, rows: NDArray[np.int64], sums: NDArray[np.float64], targets: NDArray[np.float64]
        ) -> NDArray[np.float64]:
            return np.full(sums.shape, np.inf)

    fusion = Broken(np.ones((20, 1)))
    with pytest.raises(DataError, match="no finite gradient"):
        run(tables_for(20), PAPER, bring=brings(PAPER, fusion=fusion))


def charges(ledgers: dict[str, Ledger]) -> dict[str, list[Entry]]:
    return {
        party: [entry for entry in ledger.entries() if entry.kind == "charge"]
        for party, ledger in ledgers.items()
    }


MEMBERS = ("h", "p0", "p1", "server")


@pytest.mark.parametrize("request_", [PAPER, NOISY, LOCAL], ids=["paper", "local noise", "private-local"])
@pytest.mark.parametrize("stopped", ["p0", "h"])
def test_a_run_that_stopped_goes_on_with_the_same_bytes_and_no_second_charge(
    tmp_path: Path, request_: TrainingSpec, stopped: str
) -> None:
    tables = tables_for(40)
    ledgers = {name: Ledger.in_memory(name) for name in MEMBERS}
    # The sixth batch is in the second epoch; parties before the failing one have sent it already.
    failing = brings(request_, fails=[(stopped, 5)])
    with pytest.raises(ConnectionError):
        run(tables, request_, bring=failing, journals=journals_in(tmp_path, MEMBERS), ledgers=ledgers)
    before = charges(ledgers)
    sent = {name: (tmp_path / name / "frames").read_bytes() for name in MEMBERS}
    assert all(sent.values())

    journals = journals_in(tmp_path, MEMBERS)
    keys = {name: journal.key for name, journal in journals.items()}
    outcome = run(tables, request_, journals=journals, ledgers=ledgers)
    assert charges(ledgers) == before and all(len(before[table.party]) == 1 for table in tables)
    # What had left is in the record as it was, and what followed is behind it.
    for name in MEMBERS:
        written = (tmp_path / name / "frames").read_bytes()
        assert written.startswith(sent[name]) and len(written) > len(sent[name])

    # It ends where it would have ended.
    whole = {name: Ledger.in_memory(name) for name in MEMBERS}
    again = journals_in(tmp_path / "again", MEMBERS)
    for name, journal in again.items():
        journal.key = keys[name]
    unbroken = run(tables, request_, journals=again, ledgers=whole)
    for table in tables:
        ended = [each.results[table.party].brought.contributor for each in (outcome, unbroken)]
        assert (ended[0] is None) is (ended[1] is None)
        assert ended[0] is None or np.array_equal(ended[0].weights, ended[1].weights)


def test_going_on_needs_every_members_record_and_the_same_plan(tmp_path: Path) -> None:
    tables = tables_for(20)
    ledgers = {name: Ledger.in_memory(name) for name in MEMBERS}
    with pytest.raises(ConnectionError):
        run(
            tables,
            PAPER,
            bring=brings(PAPER, fails=[("p0", 1)]),
            journals=journals_in(tmp_path, MEMBERS),
            ledgers=ledgers,
        )
    other = PAPER.with_options(trials=5)
    with pytest.raises(LocalProtocolError, match="something else than the record says"):
        run(tables, other, journals=journals_in(tmp_path, MEMBERS), ledgers=ledgers)
    shutil.rmtree(tmp_path / "p1")
    with pytest.raises(InputError, match="none of p1"):
        journals_in(tmp_path, MEMBERS)


def test_a_folder_of_records_is_one_run_s_at_a_time(tmp_path: Path) -> None:
    journals = journals_in(tmp_path, MEMBERS)
    with pytest.raises(InputError, match="still goes on in another process"):
        journals_in(tmp_path, MEMBERS)
    for journal in journals.values():
        journal.close()
    for journal in journals_in(tmp_path, MEMBERS).values():
        journal.forget()
