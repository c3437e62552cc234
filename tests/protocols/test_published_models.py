"""What is published is the server's word: another model than was trained is read by all alike, as SECURITY.md says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gradient_tables import tables_of
from training_specs import requested

from colonnade import Federation
from colonnade.errors import RemoteProtocolError
from colonnade.methods.functional.plan import FunctionalOptions
from colonnade.methods.functional.protocol import functional_session
from colonnade.methods.margin import protocol as margin
from colonnade.methods.margin.plan import MarginOptions
from colonnade.methods.moments import protocol as moments
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.slr import protocol as slr
from colonnade.methods.slr.plan import SlrOptions
from colonnade.protocols import session
from colonnade.protocols.messages import tell
from colonnade.runtime.party import Party
from colonnade.runtime.wire import Message

SHARED: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-4}
RUNS: dict[str, tuple[Any, Any, Any, str]] = {
    "margin": (
        margin.margin_session,
        requested(MarginOptions, steps=2, harmonics=3, **SHARED),
        margin,
        "weights",
    ),
    "slr": (slr.gradient_session, requested(SlrOptions, epochs=1, rate=1.0, **SHARED), slr, "weights"),
    "moments": (
        moments.moments_session,
        requested(MomentsOptions, task="classification", **SHARED),
        moments,
        "matrix",
    ),
    "functional": (
        functional_session,
        requested(FunctionalOptions, task="classification", **SHARED),
        session,
        "coefficients",
    ),
}


def published(method: str, patch: pytest.MonkeyPatch, *, to_the_last: int) -> list[Any]:
    """What each owner comes away with where the server publishes ones, and to the last owner something else."""
    program, request, module, name = RUNS[method]
    honest = session.publish

    async def lying(party: Party, opened: Any, step: str, word: str, *rest: Any) -> Any:
        if opened is None:
            return await honest(party, opened, step, word, *rest)
        ones = np.ones_like(opened)
        for owner in party.group.owners:
            announced = ones * to_the_last if owner == party.group.owners[-1] else ones
            await tell(party, owner, step, Message(arrays={word: announced}))
        await session.confirm(party, session.array_digest(ones))
        return ones

    patch.setattr(module, "publish", lying)
    tables = tables_of(("bank", "insurer"), 200)
    run = Federation(tables, budget=(100.0, 1e-4)).run(program, request)
    return [getattr(run.result(table.party), name) for table in tables]


@pytest.mark.parametrize("method", RUNS)
def test_a_server_that_publishes_another_model_is_believed(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for read in published(method, monkeypatch, to_the_last=1):
        assert read.size and (read == 1).all()


@pytest.mark.parametrize("method", RUNS)
def test_one_that_publishes_two_is_not(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RemoteProtocolError, match="it read something else"):
        published(method, monkeypatch, to_the_last=2)


@pytest.mark.parametrize("factor", [2**62, -(2**62)])
def test_integers_that_no_plan_could_open_are_refused(factor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RemoteProtocolError, match="larger than any of this plan"):
        published("functional", monkeypatch, to_the_last=factor)


def test_the_page_on_security_says_so_and_no_other_says_more() -> None:
    root = Path(__file__).parents[2]
    said = (root / "SECURITY.md").read_text()
    assert "the published model or release is the server's word" in said and Path(__file__).name in said
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.py")]
    promising = ("published is the one that was trained", "trained the one that is published")
    for page in pages:
        words = " ".join(page.read_text().split())
        assert not any(promise in words for promise in promising), page.name
