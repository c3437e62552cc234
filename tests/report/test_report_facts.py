"""The same facts as data, as text and as a page, and the books behind them."""

import html
import json
import math
import re
from decimal import Decimal
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import BUDGET, HOSTILE, hostile_run, private_run, run_page, run_text, seeded_run
from typed import there

from colonnade.federation.files import plain
from colonnade.federation.train import model_facts
from colonnade.models.logistic import LogisticRegression
from colonnade.models.uncertainty import Watch
from colonnade.report.facts import NOT_PRIVATE, ledger_facts, run_facts
from colonnade.report.html import SHOWN_COEFFICIENTS, charts
from colonnade.report.plain import left_text, size_text, table_lines
from colonnade.report.record import LearntRecord, LedgerRecord, RunRecord
from colonnade.report.text import budget_lines


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


def test_coefficients_are_shown_by_feature_the_largest_first() -> None:
    facts, _ = private_run()
    (chart,) = charts(LearntRecord.model_validate(facts["learnt"]))
    assert chart["name"] == "high"
    assert {bar["name"] for bar in chart["bars"]} == {"age:sin", "age:cos", "spent:sin", "spent:cos"}
    sizes = [abs(bar["value"]) for bar in chart["bars"]]
    assert sizes == sorted(sizes, reverse=True) and abs(chart["bars"][0]["share"]) == pytest.approx(50)
    assert {bar["owner"] for bar in chart["bars"] if bar["name"].startswith("age")} == {"bank"}
    page = Tags(run_page(facts)).text
    assert all(bar["name"] in page for bar in chart["bars"])


def test_many_coefficients_are_cut_to_the_largest() -> None:
    count = 3 * SHOWN_COEFFICIENTS
    learnt = {
        "features": [f"f{i}" for i in range(count)],
        "owners": ["bank"] * count,
        "rows": ["yes"],
        "coefficients": [[float(i) for i in range(count)]],
    }
    (chart,) = charts(LearntRecord.model_validate(learnt))
    assert [bar["name"] for bar in chart["bars"]] == [
        f"f{i}" for i in range(count - 1, count - 1 - SHOWN_COEFFICIENTS, -1)
    ]


@given(st.floats(min_value=1e-12, max_value=1e6))
def test_what_is_left_is_printed_rounded_down(left: float) -> None:
    printed = Decimal(left_text(left))
    assert 0 <= printed <= Decimal(left)
    assert printed >= Decimal(left) * Decimal("0.9")


def test_spent_rounds_up_and_left_rounds_down_in_the_table() -> None:
    total = {
        "dataset": "d", "unit": "record", "observer": "server", "epsilon": 1.0001, "delta": 1e-5,
        "budget": 4.0, "left": 2.9999, "entries": 1, "private": True,
    }  # fmt: skip
    named, _, line = budget_lines([LedgerRecord.model_validate({"party": "bank", "totals": [total]})])
    assert named == "  Data set: d"
    assert re.split("  +", line.strip()) == [
        "bank", "the server", "one person's record, there or blank (record)", "1.01 of 4", "2.99", "1e-05"
    ]  # fmt: skip


def test_an_epsilon_that_nothing_bounds_is_infinity_for_people_and_null_for_programs() -> None:
    total = {
        "dataset": "d", "unit": "record", "observer": "server", "epsilon": math.inf, "delta": 1e-5,
        "budget": 4.0, "left": 0.0, "entries": 1, "private": True,
    }  # fmt: skip
    assert "∞ of 4" in budget_lines([LedgerRecord.model_validate({"party": "bank", "totals": [total]})])[2]
    assert plain(total)["epsilon"] is None
    facts, _ = private_run()
    ledger = {**facts["ledgers"]["bank"], "totals": [total]}
    assert "∞" in run_page({**facts, "ledgers": {"bank": ledger}})


def test_columns_of_a_table_line_up() -> None:
    lines = table_lines([("a", "b", "c"), ("long", "", "x")])
    assert lines == ["  a     b  c", "  long     x"]


def test_an_estimate_that_was_skipped_is_a_note_and_everything_else_is_there() -> None:
    whole, federation = private_run()
    run = federation.runs[-1]
    watch = Watch(interrupted=lambda: True)
    model = LogisticRegression().fit(there(run.release))
    learnt = model_facts(model, there(run.release), watch)
    facts = run_facts(run, federation, name="Risk", model_facts=learnt, notes=(watch.skipped,)).to_data()
    assert "intervals" in whole["learnt"] and "intervals" not in facts["learnt"]
    assert facts["notes"] == [note for note in facts["notes"] if "it was interrupted" in note] != []
    assert facts["learnt"]["by_column"] and facts["guarantees"] == whole["guarantees"]
    assert "was not estimated: it was interrupted" in flat(run_text(facts))
    assert "was not estimated: it was interrupted" in Tags(run_page(facts)).text
