"""The site: pages written for GitHub read the same there, and the check of a built site finds what is wrong."""

import re
import sys

import yaml
from fences import ROOT

sys.path.insert(0, str(ROOT / "docs" / "site"))

import check
import generated
import hooks
import reading
import reference

from colonnade.errors import explanations
from reproduction.sections import load
from reproduction.studies import STUDIES


def test_links_of_the_repository_become_links_of_the_site() -> None:
    text = "[a](docs/schema.md#the-file) [b](docs/proofs) [c](tests/docs/fences.py) [d](#here) [e](https://x.org)"
    assert reading.relinked(text, "README.md", "project/readme.md") == (
        "[a](../schema.md#the-file) [b](../proofs/README.md) [c](../source/tests/docs/fences.py.md) "
        "[d](#here) [e](https://x.org)"
    )
    deeper = reading.relinked("[g](../../examples/README.md)", "docs/how-to/choose-epsilon.md", "how-to/x.md")
    assert deeper == "[g](../source/examples/index.md)"
    assert reading.relinked("[h](../README.md)", "docs/index.md", "index.md") == "[h](project/readme.md)"


def test_code_is_left_alone() -> None:
    text = "text\n- item\n\n```text\nline\n- no item\n[x](y.md)\n```\n"
    made = reading.for_the_site(text, "docs/index.md", "index.md")
    assert made == "text\n\n- item\n\n```text\nline\n- no item\n[x](y.md)\n```\n"


def test_the_reference_has_every_room_and_every_exported_name() -> None:
    import colonnade

    assert set(reference.exported()) == {name for name in colonnade.__all__ if not name.startswith("_")}
    folders = {path.parent.name for path in (ROOT / "src" / "colonnade").glob("*/__init__.py")}
    assert set(reference.rooms()) == folders
    front = reference.pages()[reference.front_page()]
    assert [name for name in reference.exported() if f"::: colonnade.{name}\n" not in front] == []


def test_the_site_has_a_section_for_every_error_and_every_kept_result() -> None:
    errors = generated.whole("errors.md", "# Errors\n")
    assert errors.startswith("# Errors\n\n## E100\n**") and errors.count("\n## E") == len(explanations())
    papers = generated.whole("reproduction.md", "# Papers\n")
    kept = [
        section for study in STUDIES if study.page == "reproduction.md" for section in load(study.name) or []
    ]
    assert len(kept) > 30 and all(section.markdown() in papers for section in kept)
    assert generated.whole("schema.md", "text") == "text"


def test_every_page_has_its_place_in_the_navigation() -> None:
    text = re.sub(r"!!python\S+", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    nav = [part for entry in yaml.safe_load(text)["nav"] for part in hooks.expanded(entry)]
    named = hooks.listed(nav)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(pages - set(named)) == []
    assert sorted(page for page in set(named) if named.count(page) > 1) == []


def test_the_check_of_a_site_finds_what_is_wrong() -> None:
    pages = {
        "a.html": '<h1 id="top"></h1><a href="b.html#there">x</a><a href="gone.html">y</a><a href="#no">z</a>',
        "b.html": '<h2 id="there"></h2><img src="p.svg"><script src="https://cdn.example/x.js"></script>',
    }
    broken = check.broken(pages, {*pages, "p.svg"})
    assert sorted(broken) == ["a.html: no place no on a.html", "a.html: nothing at gone.html"]
    assert check.loaded_from_elsewhere(pages["b.html"]) == ["https://cdn.example/x.js"]
    assert len(check.unspoken(pages)) == 1
    assert "colonnade.PCA is not on api/colonnade/index.md" in check.undocumented(pages)
