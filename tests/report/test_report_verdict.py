"""What a run comes to, before any detail, what was found beside it, and lines no wider than the screen."""

import math
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import Facts, hostile_run, private_run, run_page, run_text, seeded_run
from tables_people import people, release_with
from test_report_facts import Tags, flat
from typed import there

from colonnade.evaluation.estimates import estimate_two_classes
from colonnade.report.comparison import PRIVATE, comparison_page, recommendation, section_of
from colonnade.report.describing import description_facts, description_text
from colonnade.report.evaluation import estimate_facts, evaluation_lines
from colonnade.report.html import page_style
from colonnade.report.plain import Section, table_lines
from colonnade.report.record import ComparisonRecord, EvaluationRecord, GuaranteeRecord, RunRecord
from colonnade.report.text import COMMONEST, NON_PRIVATE, meaning, verdict

ATTEMPT = {
    "attack": "labels from gradients",
    "attacker": "shop",
    "target": "bank",
    "note": "",
    "run": "recorded <b>",
}
SUCCESS = {"low": 0.9, "high": 1.0, "chance": 0.5, "hits": 60, "trials": 60}
ATTACK: Facts = {
    "name": "risk", "people": 60, "epsilon": 0.5, "delta": 1e-5, "findings": [
        {**ATTEMPT, "defence": defence, "success": {**SUCCESS, "rate": rate}, "by_epoch": [], "refused": None}
        for defence, rate in (("sound", 0.5), ("none", 0.99))
    ],
}  # fmt: skip


def comparison(public: bool) -> Facts:
    row: Facts = {
        "method": "moments", "paper": False, "trusted": False, "split": False, "mean": 0.9, "spread": 0.01,
        "scores": [0.9], "failures": [], "guarantees": [], "seconds": 1.0, "bytes": 10, "notes": [],
    }  # fmt: skip
    return {
        "name": "risk", "task": "classification", "metric": "accuracy", "larger_is_better": True,
        "metric_note": "the share of people told right", "public": public, "epsilons": [0.5, 1.0],
        "delta": 1e-5, "seeds": 1, "trained_on": 10, "held_out": 5, "constant": 0.5, "left_out": [],
        "rows": [{**row, "epsilon": epsilon} for epsilon in (0.5, 1.0)],
    }  # fmt: skip


def compared() -> Facts:
    facts = comparison(True)
    guarantee = {"observer": "server", "unit": "record", "epsilon": 1.0, "delta": 1e-5}
    guarantee |= {"assumption": "", "method": "", "sentence": ""}
    rows = [
        {**row, "method": method, "mean": row["mean"] - fall, "guarantees": [guarantee]}
        for fall, method in ((0.0, "moments"), (0.004, "functional"), (0.2, "a-method-with-a-long-name"))
        for row in facts["rows"]
    ]
    without = {**rows[0], "method": "non-private", "epsilon": None, "guarantees": [], "mean": 0.93}
    return {**facts, "rows": [*rows, without]}


def evaluated(names: tuple[str, str]) -> EvaluationRecord:
    rng = np.random.default_rng(3)
    classes = (rng.uniform(size=400) < 0.3).astype(np.int64)
    scores = rng.normal(size=400) + classes
    return estimate_facts(estimate_two_classes(scores, classes, names=names, threshold=0.0, chances=True))


LONG = "a-name-of-a-column-that-somebody-generated-and-nobody-ever-typed-in-full"


@cache
def full_facts() -> Facts:
    """A run with everything that a page can have: a judgement, an audit, a forecast, notes."""
    facts, _ = private_run()
    finding = {
        "about": "the server, about one record", "observer": "server", "unit": "record", "lower": 0.31,
        "upper": 1.0, "delta": 1e-5, "proved": True, "exceeded": False, "most": 4.2, "experiments": [],
    }  # fmt: skip
    return {
        **facts,
        "time": "2026-05-06T07:08:09+00:00",
        "measured": {"accuracy on the training rows": 0.8},
        "evaluated": {**evaluated(("low", "high")).to_data(), "guarantees": [], "run": "8c", "private": True},
        "audit": {
            "name": "Risk", "method": "moments", "people": "300 synthetic people", "sessions": 200,
            "seconds": 9.0, "findings": [finding, {**finding, "observer": "party:shop"}], "notes": [],
        },
        "notes": [f"A note about {LONG}."],
        "forecast": {
            "predicted": {"bytes": 1500, "rounds": 9, "seconds": 0.5, "error": 0.2},
            "measured": {"bytes": 1512, "rounds": 9, "seconds": 0.4, "error": 0.1},
            "note": "Foretold before the run.",
        },
    }  # fmt: skip


def verdict_of(facts: Facts) -> Section:
    return verdict(RunRecord.model_validate(facts))


def record(facts: object) -> ComparisonRecord:
    return ComparisonRecord.model_validate(facts)


def test_the_verdict_comes_first_with_budget_quality_date_and_run() -> None:
    facts = {**private_run()[0], "time": "2026-05-06T07:08:09+00:00"}
    facts["measured"] = {"accuracy on people held out": 0.93, NON_PRIVATE: 0.94, COMMONEST: 0.63}
    page = flat(Tags(run_page(facts)).text)
    before = page[: page.index("What each observer can learn at most")]
    told = (
        "Within every budget",
        "1.53 of 3",
        "2026-05-06 07:08 UTC",
        facts["run"][:12],
        "bounds every attack",
    )
    assert [piece for piece in told if piece not in before] == []
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
        assert not verdict_of(open_end).bad
        assert "∞ of ∞" in run_page(open_end) and "∞ of ∞" in run_text(open_end)
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
    assert said in flat(Tags(comparison_page(record(compared()))).text)
    assert recommendation(record(comparison(False))) == "", "nothing promises anything here"
    trusted = compared()
    trusted["rows"] = [{**row, "trusted": True} for row in trusted["rows"]]
    assert recommendation(record(trusted)) == ""
    poor = compared()
    poor["rows"] = [{**row, "mean": 0.505} for row in poor["rows"]]
    assert "no better than a constant answer" in recommendation(record(poor))


def test_what_was_spent_before_is_told_by_shape_and_by_words() -> None:
    facts, _ = private_run()
    before = [{**total, "epsilon_before": 0.5} for total in facts["before"]["bank"]]
    page = run_page({**facts, "before": {"bank": before}})
    assert 'aria-label="ε 1.47 of 3, 0.50 before"' in page
    assert 'class="before" y="3" width="16.7" height="4"' in page


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


@pytest.mark.parametrize("width", [40, 60, 80])
def test_tables_shrink_or_stack_their_rows_whatever_their_names_are(width: int) -> None:
    label = ("never was ill in all these years", "was ill at least once in them")
    described = description_facts(release_with(*people(), noise=2.0), name="Columns")
    ids = [("person", "what is predicted", *label), ("P000001", label[0], "0.25", "0.75")]
    lines = {
        "evaluated": evaluation_lines(evaluated(label), width),
        "describe": description_text(described, width=width).splitlines(),
        "predict": table_lines(ids, width),
        "without heads": table_lines([("a" * 30, "b" * 30, "c" * 15)], width, heads=False),
    }
    wide = {what: [line for line in each if len(line) > width] for what, each in lines.items()}
    assert not any(wide.values()), wide
    assert any("AUC" in line for line in lines["evaluated"])


def test_attacks_stand_on_the_page_undefended_first_and_as_text() -> None:
    page = run_page(private_run()[0], [there(section_of(ATTACK))])
    assert "What attacks on encrypted gradients found" in page
    assert page.index("without a defence: labels") < page.index("with noise before encryption: labels")
    assert "recorded &lt;b&gt;" in page and "recorded <b>" not in page


@pytest.mark.parametrize("public", [True, False])
def test_accuracy_against_epsilon_is_shown_of_public_data_only(public: bool) -> None:
    page = run_page(private_run()[0], [there(section_of(comparison(public)))])
    assert "Accuracy against ε" in page and ("0.9 ± 0.01" in page) is public is not (PRIVATE in page)


def test_other_facts_are_no_section() -> None:
    assert section_of({}) is None
    assert section_of({"findings": [{"observer": "server"}], "people": "made up"}) is None
