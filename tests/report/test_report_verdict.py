"""What a run comes to, before any detail: on the page, in a line, and for whoever has to sign it."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import HOSTILE, Facts, hostile_run, made, private_run, run_page, run_text, seeded_run
from test_report_beside import comparison
from test_report_browser import compared, full_facts
from test_report_facts import Tags

from colonnade.report.comparison import comparison_page, recommendation
from colonnade.report.html import page_style
from colonnade.report.plain import Section
from colonnade.report.record import ComparisonRecord, GuaranteeRecord, RunRecord
from colonnade.report.text import COMMONEST, NON_PRIVATE, meaning, verdict


def verdict_of(facts: Facts) -> Section:
    return verdict(RunRecord.model_validate(facts))


def record(facts: object) -> ComparisonRecord:
    return ComparisonRecord.model_validate(facts)


def flat(page: str) -> str:
    return re.sub(r"\s+", " ", Tags(page).text)


def test_the_verdict_comes_first_with_budget_quality_date_and_run() -> None:
    facts = {**private_run()[0], "time": "2026-05-06T07:08:09+00:00"}
    facts["measured"] = {"accuracy on people held out": 0.93, NON_PRIVATE: 0.94, COMMONEST: 0.63}
    page = flat(run_page(facts))
    before = page[: page.index("What each observer can learn at most")]
    for piece in (
        "Within every budget",
        "1.53 of 3",
        "2026-05-06 07:08 UTC",
        facts["run"][:12],
        "bounds every attack",
    ):
        assert piece in before, piece
    assert "0.930 always the commonest class 0.630 · without privacy 0.940" in before
    assert "[Gaussian" not in before and "[Gaussian" in page


def test_a_run_beyond_a_budget_or_without_privacy_does_not_pass() -> None:
    facts, _ = private_run()
    assert not verdict_of(facts).bad
    ledger = facts["ledgers"]["bank"]
    for epsilon in (9.0, None):
        totals = [{**total, "epsilon": epsilon, "left": 0.0} for total in ledger["totals"]]
        over = verdict_of({**facts, "ledgers": {"bank": {**ledger, "totals": totals}}})
        assert over.bad and over.title.startswith("Not within every budget: shop, about what bank's")
    for limit in (math.inf, None):
        accepted = [{**total, "epsilon": None, "budget": limit, "left": limit} for total in ledger["totals"]]
        open_end = {**facts, "ledgers": {"bank": {**ledger, "totals": accepted}}}
        assert (
            not verdict_of(open_end).bad and "∞ of ∞" in run_page(open_end) and "∞ of ∞" in run_text(open_end)
        )
    seeded = verdict_of(seeded_run()[0])
    assert seeded.bad and "seed" in seeded.title
    assert "✓" not in run_page(seeded_run()[0])


@given(st.floats(0.001, 60), st.sampled_from([0.0, 1e-9, 1e-5, 0.01]))
def test_the_attack_that_is_printed_is_never_weaker_than_what_is_proved(epsilon: float, delta: float) -> None:
    promised: Facts = {"observer": "server", "unit": "record", "epsilon": epsilon, "delta": delta}
    said = meaning(GuaranteeRecord.model_construct(**promised))
    share = float(re.findall(r"at most ([\d.]+) % of", said)[0]) / 100
    factor = float(re.findall(r"more than ([\d.,e+]+) times", said)[0].replace(",", ""))
    assert share >= min(1.0, (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))) - 1e-12
    assert factor >= math.exp(epsilon) * (1 - 1e-9) or factor >= 1e4
    assert ("plus δ" in said) is (delta > 0)


def test_a_table_has_a_caption_and_every_head_a_scope_and_every_picture_its_values() -> None:
    pages = [run_page(full_facts()), comparison_page(record(compared()))]
    for page in pages:
        tags = Tags(page).tags
        names = [tag for tag, _ in tags]
        assert names.count("table") == names.count("caption") > 0
        assert all(attributes.get("scope") in ("col", "row") for tag, attributes in tags if tag == "th")
        assert not [tag for tag, attributes in tags if "style" in attributes]
        for drawing in re.findall(r'<svg[^>]*role="img".*?</svg>', page, re.DOTALL):
            assert "<desc>" in drawing or "<text" in drawing or "aria-label" in drawing
    effect = re.search(r'aria-label="effect of age"><desc>([^<]*)</desc>', pages[0])
    assert effect is not None and effect[1].count(" at ") == 5


def test_only_the_pages_own_style_passes_its_policy() -> None:
    page = run_page(hostile_run()[0])
    style = page_style(hostile_run()[0]["run"])
    assert f"default-src 'none'; style-src '{style.hash}'" in page.replace("&#39;", "'")
    assert f"<style>{style.text}</style>" in page
    evil = page_style('8c"; } body { display: none')
    assert '"run 8cbodydisplaynone"' in evil.text


def test_a_recommendation_names_what_can_be_taken_and_what_it_is_beside() -> None:
    said = recommendation(record(compared()))
    # Five people do not tell 0.90 from 0.93, and digits that they do not bear out are not shown.
    assert said.startswith("At ε = 1 take moments: accuracy 0.9 (0.9 without privacy, 0.5 for always")
    many = {**compared(), "held_out": 9000}
    many["rows"] = [{**row, "spread": 0.002} for row in many["rows"]]
    assert "accuracy 0.900 (0.930 without privacy, 0.500 for" in recommendation(record(many))
    assert "functional differs from it by no more than the spread" in said
    assert said in flat(comparison_page(record(compared())))
    assert recommendation(record(comparison(False))) == "", "nothing promises anything here"
    trusted = compared()
    trusted["rows"] = [{**row, "trusted": True} for row in trusted["rows"]]
    assert recommendation(record(trusted)) == ""
    poor = compared()
    poor["rows"] = [{**row, "mean": 0.505} for row in poor["rows"]]
    assert "no better than always the same answer" in recommendation(record(poor))


@pytest.mark.parametrize("name", ["Risk", HOSTILE])
def test_what_was_spent_before_is_told_by_shape_and_by_words(name: str) -> None:
    facts, _ = made(name=name)
    for total in facts["before"]["bank"]:
        total["epsilon_before"] = 0.5
    page = run_page(facts)
    assert (
        'aria-label="ε 1.47 of 3, 0.50 before"' in page
        and 'class="before" y="3" width="16.7" height="4"' in page
    )


def test_a_run_is_told_in_one_line_first_and_exactly_on_demand() -> None:
    facts, _ = private_run()
    short, whole = run_text(facts), run_text(facts, verbose=True)
    first = short.splitlines()[0]
    assert first == whole.splitlines()[0]
    assert first.startswith(
        "Risk: classification on 300 people; ε at most 1.47, for shop; within every budget, 1.53 of 3"
    )
    sentences = [item["sentence"] for item in facts["guarantees"]]
    assert all(sentence in whole and sentence not in short for sentence in sentences)
    assert re.search(
        r"^  1\.\d\d  1e-05  shop +what bank's columns say of one person +\(others-part\)$", short, re.M
    )
    assert short.count("a reader of the model, the server") == 4


@pytest.mark.parametrize("width", [72, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for facts in (private_run()[0], full_facts()):
        for verbose in (False, True):
            lines = run_text(facts, width=width, verbose=verbose).splitlines()
            assert [line for line in lines if len(line) > width] == []
