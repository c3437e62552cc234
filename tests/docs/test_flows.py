"""The pictures of message flows show what a fresh run of the real protocol sends."""

import sys

import pytest
from fences import ROOT

sys.path.insert(0, str(ROOT / "docs" / "figures"))

import flows


@pytest.mark.parametrize("name", flows.FLOWS)
def test_a_picture_shows_the_frames_of_a_fresh_run(name: str) -> None:
    drawn = (ROOT / "docs" / "figures" / f"flow-{name}.svg").read_text(encoding="utf-8")
    assert drawn == flows.draw(name), "python docs/figures/flows.py draws it again"


def test_every_picture_is_on_the_page() -> None:
    page = (ROOT / "docs" / "concepts" / "who-sees-what.md").read_text(encoding="utf-8")
    assert [name for name in flows.FLOWS if f"figures/flow-{name}.svg" not in page] == []


def test_the_server_of_private_messages_receives_none() -> None:
    members, arrows = flows.transcript(flows.FLOWS["intermediate"])
    announced = {arrow.receiver for arrow in arrows if flows.HOLDS[arrow.step].sort == "noisy"}
    assert "server" in members and announced == {"bank", "insurer"}
