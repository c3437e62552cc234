"""Plan against outcome: what was foretold of a run on public data beside what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colonnade.federation.federation import Run
from colonnade.forecast.forecast import Forecast
from colonnade.report.facts import Facts

NOTE = (
    "Foretold before the run from declarations and numbers of rows, by a rehearsal on invented people; reading files "
    "is not part of it. Time counts finding the common people, bytes and rounds do not."
)


def forecast_facts(
    made: Forecast,
    run: Run[Any],
    *,
    seconds: float,
    measured: Mapping[str, float] | None,
) -> Facts:
    """Both sides as plain values, for data that everybody declared public."""
    own = {step for traffic in run.outcome.traffic.values() for step in traffic.own}
    cost, outcome = made.cost.without(own), run.outcome.shared
    accuracy = next((value for name, value in (measured or {}).items() if name.startswith("accuracy")), None)
    expected = made.expected
    return {
        "predicted": {
            "bytes": cost.bytes_sent,
            "rounds": cost.rounds,
            "seconds": cost.seconds,
            "error": None if expected is None or accuracy is None else expected.error,
        },
        "measured": {
            "bytes": outcome.bytes_sent,
            "rounds": outcome.rounds,
            "seconds": seconds,
            "error": None if accuracy is None else 1.0 - accuracy,
        },
        "note": NOTE,
    }
