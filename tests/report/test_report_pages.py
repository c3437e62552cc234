"""What a page must hold and what it must not: effects, intervals, pictures, budgets before, one party's own page."""

import json
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import HOSTILE, Facts, hostile_run, made, private_run, run_page, run_text
from test_report_facts import Tags
from typed import there, untyped

from colonnade import Federation, LinearRegression, LogisticRegression, Schema, Table
from colonnade.federation.files import plain
from colonnade.federation.train import model_facts
from colonnade.models.uncertainty import noise_uncertainty
from colonnade.report.facts import collusion_text, ledger_facts, run_facts
from colonnade.report.html import effect_picture, effect_scale, eigenvalue_picture, flows
from colonnade.report.plain import signed_text
from colonnade.report.record import PointRecord, RunRecord, SpectrumRecord
from colonnade.runs.writing import party_pages
from colonnade.runtime.party import Group


def reread(facts: Facts) -> Facts:
    """Facts as a reader of facts.json has them."""
    read: Facts = json.loads(json.dumps(plain(facts), allow_nan=False))
    return read


def facts_with(model: object, federation: Federation, name: str = "Again") -> Facts:
    """The facts of the last run with this model of it."""
    run = federation.runs[-1]
    found = model_facts(untyped(model), untyped(run.release))
    return run_facts(run, federation, name=name, model_facts=found).to_data()


@cache
def regression_run() -> tuple[Facts, Federation]:
    """Enough people that a real effect stands out of the noise at ε = 1, and a column without any."""
    rng = np.random.default_rng(4)
    rows = 20_000
    age, idle = rng.uniform(0, 90, rows), rng.uniform(0, 1, rows)
    town = rng.choice(["north", "south", "west"], rows)
    pay = np.clip(age / 90 * 60 + 20 * (town == "south") + rng.normal(0, 3, rows), 0, 100)
    bank = Schema.parse(
        'id = "n"\ncolumns.age = {kind = "numeric", low = 0, high = 90}\n'
        'label = {column = "pay", kind = "real", low = 0, high = 100}'
    )
    shop = Schema.parse(
        'id = "n"\ncolumns.town = {kind = "categorical", categories = ["north", "south", "west"]}\n'
        'columns.idle = {kind = "numeric", low = 0, high = 1}'
    )
    federation = Federation(
        [
            Table.from_arrays("bank", {"age": age, "pay": pay}, bank),
            Table.from_arrays("shop", {"town": town, "idle": idle}, shop),
        ],
        budget=(3.0, 1e-5),
        # An interval of 95 % misses one time in twenty; the same draw every time does not.
        noise_seed=1,
    )
    return facts_with(LinearRegression(epsilon=1.0).fit(federation), federation, "Pay"), federation


def effects_of(facts: Facts, column: str) -> dict[str, tuple[float, float]]:
    (row,) = facts["model_facts"]["by_column"]
    (found,) = [item for item in row["columns"] if item["column"] == column]
    return {point["at"]: (point["effect"], point["half_width"]) for point in found["points"]}


def test_effects_are_in_the_units_and_at_the_values_that_people_know() -> None:
    facts, _ = regression_run()
    age = effects_of(facts, "age")
    assert list(age) == ["0", "22.5", "45", "67.5", "90"]
    assert age["90"][0] - age["0"][0] == pytest.approx(60, abs=6), "sixty units of pay over the range of age"
    town = effects_of(facts, "town")
    assert town["south"][0] - town["north"][0] == pytest.approx(20, abs=4)
    assert abs(effects_of(facts, "idle")["1"][0]) <= effects_of(facts, "idle")["1"][1]
    (row,) = facts["model_facts"]["by_column"]
    assert [item["column"] for item in row["columns"]] == ["age", "town", "idle"]


def test_intervals_in_the_facts_are_those_of_the_release() -> None:
    facts, federation = regression_run()
    found = noise_uncertainty(there(federation.runs[-1].release))
    assert found is not None
    intervals = facts["model_facts"]["intervals"]
    assert np.allclose(intervals["half_widths"], found.half_widths)
    assert np.allclose(intervals["coefficients"], facts["model_facts"]["coefficients"])
    assert intervals["rate"] == 0.95 and "sampling error" in intervals["covers"]
    for text in (run_text(facts, verbose=True), Tags(run_page(facts)).text):
        assert intervals["covers"] in text


def test_a_column_without_effect_is_shown_as_within_noise_and_a_real_one_is_not() -> None:
    facts, _ = regression_run()
    lines = {line.split()[0]: line for line in run_text(facts).splitlines() if " at " in line and "±" in line}
    assert "within noise" in lines["idle"] and "within noise" not in lines["age"]
    page = run_page(facts)
    assert page.count('class="effect faint"') == 1 and page.count('class="effect"') == 2


def test_no_intervals_are_claimed_for_coefficients_of_another_rule() -> None:
    _, federation = private_run()
    model = LogisticRegression(ridge=50.0).fit(untyped(federation.runs[-1].release))
    facts = facts_with(model, federation, "Ridge")
    assert "intervals" not in facts["model_facts"]
    assert "within noise" not in run_text(facts) and 'class="effect faint"' not in run_page(facts)
    assert all(
        point["half_width"] is None
        for row in facts["model_facts"]["by_column"]
        for column in row["columns"]
        for point in column["points"]
    )
    assert "±" not in Tags(run_page(facts)).text.split("What was learnt")[1].split("Noisy class counts")[0]


@pytest.mark.parametrize("run", [private_run, hostile_run, regression_run])
def test_a_page_can_be_made_again_from_the_facts_on_disk(run: object) -> None:
    facts, _ = run()  # type: ignore[operator]
    assert run_page(reread(facts)) == run_page(facts)
    assert run_text(reread(facts)) == run_text(facts)


def test_budgets_before_a_second_run_are_those_after_the_first() -> None:
    first, federation = made()
    second = facts_with(LogisticRegression(epsilon=0.5, method="moments").fit(federation), federation)
    for party in ("bank", "shop"):
        totals, before = second["ledgers"][party]["totals"], second["before"][party]
        assert [item["epsilon_before"] for item in first["before"][party]] == [0.0] * len(totals)
        assert [item["epsilon_before"] for item in before] == [
            total["epsilon"] for total in first["ledgers"][party]["totals"]
        ]
        for total, earlier in zip(totals, before, strict=True):
            assert total["epsilon"] > earlier["epsilon_before"] and total["left"] < earlier["left_before"]
    assert "before: 1.00" in Tags(run_page(second)).text


def test_what_stays_at_home_is_on_the_partys_own_page_and_nowhere_else() -> None:
    facts, federation = made()
    run = federation.runs[-1]
    run.aligned["bank"].table.clipping.finish({"age": 137}, rows=300)
    seconds = sum(run.outcome.traffic["bank"].seconds.values())
    pages = party_pages(run, federation, name="Risk")
    page, other = Tags(pages["bank"]).text, pages["shop"]
    assert "137 of 300" in page and "For bank only" in page and f"{seconds:.2f} s" in page and seconds > 0
    for entry in ledger_facts(federation.ledgers["bank"]).entries:
        assert entry.hash in page and entry.what in page
    whole = run_facts(run, federation, name="Risk", model_facts=facts["model_facts"])
    shared = json.dumps(plain(whole.to_data()))
    assert "137 of 300" not in other and '"clipped' not in shared and '"seconds"' not in shared
    assert ledger_facts(federation.ledgers["bank"]).head not in other


def test_a_partys_page_needs_nothing_else_and_trusts_no_name() -> None:
    _, federation = hostile_run()
    run = federation.runs[-1]
    run.aligned["bank"].table.clipping.finish({HOSTILE: 3}, rows=300)
    for page in party_pages(run, federation, name=HOSTILE).values():
        tags = Tags(page)
        assert tags.open == [] and HOSTILE in tags.text and "http:" not in page and "https:" not in page
        assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags.tags}


def test_pictures_escape_names() -> None:
    point = PointRecord(at="a", effect=1.0, half_width=None)
    assert HOSTILE not in effect_picture([point], HOSTILE, 1.0, ordered=False)


def test_every_pair_that_talked_has_a_row_and_every_direction_that_can_be_learnt_a_bar() -> None:
    assert len(flows(RunRecord.model_validate(private_run()[0]))) == 6
    for facts, _ in (private_run(), regression_run()):
        spectrum = facts["spectrum"]
        picture = eigenvalue_picture(SpectrumRecord.model_validate(spectrum))
        assert picture.count('class="above"') == spectrum["learnable_rank"]
        assert picture.count("<rect") == len(spectrum["eigenvalues"]) + 1


def test_what_sharing_takes_for_granted_is_what_the_statements_do() -> None:
    facts, _ = private_run()
    checked = facts["plan"]["verify"] != "none"
    assert checked == any("may deviate" in item["sentence"] for item in facts["guarantees"])
    assert checked == ("deviate" in facts["collusion"]) != ("Everybody is taken" in facts["collusion"])
    group = Group.of(("bank", "shop"), active="bank")
    assert "Everybody is taken to follow the protocol." in collusion_text(group, checked=False)


def within(picture: str, least: float, most: float) -> None:
    drawn = re.findall(r' (?:x|y|x1|x2|y1|y2|cx|cy|height)="([-\d.e]+)"', picture)
    drawn += [
        number for group in re.findall(r'points="([^"]+)"', picture) for number in re.split("[ ,]", group)
    ]
    assert all(least <= float(number) <= most for number in drawn)


@given(
    st.lists(
        st.tuples(st.floats(-1e9, 1e9), st.one_of(st.none(), st.floats(0, 1e12))), min_size=1, max_size=7
    ),
    st.booleans(),
)
def test_no_effect_leaves_its_picture(points: list[tuple[float, float | None]], ordered: bool) -> None:
    drawn_at = [PointRecord(at=str(i), effect=e, half_width=h) for i, (e, h) in enumerate(points)]
    within(effect_picture(drawn_at, "c", effect_scale([drawn_at]), ordered=ordered), 0, 220)


@given(st.lists(st.floats(-1e12, 1e12), max_size=300), st.floats(0, 1e6))
def test_no_eigenvalue_leaves_its_picture(values: list[float], edge: float) -> None:
    ordered = sorted(values, reverse=True)
    spectrum = SpectrumRecord(eigenvalues=ordered, edge=edge, floor=edge / 2, learnable_rank=0)
    within(eigenvalue_picture(spectrum), -10, 400)


@given(st.floats(-1e8, 1e8), st.floats(1e-9, 1e8))
def test_a_printed_half_width_is_rounded_up(value: float, half_width: float) -> None:
    printed = signed_text(value, half_width)
    assert printed.startswith(("+", "-"))
    assert float(printed.split("± ")[1]) >= half_width * (1 - 1e-12)
