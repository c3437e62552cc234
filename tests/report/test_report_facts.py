"""The same facts as data, as text and as a page, the books behind them, and the form that is published."""

import html
import json
import math
import re
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import BUDGET, HOSTILE, Facts, hostile_run, private_run, run_page, run_text, seeded_run
from typed import there

import colonnade.report.record
from colonnade.federation.files import plain, sealed_text
from colonnade.federation.train import model_facts
from colonnade.models.logistic import LogisticRegression
from colonnade.models.uncertainty import Watch
from colonnade.planning.cost import Cost
from colonnade.planning.forecast import Expected, Forecast
from colonnade.report.facts import NOT_PRIVATE, ledger_facts, run_facts
from colonnade.report.html import SHOWN_COEFFICIENTS, charts
from colonnade.report.plain import left_text, section_lines, size_text
from colonnade.report.record import LedgerRecord, ModelFactsRecord, RunRecord
from colonnade.report.text import budget_lines, forecast_section
from colonnade.runs.writing import forecast_facts


class Tags(HTMLParser):
    """Every tag with its attributes, and all text, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_every_guarantee_is_a_sentence_in_text_and_page() -> None:
    facts, federation = private_run()
    sentences = [str(item) for item in there(federation.runs[-1].release).guarantees]
    assert len(sentences) == 4 and [item["sentence"] for item in facts["guarantees"]] == sentences
    text, page = run_text(facts, verbose=True), Tags(run_page(facts)).text
    assert all(sentence in text and sentence in page for sentence in sentences)
    assert all(sentence in flat(run_text(facts, width=60, verbose=True)) for sentence in sentences)
    assert NOT_PRIVATE not in text and "No privacy" not in page


def test_a_seeded_run_says_no_privacy_everywhere() -> None:
    facts, federation = seeded_run()
    assert facts["private"] is False
    assert "No privacy" in run_text(facts) and "No privacy" in Tags(run_page(facts)).text
    assert "No privacy" in json.loads(json.dumps(plain(facts)))["warning"]
    assert all(not total["private"] for ledger in facts["ledgers"].values() for total in ledger["totals"])
    assert all(
        "no privacy" in line for line in budget_lines(RunRecord.model_validate(facts).ledgers.values())[2:]
    )
    entries = ledger_facts(federation.ledgers["bank"]).entries
    charges = [entry.what for entry in entries if entry.kind == "charge"]
    assert all("no privacy" in what for what in charges) and charges


@pytest.mark.parametrize("run", [private_run, seeded_run, hostile_run])
def test_the_page_needs_nothing_else(run: object) -> None:
    facts, _ = run()  # type: ignore[operator]
    page = run_page(facts)
    tags = Tags(page)
    assert tags.open == [], "every tag is closed in its order"
    assert not {"script", "link", "img", "iframe", "object", "form"} & {tag for tag, _ in tags.tags}
    for tag, attributes in tags.tags:
        assert not [name for name in attributes if name in ("src", "href") or name.startswith("on")], tag
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style and "@import" not in style
    assert "http:" not in page and "https:" not in page


def test_names_that_others_chose_are_text_and_nothing_else() -> None:
    facts, _ = hostile_run()
    page = run_page(facts)
    assert HOSTILE not in page and "<script" not in page
    assert HOSTILE in Tags(page).text, "the name itself is shown, escaped"
    assert html.unescape(page).count(HOSTILE) >= 2, "in the title and beside its coefficient"
    assert HOSTILE in run_text(facts)


def test_budgets_are_those_of_the_ledgers() -> None:
    facts, federation = private_run()
    for party, ledger in federation.ledgers.items():
        if party == "server":
            continue
        totals = ledger.totals()
        shown = facts["ledgers"][party]
        assert [(row["epsilon"], row["left"], row["budget"]) for row in shown["totals"]] == [
            (total.epsilon, total.left, BUDGET) for total in totals
        ]
        whole = ledger_facts(ledger).to_data()
        assert whole["head"] == ledger.receipt().head and len(whole["entries"]) == ledger.verify().entries
        assert shown == {key: whole[key] for key in ("party", "totals", "exact")}


def test_traffic_adds_up() -> None:
    facts, federation = private_run()
    outcome = federation.runs[-1].outcome.shared
    assert sum(flow["bytes"] for flow in facts["traffic"]["flows"]) == facts["traffic"]["bytes"]
    assert facts["traffic"]["bytes"] == outcome.bytes_sent and facts["traffic"]["rounds"] == outcome.rounds
    assert f"{size_text(outcome.bytes_sent)} in {outcome.rounds} rounds" in run_text(facts, verbose=True)


def test_the_largest_coefficients_are_shown_by_feature_and_owner() -> None:
    facts, _ = private_run()
    (chart,) = charts(ModelFactsRecord.model_validate(facts["model_facts"]))
    owners = {bar["name"]: bar["owner"] for bar in chart["bars"]}
    assert owners == {"age:sin": "bank", "age:cos": "bank", "spent:sin": "shop", "spent:cos": "shop"}
    sizes = [abs(bar["value"]) for bar in chart["bars"]]
    assert sizes == sorted(sizes, reverse=True) and abs(chart["bars"][0]["share"]) == pytest.approx(50)
    page = Tags(run_page(facts)).text
    assert chart["name"] == "high" and all(name in page for name in owners)
    many = range(3 * SHOWN_COEFFICIENTS)
    named: Facts = {"features": [f"f{i}" for i in many], "owners": ["bank"] * len(many), "rows": ["yes"]}
    (cut,) = charts(ModelFactsRecord.model_validate({**named, "coefficients": [[float(i) for i in many]]}))
    assert [bar["value"] for bar in cut["bars"]] == list(many)[: -SHOWN_COEFFICIENTS - 1 : -1]


@given(st.floats(min_value=1e-12, max_value=1e6))
def test_what_is_left_is_printed_rounded_down(left: float) -> None:
    printed = Decimal(left_text(left))
    assert 0 <= printed <= Decimal(left)
    assert printed >= Decimal(left) * Decimal("0.9")


TOTAL = {
    "dataset": "d", "unit": "record", "observer": "server", "epsilon": 1.0001, "delta": 1e-5,
    "budget": 4.0, "left": 2.9999, "entries": 1, "private": True,
}  # fmt: skip


def test_spent_rounds_up_and_left_rounds_down_in_the_table() -> None:
    named, _, line = budget_lines([LedgerRecord.model_validate({"party": "bank", "totals": [TOTAL]})])
    assert named == "  Data set: d"
    assert re.split("  +", line.strip()) == [
        "bank", "the server", "one person's record, there or blank (record)", "1.01 of 4", "2.99", "1e-05"
    ]  # fmt: skip


def test_an_epsilon_that_nothing_bounds_is_infinity_for_people_and_null_for_programs() -> None:
    total = {**TOTAL, "epsilon": math.inf, "left": 0.0}
    assert "∞ of 4" in budget_lines([LedgerRecord.model_validate({"party": "bank", "totals": [total]})])[2]
    assert plain(total)["epsilon"] is None
    facts, _ = private_run()
    ledger = {**facts["ledgers"]["bank"], "totals": [total]}
    assert "∞" in run_page({**facts, "ledgers": {"bank": ledger}})


def test_an_estimate_that_was_skipped_is_a_note_and_everything_else_is_there() -> None:
    whole, federation = private_run()
    run = federation.runs[-1]
    watch = Watch(interrupted=lambda: True)
    model = LogisticRegression().fit(there(run.release))
    learnt = model_facts(model, there(run.release), watch)
    facts = run_facts(run, federation, name="Risk", model_facts=learnt, notes=(watch.skipped,)).to_data()
    assert "intervals" in whole["model_facts"] and "intervals" not in facts["model_facts"]
    assert facts["notes"] == [note for note in facts["notes"] if "it was interrupted" in note] != []
    assert facts["model_facts"]["by_column"] and facts["guarantees"] == whole["guarantees"]
    assert "was not estimated: it was interrupted" in flat(run_text(facts))
    assert "was not estimated: it was interrupted" in Tags(run_page(facts)).text


MADE = Forecast(
    Cost(
        {("bank", "shop", "columns"): 51_500.0, ("bank", "shop", "blinded"): 32_000.0},
        {("shop", "columns"): 14.0, ("shop", "blinded"): 1.0},
        seconds=0.25,
    ),
    True,
    None,
    Expected((0.209, 0.219, 0.229), 300),
)


def test_plan_and_outcome_stand_in_text_and_page_as_far_as_they_can_be_compared() -> None:
    facts, federation = private_run()
    run, measured = federation.runs[-1], {"accuracy on the training rows": 0.83}
    sides = forecast_facts(MADE, run, seconds=0.31, measured=measured).to_data()
    facts = facts | {"forecast": sides}
    used = facts["traffic"]
    assert (sides["measured"]["bytes"], sides["measured"]["rounds"]) == (used["bytes"], used["rounds"])
    assert (sides["predicted"]["bytes"], sides["predicted"]["rounds"]) == (51_500, 14)
    assert used["bytes"] < run.outcome.bytes_sent, "finding the common people is on neither side"
    lines = "\n".join(section_lines(forecast_section(RunRecord.model_validate(facts)), None))
    for piece in ("51.5 kB", "14", "0.25 s", "0.31 s"):
        assert piece in lines and piece in run_page(facts), piece
    assert lines in run_text(facts, verbose=True)
    assert sides["predicted"]["error"] == 0.219
    for announced in (lines, run_page(facts)):
        assert "0.219" not in announced and "0.170" not in announced


SCHEMA = Path(colonnade.report.record.__file__).with_name("facts.schema.json")


def test_the_schema_that_is_published_is_that_of_the_record() -> None:
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    assert published == draft | RunRecord.model_json_schema()
    assert {"run", "guarantees", "model_facts", "ledgers"} <= set(published["required"])


@pytest.mark.parametrize("make", [private_run, seeded_run])
def test_facts_are_a_record_and_nothing_else(make: Any) -> None:
    facts = json.loads(sealed_text(make()[0]))
    assert RunRecord.model_validate(facts, strict=True).to_data() == facts
