"""Noisy margin descent as users meet it: learners, options, probabilities, and runs that go on after a crash."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gradient_tables import people, tables_of
from numpy.typing import NDArray
from plan_runs import ledgers_for
from training_specs import requested as spec_of
from typed import untyped

from colonnade import Federation, LogisticRegression, Schema, Table
from colonnade.data.schema import PublicSchema
from colonnade.errors import ColonnadeError, LocalProtocolError, PlanError
from colonnade.federation.job import Job
from colonnade.methods.margin.method import twin as margin_twin
from colonnade.methods.margin.plan import MarginOptions
from colonnade.methods.margin.protocol import log_odds_slope, margin_session
from colonnade.methods.slr.method import as_log_odds
from colonnade.methods.slr.plan import SlrOptions
from colonnade.methods.table import METHODS, train_with
from colonnade.planning.forecast import default_for, settle
from colonnade.protocols.plans import TrainingSpec
from colonnade.randomness import SeededRandomness
from colonnade.runtime.channel import memory_network
from colonnade.runtime.journal import KNOWN, PROVED, Journal, JournalChannel, ReplayRandomness, ResumedLedger
from colonnade.runtime.party import Group, Party
from colonnade.runtime.wire import decode

ROWS = 4000
PAIR = ("bank", "shop")


def federation(parties: tuple[str, ...] = PAIR, rows: int = ROWS, **more: Any) -> Federation:
    tables = tables_of(parties, rows, **({"slope": more.pop("slope")} if "slope" in more else {}))
    return Federation(tables, **{"budget": (200.0, 1e-5), "public": True, "noise_seed": 5, **more})


@pytest.fixture(scope="module")
def fitted() -> tuple[Federation, LogisticRegression]:
    source = federation()
    return source, LogisticRegression(epsilon=2.0, method="margin").fit(source)


def test_it_learns_as_well_as_one_place_without_noise_and_as_its_twin(
    fitted: tuple[Federation, LogisticRegression],
) -> None:
    source, model = fitted
    rows, labels = people(source)
    exact = LogisticRegression(method="non-private").fit(federation())
    assert model.score(rows, labels) > exact.score(rows, labels) - 0.02 > 0.8
    plan = source.runs[-1].plan
    learnt = margin_twin(plan, source.tables, SeededRandomness("twin"))
    assert LogisticRegression().fit(learnt).score(rows, labels) == pytest.approx(
        model.score(rows, labels), abs=0.02
    )


def test_its_privacy_and_run_are_there_to_read(fitted: tuple[Federation, LogisticRegression]) -> None:
    source, model = fitted
    by_name = {one.observer.name: one for one in model.privacy_}
    assert by_name["server"].epsilon <= 2.0 < by_name["party:shop"].epsilon < 5.0
    run = source.runs[-1]
    assert run.release is None
    assert {"columns", "waves", "slopes", "weights", "comparison", "gradient"} <= set(
        run.outcome.bytes_by_step
    )
    for owner in run.plan.group.owners:
        assert run.result(owner).weights.tolist() == run.result().weights.tolist()
        assert run.result(owner).descent is None, "what was opened stays with the server"


def test_probabilities_are_near_the_best_that_a_slope_could_make_them(
    fitted: tuple[Federation, LogisticRegression],
) -> None:
    source, model = fitted
    rows, labels = people(source)
    signs = np.where(labels == "yes", 1.0, -1.0)
    scores = model.decision_function(rows)

    def loss(slope: np.float64) -> float:
        return float(np.logaddexp(0, -signs * slope * scores).mean())

    best = min(loss(slope) for slope in np.linspace(0.3, 3, 200))
    assert loss(untyped(1.0)) < 1.03 * best


def test_skewed_classes_get_probabilities_that_are_better_than_their_share() -> None:
    drawn = np.random.default_rng(3)
    rows, labels = people(federation())
    keep = (labels == "no") | (drawn.random(ROWS) < 0.08)
    thinned = [_some(table, keep) for table in tables_of(PAIR, ROWS)]
    model = LogisticRegression(epsilon=4.0, method="margin").fit(
        Federation(thinned, budget=(50.0, 1e-5), noise_seed=2)
    )
    found = model.predict_proba({name: values[keep] for name, values in rows.items()})[:, 1]
    truth = labels[keep] == "yes"
    share = truth.mean()
    assert 0.02 < share < 0.12
    constant = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    assert -np.log(np.where(truth, found, 1 - found)).mean() < 0.85 * constant
    assert found.mean() == pytest.approx(share, abs=0.04)


def _some(table: Table, keep: NDArray[np.bool_]) -> Table:
    (block,) = table.blocks(ROWS)
    names = np.array(list("abc"))
    columns = {
        name: (names[codes] if name.endswith("_kind") else codes)[keep]
        for name, codes in block.columns.items()
    }
    if block.label is not None:
        columns["y"] = np.array(["no", "yes"])[block.label][keep]
    return type(table).from_arrays(table.party, columns, table.schema)


def test_the_slope_is_that_of_the_link_at_scores_of_that_size() -> None:
    sizes = np.array([0.5, 2.0, 6.0])
    chances = (1 + np.exp(sizes)) / (3 + np.exp(sizes))
    np.testing.assert_allclose(log_odds_slope(sizes) * sizes, np.log(chances / (1 - chances)), rtol=1e-9)


def test_five_parties_train_with_two_colluders_allowed_for() -> None:
    source = federation(("bank", "insurer", "shop", "clinic", "school"), rows=1000)
    model = LogisticRegression(epsilon=4.0, method="margin", options={"steps": 4}).fit(source)
    assert source.runs[-1].plan.group.threshold == 2
    assert model.coef_.shape == (1, 5 * 6)


def test_a_classifier_without_a_method_takes_margin_and_moments_where_a_release_is_asked_about() -> None:
    source = federation(rows=200)
    model = LogisticRegression(epsilon=4.0).fit(source)
    assert model.method_ == "margin" and model.releases_ == () and "4 trials" in model.because_
    assert LogisticRegression(epsilon=4.0, ridge=1.0).fit(source).method_ == "moments"
    assert untyped(LogisticRegression(epsilon=4.0, method="moments").fit(source)).releases_


@pytest.mark.parametrize(
    ("lines", "method", "why"),
    [
        ("task = 'classification'", "margin", "most accurate"),
        ("task = 'regression'", "moments", "what regression needs"),
        ("task = 'classification'\ngamma = 8192", "moments", "the grid of a moment release"),
        ("task = 'classification'\nmethod = 'moments'", "moments", ""),
    ],
)
def test_a_job_without_a_method_says_which_it_takes_and_why(lines: str, method: str, why: str) -> None:
    job = Job.parse(f"name = 'n'\n{lines}\nparties = ['bank', 'shop']\nepsilon = 1.0")
    assert job.method == method and why in job.because and bool(job.because) == bool(why)


def declared(party: str, columns: int, classes: str | tuple[()] = ()) -> PublicSchema:
    lines = [
        f'columns.{party}{number} = {{kind = "numeric", low = 0, high = 1}}' for number in range(columns)
    ]
    if classes:
        lines.append(
            f'label = {{column = "y", kind = "classes", classes = {list(classes)}}}'.replace("'", '"')
        )
    return Schema.parse("\n".join(['id = "n"', *lines])).public(party)


@pytest.mark.parametrize(("classes", "method"), [("ab", "margin"), ("abcd", "moments")])
def test_the_default_asks_trials_in_pairs_and_has_one_answer(classes: str, method: str) -> None:
    group = Group.of(PAIR, active="bank")
    schemas = {"bank": declared("bank", 4, classes), "shop": declared("shop", 4)}
    requested = TrainingSpec("classification", 4.0, delta=1e-6)
    found = default_for(requested, group, schemas, rows=1000)
    assert found[0] == method and "in 4 trials margin descent" in found[1]
    assert ("beyond chance" in found[1]) == (method == "margin")
    job = Job.parse(
        "name = 'n'\ntask = 'classification'\nparties = ['bank', 'shop']\nepsilon = 4.0\ndelta = 1e-6"
    )
    settled = settle(job, group, schemas, rows=1000)
    assert (settled.method, job.method) == (method, "margin") and settled.because.startswith(found[1])
    assert settled.options == METHODS[method].options()


def test_a_job_that_names_a_method_or_its_options_is_left_as_it_is() -> None:
    text = "name = 'n'\ntask = 'classification'\nparties = ['bank', 'shop']\nepsilon = 1.0\n"
    schemas = {"bank": declared("bank", 10, "abc"), "shop": declared("shop", 10)}
    for more in ("method = 'margin'", "verify = 'rows'", "[options]\nsteps = 3"):
        job = Job.parse(text + more)
        assert settle(job, Group.of(PAIR, active="bank"), schemas, rows=3000) is job


def test_the_default_is_moments_where_margin_would_fill_the_memory_or_cannot_be_planned() -> None:
    schemas = {"bank": declared("bank", 100, "ab"), "shop": declared("shop", 100)}
    found = default_for(
        TrainingSpec("classification", 1.0, delta=1e-12), Group.of(PAIR, active="bank"), schemas, rows=10**10
    )
    assert found[0] == "moments" and "GiB" in found[1]
    names = [f"party{number}" for number in range(15)]
    job = Job.parse(f"name = 'n'\ntask = 'classification'\nparties = {names}\nepsilon = 1.0")
    assert job.method == "moments" and "15 owners" in job.because


def test_notes_say_how_it_was_trained() -> None:
    spec = TrainingSpec("classification", 2.0, delta=1e-5, options=MarginOptions(steps=2))
    learnt = train_with(federation(rows=300), "margin", spec)
    assert "2 steps over all 300 people" in " ".join(untyped(learnt).notes)


def test_a_label_with_one_class_in_it_gives_a_model_all_the_same() -> None:
    """Nobody may look whether a class is there; the model then says the other, which is right."""
    rows, labels = people(federation())
    keep = labels == "no"
    source = Federation(
        [_some(table, keep) for table in tables_of(PAIR, ROWS)], budget=(50.0, 1e-5), noise_seed=1
    )
    model = LogisticRegression(epsilon=4.0, method="margin", options={"steps": 5}).fit(source)
    assert (model.predict({name: values[keep] for name, values in rows.items()}) == "no").mean() > 0.99


class Crash(Exception):
    """A process that ended here."""


class Mortal:
    """A channel whose member ends when it comes to a step."""

    def __init__(self, inner: Any, step: str, seen: Any) -> None:
        self.inner, self.step, self.seen = inner, step, seen

    async def send(self, to: str, step: str, frame: Any) -> None:
        if step == self.step:
            raise Crash
        self.seen.append((to, step, bytes(frame)))
        await self.inner.send(to, step, frame)

    async def receive(self, peer: str, step: str, timeout: float) -> Any:
        return await self.inner.receive(peer, step, timeout)

    def stop(self, reason: Any) -> None:
        self.inner.stop(reason)


GROUP = Group.of(PAIR, active="bank")
ASKED = spec_of(MarginOptions, epsilon=4.0, steps=3, delta=1e-5, alignment="equal")


def attempt(folder: Any, books: Any, *, resumed: Any, falls: Any = None, seen: Any = None) -> Any:
    """All members of one attempt, each with its record; what they came away with, or what stopped them."""
    tables = {table.party: table for table in tables_of(PAIR, 60)}
    heard = [] if seen is None else seen

    async def member(name: str, inner: Any) -> Any:
        journal = (Journal.resume if resumed else Journal.begin)(folder / name)
        wire = Mortal(inner, untyped(falls if name == "shop" else None), heard)
        channel = JournalChannel(name, wire, journal)
        try:
            if resumed:
                await channel.compare(GROUP.others(name), timeout=2)
            book = ResumedLedger(books[name]) if resumed else books[name]
            party = Party(
                name, GROUP, channel, book, ReplayRandomness(journal.key), dataset=name, timeout=5.0
            )
            return await margin_session(party, tables.get(name), ASKED)
        except BaseException:
            inner.stop("it fell")
            raise
        finally:
            journal.close()

    async def main() -> Any:
        network = memory_network(GROUP.members)
        return await asyncio.gather(
            *(member(name, network[name]) for name in GROUP.members), return_exceptions=True
        )

    found = asyncio.run(main())
    for result in found:
        if isinstance(result, BaseException) and not isinstance(result, Crash | ColonnadeError):
            raise result
    return dict(zip(GROUP.members, found, strict=True))


@pytest.mark.parametrize("falls", ["slopes 1.0", "noise 1", "gradient 1", "comparison weights 2"])
def test_a_run_that_fell_in_a_step_goes_on_with_the_same_frames_and_no_new_charge(
    tmp_path: Path, falls: Any
) -> None:
    books = ledgers_for(GROUP)
    seen: list[Any] = []
    first = attempt(tmp_path, books, resumed=False, falls=falls, seen=seen)
    assert isinstance(first["shop"], Crash)
    ended = attempt(tmp_path, books, resumed=True, seen=seen)
    assert ended["bank"].weights.tolist() == ended["shop"].weights.tolist()
    steps = [(to, step) for to, step, _ in seen if not step.startswith("resumed")]
    frames: dict[Any, Any] = {}
    for to, step, frame in seen:
        # What ledgers have is proved anew by whoever goes on.
        if not step.startswith("resumed") and step not in (KNOWN, PROVED):
            frames.setdefault((to, step, decode(frame)[0].sender), set()).add(frame)
    assert steps and all(len(each) == 1 for each in frames.values()), "one step, one message"
    assert [entry.kind for entry in books["bank"].entries()].count("charge") == 1


def test_noise_that_would_be_dealt_again_with_fresh_sharings_stops_the_member(tmp_path: Path) -> None:
    """Fresh coins for a run that has a record: the first frame that differs is not sent."""
    books = ledgers_for(GROUP)
    attempt(tmp_path, books, resumed=False, falls="gradient 1")
    (tmp_path / "bank" / "key").write_bytes(bytes(32))
    ended = attempt(tmp_path, books, resumed=True)
    assert isinstance(ended["bank"], LocalProtocolError)
    assert "something else than the record says" in str(ended["bank"])


def test_more_classes_share_the_moments_and_have_a_head_each() -> None:
    tables = tables_of(PAIR, ROWS)
    blocks = [next(iter(table.blocks(ROWS))) for table in tables]
    score = blocks[0].columns["bank0"] + blocks[1].columns["shop0"]
    names = np.array(["low", "middle", "high"])
    labels = names[np.digitize(score, [-0.4, 0.4])]
    bank = {"bank0": blocks[0].columns["bank0"], "y": labels}
    shop = {"shop0": blocks[1].columns["shop0"]}
    declared = "id='n'\n[columns.{0}]\nkind='numeric'\nlow=-1\nhigh=1\n"
    label = f"[label]\ncolumn='y'\nkind='classes'\nclasses={names.tolist()}\n"
    source = Federation(
        [
            Table.from_arrays("bank", bank, Schema.parse(declared.format("bank0") + label)),
            Table.from_arrays("shop", shop, Schema.parse(declared.format("shop0"))),
        ],
        budget=(50.0, 1e-5),
        noise_seed=4,
    )
    model = LogisticRegression(epsilon=4.0, method="margin", options={"steps": 10}).fit(source)
    plan = source.runs[-1].plan
    assert plan.heads == 3 and model.coef_.shape == (3, 4)
    assert source.runs[-1].outcome.bytes_by_step["matrix"] < 5000, "one matrix for all heads"
    rows = {"bank0": bank["bank0"], "shop0": shop["shop0"]}
    assert model.score(rows, labels) > 0.85
    np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1.0)


# Logistic regression by noisy gradients as users meet it: learners, options, notes, the paper's three releases.


SHORT: dict[str, Any] = {"epochs": 4.0, "rate": 0.25, "weight_cap": 4.0}


@pytest.fixture(scope="module")
def slr_fitted() -> Any:
    source = federation()
    return source, LogisticRegression(epsilon=2.0, method="slr", options=SHORT).fit(source)


def test_it_learns_what_the_moments_learn(slr_fitted: Any) -> None:
    source, model = slr_fitted
    rows, labels = people(source)
    exact = LogisticRegression(method="non-private").fit(federation())
    assert model.score(rows, labels) > exact.score(rows, labels) - 0.03 > 0.7


def test_the_privacy_and_run_of_gradients_are_there_to_read(slr_fitted: Any) -> None:
    source, model = slr_fitted
    by_name = {one.observer.name: one for one in model.privacy_}
    assert by_name["server"].epsilon <= 2.0 < by_name["party:shop"].epsilon
    assert "who is in a batch" in str(by_name["server"])
    run = source.runs[-1]
    assert run.plan.schedule.steps == 16 and run.release is None
    assert {"batch", "weights", "gradient", "noise"} <= set(run.outcome.bytes_by_step)


def test_log_odds_are_those_of_the_weights_on_the_training_rows(slr_fitted: Any) -> None:
    source, model = slr_fitted
    run = source.runs[-1]
    weights, plan = run.result().weights, run.plan
    rows, _ = people(source)
    encoded = {
        party: encoder.encode({c.name: rows[c.name] for c in encoder.columns})
        for party, encoder in plan.encoders.items()
    }
    parts = [
        np.column_stack([encoded[party], np.ones(ROWS)]) if party == plan.label_holder else encoded[party]
        for party in plan.group.owners
    ]
    scores = np.concatenate(parts, axis=1) @ weights / np.sqrt(plan.attributes)
    # The constant on the grid is ⌊γ/√(m + 1)⌋, at most one unit short.
    np.testing.assert_allclose(model.decision_function(rows), scores, atol=4.0 / plan.gamma)
    assert as_log_odds(weights, plan)[0].shape == model.coef_[0].shape


@pytest.mark.parametrize("optimiser", [pytest.param("sgd", marks=pytest.mark.slow), "adam"])
def test_any_optimiser_may_move_the_weights(optimiser: Any) -> None:
    source = federation()
    rate = 0.5 if optimiser == "adam" else 8.0
    options = SHORT | {"optimiser": optimiser, "learning_rate": rate}
    model = LogisticRegression(epsilon=2.0, method="slr", options=options).fit(source)
    rows, labels = people(source)
    assert model.score(rows, labels) > 0.7


def test_notes_say_how_often_a_person_can_be_used() -> None:
    source = federation()
    learnt = train_with(
        source, "slr", TrainingSpec("classification", 2.0, delta=1e-5, options=SlrOptions(**SHORT))
    )
    assert f"more than {untyped(learnt.run).plan.uses} of them" in " ".join(untyped(learnt).notes)


def test_three_releases_learn_too_and_promise_nothing() -> None:
    source = federation(rows=2000)
    options = SlrOptions(calibration="paper", gamma=64, **SHORT)
    learnt = train_with(source, "slr", TrainingSpec("classification", 4.0, delta=1e-5, options=options))
    assert tuple(learnt.privacy) == () and learnt.run is None
    assert all("paper formula, not a guarantee" in str(text) for text in (*learnt.figures, *learnt.notes))
    rows, labels = people(source)
    assert LogisticRegression().fit(learnt).score(rows, labels) > 0.7


def test_three_releases_have_no_plan_and_are_refused_on_private_data_and_fine_grids() -> None:
    options = SHORT | {"calibration": "paper"}
    with pytest.raises(PlanError, match="public"):
        LogisticRegression(method="slr", options=options).fit(federation(rows=100, public=False))
    with pytest.raises(PlanError, match="there is no plan of it"):
        TrainingSpec("classification", 1.0, options=SlrOptions(calibration="paper")).check()
    options = SHORT | {"calibration": "paper", "gamma": 1 << 16, "epochs": 1.0, "rate": 1.0}
    with pytest.raises(PlanError, match="Take a smaller gamma"):
        LogisticRegression(epsilon=1.0, method="slr", options=options).fit(federation(rows=100))
