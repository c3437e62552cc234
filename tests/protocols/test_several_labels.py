"""Several labels in one release: no longer than one, opened as they should be, and refused where one is learnt."""

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import matrix_brute_force as brute
import numpy as np
import pytest
from ideals import ideal_moments
from numpy.typing import NDArray
from training_specs import requested as spec_of
from typed import there

from colonnade.data.labels import ClassLabel, CountLabel, Label, LabelBlock, LabelBlocks, RealLabel
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import LabelMismatch, PlanError
from colonnade.federation.federation import Federation, released
from colonnade.lab.audited_sums import direction, row_of
from colonnade.lab.people import corner
from colonnade.lab.targets import AuditTarget, target_of
from colonnade.methods.method import Method
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.methods.moments.protocol import moments_session
from colonnade.methods.table import METHODS, checked_options, train_with
from colonnade.noise.discrete_gaussian import MatrixGaussianNoise
from colonnade.planning.forecast import expected_loss
from colonnade.privacy.events import Gaussian
from colonnade.privacy.guarantee import account
from colonnade.privacy.sensitivity.matrix import RowShape, matrix_change_replace, matrix_change_zero_out
from colonnade.protocols.plans import TrainingSpec
from colonnade.runtime.party import Group

RISK, LEAVES = ClassLabel("risk", ("low", "high")), ClassLabel("leaves", ("no", "maybe", "yes"))
LOSS, CALLS = RealLabel("loss", 0, 9), CountLabel("calls", 0, 3)
STACKS = [
    stack for count in (1, 2, 3) for stack in itertools.combinations((RISK, LEAVES, LOSS, CALLS), count)
]
BANK = """id = "n"
columns.age = {kind = "numeric", low = 18, high = 90}
columns.job = {kind = "categorical", categories = ["clerk", "farmer", "nurse"]}
"""
SHOP = """id = "n"
columns.spent = {kind = "numeric", low = 0, high = 1000, transform = "log1p"}
columns.member = {kind = "binary", values = ["no", "yes"]}
"""
LABELS = """
labels.risk = {kind = "classes", classes = ["low", "high"]}
labels.loss = {kind = "real", low = 0, high = 9}
labels.leaves = {kind = "classes", classes = ["no", "maybe", "yes"]}
"""


def every_value(label: Label) -> NDArray[Any]:
    """All classes of a label, or numbers in and beyond its bounds."""
    if isinstance(label, ClassLabel):
        return np.arange(len(label.classes))
    low, high = there(label.bounds)
    return np.linspace(low - 1, high + 1, 9)


def all_blocks(blocks: LabelBlocks, gamma: int) -> NDArray[np.int64]:
    """The label entries of every combination of values."""
    values = [every_value(block.label) for block in blocks.blocks if block.label is not None]
    grid = [column.ravel() for column in np.meshgrid(*values, indexing="ij")]
    return np.unique(blocks.quantize(grid, gamma), axis=0)


@pytest.mark.parametrize("gamma", [6, 7, 31, 4096])
@pytest.mark.parametrize("labels", STACKS, ids=lambda stack: " ".join(one.column for one in stack))
def test_no_values_make_the_stack_longer_than_one_label(labels: tuple[Label, ...], gamma: int) -> None:
    blocks = LabelBlocks.of(labels)
    most = int((all_blocks(blocks, gamma) ** 2).sum(axis=1).max())
    assert most == blocks.norm_squared(gamma)
    assert 2 * most <= gamma**2


@pytest.mark.parametrize("labels", [(RISK, LOSS), (RISK, LEAVES), (LOSS, CALLS), (RISK, LOSS, LEAVES)])
def test_no_row_with_several_labels_moves_the_matrix_further_than_is_paid_for(
    labels: tuple[Label, ...],
) -> None:
    gamma, blocks = 7, LabelBlocks.of(labels)
    shape = RowShape(2, 5, blocks.width, blocks.norm_squared(gamma), blocks.one_hot)
    features, stacks = brute.integer_rows(2, 5), all_blocks(blocks, gamma)
    rows = np.array([np.concatenate([x, y]) for x in features for y in stacks])
    products = brute.outer(rows)
    zeroed = brute.measures(products).max(0)[:4]
    replaced = np.max([brute.measures(products - one).max(0) for one in products[:: len(products) // 60]], 0)
    for change, worst in (
        (matrix_change_zero_out(shape), zeroed),
        (matrix_change_replace(shape), replaced[:4]),
    ):
        claimed = (change.frobenius**2, change.weighted_l1, change.fourth, change.fourth_l1)
        assert all(bound >= int(found) for bound, found in zip(claimed, worst, strict=True))
    # At full weight the two of them are longer than what the noise is for.
    wrong = LabelBlocks(tuple(LabelBlock(label) for label in labels))
    rows = np.array([np.concatenate([x, y]) for x in features for y in all_blocks(wrong, gamma)])
    assert brute.measures(brute.outer(rows)).max(0)[0] > matrix_change_zero_out(shape).frobenius ** 2


def tables_of(rows: int = 60, seed: int = 0) -> list[Table]:
    """Two parties, the first with three labels."""
    rng = np.random.default_rng(seed)
    bank = {
        "age": rng.uniform(10, 95, rows),
        "job": rng.choice(["clerk", "farmer", "nurse"], rows),
        "risk": rng.choice(["low", "high"], rows),
        "loss": rng.uniform(0, 9, rows),
        "leaves": rng.choice(["no", "maybe", "yes"], rows),
    }
    shop = {"spent": rng.uniform(0, 1000, rows), "member": rng.choice(["no", "yes"], rows)}
    return [Table.of("bank", bank, Schema.parse(BANK + LABELS)), Table.of("shop", shop, Schema.parse(SHOP))]


def federation_of(tables: list[Table]) -> Federation:
    return Federation(tables, budget=(50.0, 1e-5), noise_seed=1, public=True)


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise, so that what is opened can be compared as integers."""

    def nothing(_noise: object, size: int, _randomness: object) -> NDArray[np.int64]:
        return np.zeros((size, size), dtype=np.int64)

    monkeypatch.setattr(MatrixGaussianNoise, "draw_symmetric", nothing)


def opened(tables: list[Table], task: Any = "classification") -> Any:
    return federation_of(tables).run(moments_session, spec_of(MomentsOptions, task, 1.0, delta=1e-5))


def test_without_noise_each_label_has_what_a_release_of_it_alone_has(monkeypatch: pytest.MonkeyPatch) -> None:
    silent(monkeypatch)
    tables = tables_of()
    run = opened(tables)
    assert run.plan.verify == "rows"
    whole = released(run.result())
    assert np.array_equal(whole.matrix, ideal_moments(run.aligned, run.plan).astype(np.int64))
    assert whole.label_names == ("risk", "loss", "leaves")
    for name in ("risk", "leaves"):
        alone = released(opened([tables[0].for_label(name), tables[1]]).result())
        mine, other = whole.for_label(name).class_moments(), alone.class_moments()
        for field in ("gram", "sums", "counts"):
            assert np.allclose(getattr(mine, field), getattr(other, field), rtol=1e-12), field
        assert mine.noise / alone.noise == pytest.approx(whole.noise / alone.noise)
        assert mine.sum_noise / whole.noise == pytest.approx(3**0.5 * other.sum_noise / alone.noise, rel=1e-3)
    loss = whole.for_label("loss").value_moments()
    alone = released(opened([tables[0].for_label("loss"), tables[1]], "regression").result())
    # Numbers lie on a circle here and on a line there; what is said of the label is the same, up to its rounding.
    assert loss.value_mean == pytest.approx(alone.value_moments().value_mean, abs=1e-3)
    assert loss.value_scatter == pytest.approx(alone.value_moments().value_scatter, rel=1e-2)


def test_products_of_two_classes_of_one_label_stay_closed_and_coarse_grids_are_refused() -> None:
    release = released(opened(tables_of()).result())
    labels = release.matrix[release.columns :, release.columns :]
    assert np.array_equal(labels != 0, release.labels.opened)
    assert labels[0, 1] == 0 and labels[4, 5] == 0 and labels[0, 4] != 0
    many = LabelBlocks.of([RealLabel(f"y{number}", low=0, high=1) for number in range(30)])
    with pytest.raises(PlanError, match="gamma = 8 leaves no room for a label among 30"):
        many.norm_squared(8)
    assert many.norm_squared(4096) <= 4096**2 // 2


def test_a_party_that_deals_its_labels_at_full_weight_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong version: every block as long as that of a label alone. Two owners check each other's rows."""
    right = LabelBlocks.quantize

    def full(self: LabelBlocks, *given: Any, **more: Any) -> NDArray[np.int64]:
        return right(LabelBlocks(tuple(LabelBlock(block.label) for block in self.blocks)), *given, **more)

    monkeypatch.setattr(LabelBlocks, "quantize", full)
    with pytest.raises(ValueError, match="60 of 60 rows are longer than the bound"):
        opened(tables_of())


def wanted(method: str = "moments", **options: Any) -> AuditTarget:
    schemas = (Schema.parse(BANK + LABELS).public("bank"), Schema.parse(SHOP).public("shop"))
    requested = TrainingSpec(
        METHODS[method].tasks[0], 1.0, delta=1e-5, options=checked_options(METHODS[method], options)
    )
    return AuditTarget(method, requested, Group.of(("bank", "shop"), active="bank"), schemas)


def plan_of(epsilon: float) -> MomentsPlan:
    requested = wanted()
    made: MomentsPlan = spec_of(MomentsOptions, "classification", epsilon, delta=1e-5).plan(
        requested.group, requested.schemas, 60
    )
    return made


def told_apart(plan: MomentsPlan) -> float:
    """What the farthest record costs an observer who knows all else: its change along the noise, as one Gaussian."""
    change = row_of(plan, corner(plan.schemas, 1.0))
    way = direction(plan, change)
    first, second = np.triu_indices(plan.size)
    variances = float(plan.mu) * np.where(first == second, 2.0, 1.0)
    moved = float(change @ way) / float(np.sqrt(way**2 @ variances))
    return account(Gaussian(sensitivity=Fraction(moved), sigma=1), plan.delta).epsilon


def with_claims_of(plan: MomentsPlan, wrong: MomentsPlan, **fields: Any) -> MomentsPlan:
    wrong.__dict__.update(guarantees=plan.guarantees, views=plan.views, **fields)
    return wrong


def wrong_plans(plan: MomentsPlan) -> list[MomentsPlan]:
    """With half of the noise, and with every label at the weight of a label alone, both with the claims of a plan."""
    full = LabelBlocks(tuple(LabelBlock(block.label) for block in plan.labels.blocks))
    return [
        with_claims_of(plan, replace(plan, mu=plan.mu / 4)),
        with_claims_of(plan, replace(plan), labels=full),
    ]


def test_the_farthest_record_is_worth_what_is_claimed_and_more_in_a_wrong_version() -> None:
    plan = plan_of(1.0)
    claimed = plan.guarantees[0].epsilon
    assert 0.6 * claimed < told_apart(plan) <= claimed
    assert all(told_apart(wrong) > 1.1 * claimed for wrong in wrong_plans(plan))


ONE = [name for name, method in METHODS.items() if name not in ("moments", "spca")]


@pytest.mark.parametrize("name", ONE)
def test_methods_that_learn_one_label_refuse_several_before_anything_is_charged(name: str) -> None:
    federation = federation_of(tables_of())
    task = METHODS[name].tasks[0]
    requested = TrainingSpec(task, 1.0, delta=1e-5, options=checked_options(METHODS[name], {}))
    with pytest.raises(LabelMismatch, match=r"learns one label, and bank declares 3 \(risk, loss, leaves\)"):
        train_with(federation, name, requested)
    assert not federation.runs
    assert not any(ledger.totals() for ledger in federation.ledgers.values())


def test_several_labels_are_refused_by_class_and_the_first_says_the_task() -> None:
    with pytest.raises(LabelMismatch, match=r"a release by class learns one label.*Leave out conditional"):
        federation_of(tables_of()).moments(task="classification", epsilon=1.0, conditional=True)
    with pytest.raises(LabelMismatch, match="the first says how columns are coded"):
        federation_of(tables_of()).moments(task="regression", epsilon=1.0)
    release = federation_of(tables_of()).moments(task="pca", epsilon=1.0)
    assert release.label_names == () and release.label == LabelBlock(None)


def test_a_plan_with_several_labels_names_them_and_one_with_one_is_as_before() -> None:
    target = target_of(wanted())
    plan = target.experiments[0].spec(np.array([True])).plan(target.group, target.schemas, 60)
    assert isinstance(plan, MomentsPlan)
    assert [one["column"] for one in plan.to_data()["labels"]] == ["risk", "loss", "leaves"]
    assert "3 labels" in plan.what
    alone = tables_of()[0].for_label("risk").public()
    single = spec_of(MomentsOptions, "classification", 1.0).plan(target.group, (alone, target.schemas[1]), 60)
    assert "labels" not in single.to_data() and single.what == f"second moments of {single.size} columns"
    # What was studied is one label: with more there is more noise of each, and nothing is foretold.
    assert expected_loss(single) is not None and expected_loss(plan) is None
    assert isinstance(METHODS["moments"], Method)
