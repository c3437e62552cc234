"""Margins and tables of a release: exact without noise, honest with it, in the parties' own values, and free."""

import itertools
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy import stats
from tables_people import AGE, BANK, LABEL, OWNER, SHOP, coded, people, release_with
from typed import untyped

from colonnade.data.encoder import Encoder
from colonnade.data.files import open_file
from colonnade.data.kinds import NumericColumn
from colonnade.data.levels import BinnedColumn
from colonnade.errors import (
    CannotWrite,
    DataError,
    DrownedByNoise,
    InputError,
    NameInUse,
    NotConverged,
)
from colonnade.models.release import MomentRelease
from colonnade.models.tables import mixture
from colonnade.models.tables.mixture import values_of_levels
from colonnade.randomness import SeededRandomness

FALSE_ALARM = 1e-9
RAW, RISK = people()
NAMES = ("age", "job", "pay", "owner")


@pytest.fixture(scope="module")
def release() -> MomentRelease:
    return release_with(RAW, RISK, noise=2.0)


def counted(raw: Any, first: str, second: str) -> np.ndarray[Any, Any]:
    codes = coded(raw)
    sizes = {column.name: len(untyped(column).levels) for column in (*BANK, *SHOP)}
    table = np.zeros((sizes[first], sizes[second]))
    np.add.at(table, (codes[first], codes[second]), 1)
    return table


@pytest.mark.parametrize("pair", list(itertools.combinations(range(4), 2)))
def test_without_noise_two_way_counts_are_those_of_the_people(pair: tuple[int, int]) -> None:
    found, spread = release_with(RAW, RISK).margins().pair_counts(*pair)
    np.testing.assert_allclose(found, counted(RAW, NAMES[pair[0]], NAMES[pair[1]]), atol=0.5)
    assert spread.max() == 0


def test_without_noise_counts_by_class_are_those_of_the_people() -> None:
    margins = release_with(RAW, RISK).margins()
    for place, name in enumerate(NAMES):
        found, _ = margins.level_counts(place)
        codes = coded(RAW)[name]
        exact = [np.bincount(codes[kind == RISK], minlength=found.shape[1]) for kind in (0, 1)]
        np.testing.assert_allclose(found, exact, atol=0.5)


def z_scores(stated: float) -> np.ndarray[Any, Any]:
    """Errors of two-way counts over releases, in units of the deviations that are stated for noise of this size."""
    exact = counted(RAW, "age", "pay")
    found = []
    for seed in range(60):
        margins = release_with(RAW, RISK, noise=2.0, seed=seed).margins()
        cells, spread = margins.pair_counts(0, 2)
        found.append(((cells - exact) / (spread * stated)).ravel())
    return np.array(found)


def test_the_noise_of_two_way_counts_is_as_stated() -> None:
    scores = z_scores(1.0)
    # Cells of one table share noise, so each cell is judged over the releases alone.
    worst = min(
        2 * min(stats.chi2.cdf((cell**2).sum(), len(cell)), stats.chi2.sf((cell**2).sum(), len(cell)))
        for cell in scores.T
    )
    assert worst * scores.shape[1] > FALSE_ALARM


def test_this_test_would_notice_noise_that_is_stated_a_third_too_small() -> None:
    scores = z_scores(1 / 3)
    assert min(stats.chi2.sf((cell**2).sum(), len(cell)) for cell in scores.T) < FALSE_ALARM


def distance(table: Any, raw: Any) -> float:
    found = []
    for first, second in itertools.combinations(NAMES, 2):
        one, two = counted(table, first, second), counted(raw, first, second)
        found.append(0.5 * np.abs(one / one.sum() - two / two.sum()).sum())
    return float(np.mean(found))


def test_a_table_agrees_with_the_people_in_pairs_of_columns_and_with_the_class(
    release: MomentRelease,
) -> None:
    table = release.synthesize(20_000, seed=1)
    shuffled = {name: np.roll(values, 7 * place) for place, (name, values) in enumerate(RAW.items())}
    assert distance(table, RAW) < 0.05
    assert distance(shuffled, RAW) > 0.15
    for kind, name in enumerate(("low", "high")):
        own = table["risk"] == name
        assert abs(own.mean() - (untyped(kind == RISK)).mean()) < 0.02
        assert (
            abs((table["owner"][own] == "yes").mean() - (RAW["owner"][kind == RISK] == "yes").mean()) < 0.05
        )


def test_a_table_without_a_label_has_the_columns_alone() -> None:
    table = release_with(RAW, None, noise=2.0).synthesize(5000, seed=1)
    assert table.column_names == NAMES and distance(table, RAW) < 0.07


def test_a_table_is_in_the_parties_own_values(release: MomentRelease) -> None:
    table = release.synthesize(3000, seed=3)
    assert table.column_names == (*NAMES, "risk") and len(table) == 3000
    assert table["age"].dtype == np.int64 and table["age"].min() >= 18 and table["age"].max() <= 90
    assert set(table["job"]) == {"clerk", "farmer", None}
    assert 0.05 < np.isnan(table["pay"]).mean() < 0.15 and np.nanmax(table["pay"]) <= 9
    assert release.features(table).shape == (3000, release.columns)


def test_drawn_numbers_lie_in_the_bin_they_were_drawn_for() -> None:
    for column in (
        AGE,
        SHOP[0],
        BinnedColumn("x", (0.1, 0.2, 0.3)),
        BinnedColumn("x", (0, 10), transform="log1p"),
    ):
        assert isinstance(column, BinnedColumn)
        codes = np.repeat(np.arange(len(column.levels), dtype=np.int32), 500)
        values = values_of_levels(column, codes, SeededRandomness(1))
        again = np.searchsorted(column.edges, values, side="right")
        again[np.isnan(values)] = len(column.edges) + 1
        assert np.array_equal(again, codes)
        assert np.nanmin(values) >= column.ends[0] and np.nanmax(values) <= column.ends[-1]


def test_a_seed_draws_the_same_people_and_none_draws_others(release: MomentRelease) -> None:
    one, two, other = (release.synthesize(200, seed=seed) for seed in (5, 5, None))
    assert one.manifest == two.manifest and one["age"].tolist() == two["age"].tolist()
    assert other["age"].tolist() != one["age"].tolist()
    again = release.synthesize(200, seed=other.manifest["seed"])
    assert again["pay"].tolist() == pytest.approx(other["pay"].tolist(), nan_ok=True)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_saved_table_is_read_back_as_it_was(release: MomentRelease, tmp_path: Path, suffix: str) -> None:
    table = release.synthesize(500, seed=2)
    target = tmp_path / f"people.{suffix}"
    alongside = table.save(target)
    assert json.loads(alongside.read_text()) == json.loads(json.dumps(dict(table.manifest)))
    rows = open_file(target, party="reader")
    assert list(rows.fields) == list(table.column_names)
    batch = next(rows.batches(list(table.column_names), size=500, floats={"age", "pay"}))
    read = dict(zip(table.column_names, batch.columns, strict=True))
    for name, codes in coded(table).items():
        assert np.array_equal(coded({**{key: table[key] for key in NAMES}, name: read[name]})[name], codes)
    with pytest.raises(NameInUse):
        table.save(target)


def test_parquet_has_numbers_text_and_null(release: MomentRelease, tmp_path: Path) -> None:
    release.synthesize(500, seed=2).save(tmp_path / "t.parquet")
    session = duckdb.connect()
    kinds = session.sql(f"describe select * from '{tmp_path / 't.parquet'}'").fetchall()
    assert [kind[1] for kind in kinds] == ["BIGINT", "VARCHAR", "DOUBLE", "VARCHAR", "VARCHAR"]
    missing = session.execute(f"select count(*) from '{tmp_path / 't.parquet'}' where pay is null").fetchone()
    assert missing is not None and missing[0] > 10


def test_the_manifest_says_where_a_table_comes_from_and_what_not_to_do(release: MomentRelease) -> None:
    manifest = release.synthesize(100).manifest
    assert manifest["extra_epsilon"] == 0 and manifest["release"]["people"] == release.rows
    assert manifest["guarantees"] == [] and manifest["fit"]["reached_the_noise"]
    assert any("intervals" in line for line in manifest["not_to_do"])
    assert any("three columns" in line for line in manifest["not_to_do"])


def test_a_fit_stops_at_the_noise_and_goes_on_without_it(release: MomentRelease) -> None:
    stopped = release.table_model().fit
    assert stopped.reached and 0.3 < stopped.residual <= 1.0
    assert stopped.start > 20 * stopped.residual


@pytest.mark.parametrize("rows", [0, -1, 10**9, 2.5, True])
def test_numbers_of_rows_that_no_table_has_are_refused(release: MomentRelease, rows: Any) -> None:
    with pytest.raises(InputError, match="from 1 to 10,000,000 rows"):
        release.synthesize(rows)


def test_numbers_that_are_not_in_bins_are_refused_by_name() -> None:
    from learn_releases import release_of

    plain = NumericColumn("age", low=18, high=90)
    parties = [("bank", Encoder((plain, OWNER), "circle"), {"age": RAW["age"], "owner": RAW["owner"]})]
    made = release_of(parties, LABEL, RISK)
    with pytest.raises(
        DataError, match=r"no table can be made of age: .*ordered = true.*leave them out: owner"
    ):
        made.synthesize(10)
    assert made.select(["owner"]).synthesize(10).column_names == ("owner", "risk")


def test_a_release_that_is_all_noise_is_refused() -> None:
    raw, risk = people(60)
    with pytest.raises(DrownedByNoise, match="all that is said of the columns is noise"):
        release_with(raw, risk, noise=40.0).synthesize(10)
    with pytest.raises(DrownedByNoise, match="every column"):
        release_with(*people(6000), noise=600.0).select(["job", "age"]).synthesize(10)


def test_a_fit_that_comes_to_nothing_is_refused(release: MomentRelease, monkeypatch: Any) -> None:
    monkeypatch.setattr(mixture, "RATE", 0.0)
    with pytest.raises(NotConverged, match="no table fits this release"):
        release.synthesize(10)


def test_a_fit_that_is_cut_short_says_so(release: MomentRelease) -> None:
    from colonnade.models.tables.synthetic import TableModel

    margins = release.margins()
    short = TableModel(margins, mixture.fit_mixture(margins, steps=30), {})
    assert not short.fit.reached and "stopped after 30 steps" in short.notes[0]


def test_where_a_table_cannot_be_written_nothing_is(release: MomentRelease, tmp_path: Path) -> None:
    table = release.synthesize(10)
    with pytest.raises(InputError, match=r"\.parquet or \.csv"):
        table.save(tmp_path / "table.xlsx")
    with pytest.raises(CannotWrite, match="there is no folder"):
        table.save(tmp_path / "none" / "table.csv")
    assert list(tmp_path.iterdir()) == []
