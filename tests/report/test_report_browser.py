"""Pages in a real browser, by structure: nothing is cut, stacked or laid over something else, at any width."""

import re
from pathlib import Path

import pytest
from browser import Browser
from report_runs import HOSTILE, hostile_run, run_page, seeded_run
from tables_people import people, release_with
from test_report_verdict import ATTACK, compared, full_facts
from typed import there

from colonnade.report.comparison import comparison_page, section_of
from colonnade.report.describing import description_facts, description_page
from colonnade.report.record import ComparisonRecord
from colonnade.runs.writing import party_pages

WIDTHS = (390, 800, 1280)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    run, federation = hostile_run()[1].runs[-1], hostile_run()[1]
    made = {
        "full": run_page(full_facts(), [there(section_of(ATTACK)), there(section_of(compared()))]),
        "signed": run_page(full_facts()),
        "seeded": run_page(seeded_run()[0]),
        "hostile": run_page(hostile_run()[0]),
        "party": party_pages(run, federation, name=HOSTILE)["bank"],
        "comparison": comparison_page(ComparisonRecord.model_validate(compared())),
        "description": description_page(
            description_facts(release_with(*people(), noise=2.0), name="Columns")
        ),
    }
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


PAGES = ("full", "seeded", "hostile", "party", "comparison", "description")


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_stacked_or_laid_over_something_else(
    shown: Browser, pages: dict[str, Path], name: str
) -> None:
    for width in WIDTHS:
        shown.show(pages[name], width=width)
        assert shown.logged == [], "the page's policy allows everything that the page has"
        shown.unfold()
        assert shown.overflowing() == [], width
        assert shown.overlapping() == [], width


def test_the_probe_finds_what_is_cut_stacked_or_laid_over(shown: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<!doctype html><body><div style="width:60px;overflow:hidden"><p style="width:900px">cut</p></div>'
        '<div style="width:1ch;overflow-wrap:anywhere">stacked</div>'
        '<p style="position:absolute;top:300px">one</p><p style="position:absolute;top:300px">two</p></body>'
    )
    shown.show(page, width=390)
    found = " ".join(shown.overflowing())
    assert "cut, div" in found and "past the page, p" in found and "stacked, stacked" in found
    assert shown.overlapping() == ["one on two"]


def contrast(one: list[float], other: list[float]) -> float:
    """How far two colours are apart, by the formula of the Web Content Accessibility Guidelines."""

    def light(colour: list[float]) -> float:
        parts = [part / 255 for part in colour[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


COLOURS = r"""
[...document.querySelectorAll("p, th, td, dt, dd, h1, h2, b, .drawn text, .picture text")].map(one => {
  const numbers = text => (text.match(/[\d.]+/g) || []).map(Number), svg = one.closest("svg");
  let below = svg || one;
  while (below && (numbers(getComputedStyle(below).backgroundColor)[3] ?? 1) === 0) below = below.parentElement;
  const style = getComputedStyle(one);
  return [numbers(svg ? style.fill : style.color), numbers(getComputedStyle(below || document.body).backgroundColor),
          one.textContent.trim().slice(0, 40)];
})
"""


@pytest.mark.parametrize("name", ["full", "comparison"])
def test_words_can_be_read_by_day_and_by_night(shown: Browser, pages: dict[str, Path], name: str) -> None:
    for dark in (False, True):
        shown.show(pages[name], width=800, dark=dark)
        shown.unfold()
        pairs = shown.run(COLOURS)
        assert len(pairs) > 20
        assert [text for ink, paper, text in pairs if contrast(ink, paper) < 4.5] == []
        sheet = shown.run("getComputedStyle(document.body).backgroundColor")
        assert (contrast([float(part) for part in re.findall(r"\d+", sheet)], [0, 0, 0]) < 3) is dark


def test_on_paper_evidence_opens_and_three_pages_hold_it(shown: Browser, pages: dict[str, Path]) -> None:
    for name in ("hostile", "signed"):
        shown.show(pages[name], width=800)
        assert 1 <= page_count(shown.printed()) <= 3, name
    rules = shown.run("[...document.styleSheets[0].cssRules].map(rule => rule.cssText).join()")
    assert f'"run {full_facts()["run"]}"' in rules and "counter(page)" in rules
    shown.show(pages["full"], width=700, dark=True, paper=True)
    assert shown.overflowing() == []
    inside = "document.querySelector('.said details p').checkVisibility()"
    assert shown.run(inside), "the exact statement is on paper"
    assert shown.run("getComputedStyle(document.querySelector('details.plan')).display") == "none"
    assert shown.run("getComputedStyle(document.querySelector('h2')).breakAfter") == "avoid"
    ink = shown.run("getComputedStyle(document.querySelector('h1')).color")
    assert contrast([float(part) for part in re.findall(r"\d+", ink)], [255, 255, 255]) > 7, "dark ink"
    shown.show(pages["full"], width=700)
    assert not shown.run(inside), "folded on a screen"


def page_count(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_the_policy_forbids_whatever_is_not_the_pages_own(
    shown: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    page = pages["full"].read_text(encoding="utf-8")
    added = (
        "<script>document.title = 'run'</script><p id='x' style='color: red'>x</p>"
        "<style>body { display: none }</style><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>"
    )
    changed = tmp_path / "changed.html"
    changed.write_text(page.replace("</main>", f"{added}</main>"), encoding="utf-8")
    shown.show(changed, width=800)
    assert shown.run("document.title") != "run"
    assert shown.run("getComputedStyle(document.body).display") == "block"
    assert shown.run("getComputedStyle(document.getElementById('x')).color") != "rgb(255, 0, 0)"
    assert shown.run("document.querySelector('img').naturalWidth") == 0
    assert len(shown.logged) >= 4 and all("Content Security Policy" in line for line in shown.logged)
