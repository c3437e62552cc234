"""What the tutorial leaves to the reader's trust. That it runs as written is held with all pages, in test_documents."""

import subprocess
import sys
from pathlib import Path

from fences import ROOT, fences, says


def test_the_tutorial_shows_the_whole_way() -> None:
    commands = [
        line for fence in fences(ROOT / "docs/tutorial.md") for line in fence.commands if fence.kind == "sh"
    ]
    verbs = [line.split()[1] for line in commands if line.startswith("colonnade ")]
    wanted = ["new", "schema", "plan", "align", "train", "ledger", "report", "predict"]
    assert [verb for verb in wanted if verb not in verbs] == []


def test_this_check_would_notice_another_text() -> None:
    assert (
        says("a\nb\nc\n", "a\n…\nc\n") and says("a\nc\n", "a\n…\nc\n") and says("run 12, on\n", "run …, on\n")
    )
    assert not says("a\nb\n", "a\nc\n") and not says("a\nb\nc\n", "a\n") and not says("b\na\n", "a\n…\n")


def test_the_exports_are_as_messy_as_the_page_says(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "examples/messy/make_tables.py"), str(tmp_path)], check=True)
    bank, clinic = (tmp_path / "bank.csv").read_bytes(), (tmp_path / "clinic.csv").read_text()
    assert bank.startswith(b"\xef\xbb\xbfCustomer;Age;") and b";199;" in bank and b";;" in bank
    assert b"Office" in bank and b"CARE" in bank
    ids = [line.split(",")[0] for line in clinic.splitlines()[1:]]
    assert all(name == f" {name.strip().lower()} " for name in ids) and ids != sorted(ids)
