"""Mapped columns through the real protocol, and what is refused before it runs."""

import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from training_specs import requested
from typed import untyped

from colonnade import Federation, LogisticRegression, MomentRelease, Schema, Table, rank_columns
from colonnade.data.own_maps import OwnMap
from colonnade.errors import FieldTooSmall, PlanError
from colonnade.methods.moments.plan import MomentsOptions, MomentsPlan
from colonnade.planning.recommend import coding_advice, coding_warnings, map_warnings
from colonnade.protocols import plans as limits
from colonnade.runtime.party import Group

ROWS = 2000
RNG = np.random.default_rng(5)
RAW = {
    **{f"x{place}": RNG.uniform(-1, 1, ROWS) for place in range(16)},
    "age": RNG.uniform(0, 90, ROWS),
}
BUYS = np.where(RAW["x0"] * RAW["x5"] + 0.2 * RNG.normal(size=ROWS) > 0, "yes", "no")
PIXELS = 'id = "n"\ncolumns."x{0..15}" = {kind = "numeric", low = -1, high = 1}\n'
LABEL = '\n[label]\ncolumn = "buys"\nkind = "classes"\nclasses = ["no", "yes"]\n'
AGE = 'id = "n"\ncolumns.age = {kind = "numeric", low = 0, high = 90}\n'
MAPS = {
    "relu": 'kind = "random-relu"\nfeatures = 24\nseed = 7',
    "low": 'kind = "random-relu"\nfeatures = 24\nseed = 7\norigin = "low"',
    "fourier": 'kind = "random-fourier"\nfeatures = 24\nseed = 7\nscale = 0.5',
    "gradients": 'kind = "gradient-histogram"\nrows = 4\ncols = 4\ncells = 2',
    "ball": 'kind = "ball"\nbound = 1\ncolumns = ["x{0..15}"]\nweight = 3',
}


def schemas(mapped: str = "") -> tuple[Schema, Schema]:
    return Schema.parse(PIXELS + (f"[map]\n{mapped}\n" if mapped else "")), Schema.parse(AGE + LABEL)


def federation(mapped: str = "") -> Federation:
    eye, shop = schemas(mapped)
    tables = [Table.from_arrays("eye", RAW, eye), Table.from_arrays("shop", {**RAW, "buys": BUYS}, shop)]
    # From a seed, so that the tests end alike each time.
    return Federation(tables, budget=(1e3, 1e-4), noise_seed=1)


@pytest.mark.parametrize("name", MAPS)
def test_the_protocol_releases_the_moments_of_mapped_features(name: str) -> None:
    release = federation(MAPS[name]).moments(task="classification", epsilon=20.0, delta=1e-5)
    x = release.features(RAW)
    # Rounding on the grid moves an entry of a row by at most 1/(2γ); noise by 10 of its standard deviations.
    tolerance = ROWS / release.gamma + 10 * release.noise
    assert tolerance < 0.01 * ROWS
    assert_allclose(release.gram, x.T @ x, atol=tolerance)
    for index, count in enumerate(release.class_moments().counts):
        here = release.label.classes[index] == BUYS
        assert abs(count - untyped(here).sum()) < 10 * release.class_moments().count_noise
    assert np.linalg.norm(x, axis=1).max() <= 1 + 1e-12


def test_a_map_makes_a_linear_rule_find_what_two_columns_say_together() -> None:
    plain, mapped = (
        LogisticRegression(epsilon=10.0).fit(federation(map_)).score(RAW, BUYS)
        for map_ in ("", 'kind = "random-relu"\nfeatures = 40\nseed = 1\ncolumns = ["x0", "x5"]')
    )
    assert plain < 0.6 < 0.75 < mapped


def plan_of(mapped: str, *, rows: int = 5000, **change: object) -> MomentsPlan:
    arguments: dict[str, Any] = {"task": "classification", "epsilon": 1.0, "delta": 1e-5}
    eye, shop = schemas(mapped)
    group = Group.of(("eye", "shop"), active="shop")
    request = requested(MomentsOptions, **arguments | change)
    made: MomentsPlan = request.plan(group, (eye.public("eye"), shop.public("shop")), rows)
    return made


def test_a_map_is_part_of_the_plan_and_plans_warn_where_it_costs_more_than_it_brings() -> None:
    hashes = {plan_of(mapped).hash for mapped in ("", *MAPS.values())}
    hashes |= {plan_of(MAPS["relu"].replace("seed = 7", "seed = 8")).hash}
    assert len(hashes) == 7
    assert plan_of(MAPS["relu"]).hash == plan_of(MAPS["relu"]).hash
    few = plan_of(MAPS["relu"], rows=3000)
    assert any("eye will cost accuracy" in warning for warning in map_warnings(few))
    assert map_warnings(plan_of(MAPS["relu"], rows=50_000)) == ()
    assert map_warnings(plan_of(MAPS["gradients"])) == map_warnings(plan_of("")) == ()


@pytest.mark.parametrize("name", MAPS)
def test_shares_of_the_norm_add_up_to_one_whatever_is_mapped(name: str) -> None:
    plan = plan_of(MAPS[name])
    assert sum((Fraction(cap.cap_squared or 0) for cap in plan.quantizers.values()), Fraction()) == 1
    assert plan.widths["eye"] == {"relu": 24, "low": 24, "fourier": 24, "gradients": 32, "ball": 16}[name]
    assert plan.attributes == {"relu": 17, "low": 17, "fourier": 17, "gradients": 5, "ball": 4}[name]


def test_a_plan_says_when_to_declare_ordered_bins_and_warns_of_matrices_by_class_without_them() -> None:
    few, many = (plan_of("", rows=rows) for rows in (5000, 50_000))
    assert "Numbers carry less noise than bins here" in coding_advice(few)
    assert "Ordered bins are expected to pay here" in coding_advice(many)
    assert coding_warnings(many) == ()
    assert "neither can be had of this release" in coding_warnings(plan_of("", conditional=True))[0]
    group = Group.of(("eye", "shop"), active="shop")
    levelled = tuple(
        Schema.parse(
            f'id = "n"\ncolumns.{party}1 = {{kind = "bins", bins = 4, low = 0, high = 1}}\n{label}'
        ).public(party)
        for party, label in (
            ("eye", ""),
            ("shop", 'label = {column = "y", kind = "classes", classes = ["a", "b"]}'),
        )
    )
    request = requested(MomentsOptions, task="classification", epsilon=1.0, delta=1e-5, conditional=True)
    plan = request.plan(group, levelled, 5000)
    assert coding_warnings(plan) == () and "tables of synthetic people can be made" in coding_advice(plan)


def test_an_own_function_takes_part_like_any_columns(tmp_path: Path) -> None:
    eye, shop = schemas()

    def product(person: dict[str, float]) -> list[float]:
        return [person["x0"] * person["x5"]]

    own = OwnMap("product", untyped(product), features=1, bound=1.0, weight=1)
    tables = [
        own.on(Table.from_arrays("eye", RAW, eye)),
        Table.from_arrays("shop", {**RAW, "buys": BUYS}, shop),
    ]
    model = LogisticRegression(epsilon=20.0, method="moments").fit(
        Federation(tables, budget=(1e3, 1e-4), noise_seed=1)
    )
    release = model.releases_[0]
    release.save(tmp_path / "moments.npz")
    again = MomentRelease.load(tmp_path / "moments.npz")
    assert again.encoders == release.encoders
    assert LogisticRegression().fit(again).score(own.rows(RAW, eye), BUYS) > 0.75
    assert "eye.product" in {one.column for one in rank_columns(again).columns}


def refused(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_grids_rows_and_columns_past_what_fits_are_answered_with_what_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(PlanError, match=r"The largest gamma that fits is (\d+)\.") as caught:
        plan_of("", gamma=1 << 26)
    finest = int(str(caught.value).split("fits is ")[-1].rstrip("."))
    assert plan_of("", gamma=finest).gamma == finest
    refused(lambda: plan_of("", gamma=finest + 1), PlanError, f"fits is {finest}")
    refused(
        lambda: plan_of("", rows=2**50, delta=1e-20),
        FieldTooSmall,
        r"What fits: at most \d+ rows .* No gamma from 4096 up fits",
    )
    wide = 'kind = "random-relu"\nfeatures = 16384\nseed = 7'
    monkeypatch.setattr(limits, "physical_memory", lambda: 2**33)
    refused(
        lambda: plan_of(wide),
        PlanError,
        r"16388 columns, which takes 16 .* a machine that takes part has less",
    )
    monkeypatch.setattr(limits, "physical_memory", lambda: None)
    limits.check_memory(limits.MOST_COLUMNS)
    refused(
        lambda: limits.check_memory(limits.MOST_COLUMNS + 1), PlanError, "64 GiB .* 32768 columns is the most"
    )


def test_a_federation_without_noise_to_speak_of_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # not those of sockets that another test left behind
        LogisticRegression(epsilon=20.0).fit(federation(MAPS["gradients"]))
