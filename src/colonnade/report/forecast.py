"""Plan against outcome: what was foretold of a run beside what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colonnade.learn.federation import Run
from colonnade.learn.forecasting.forecast import Forecast
from colonnade.report.facts import Facts

NOTE = (
    "Foretold before the run from declarations and numbers of rows, by a rehearsal on invented people; reading files "
    "is not part of it."
)
NO_SECONDS = "How long a run takes can depend on the rows, so that it is shown only of public data."


def forecast_facts(
    made: Forecast,
    run: Run[Any],
    *,
    seconds: float | None,
    measured: Mapping[str, float] | None,
) -> Facts:
    """Both sides as plain values; `seconds` and `measured` are None where rows are private."""
    accuracy = next((value for name, value in (measured or {}).items() if name.startswith("accuracy")), None)
    expected = made.expected
    return {
        "predicted": {
            "bytes": made.cost.bytes_sent,
            "rounds": made.cost.rounds,
            "seconds": made.cost.seconds,
            "error": None if expected is None or accuracy is None else expected.error,
        },
        "measured": {
            "bytes": run.outcome.bytes_sent,
            "rounds": run.outcome.rounds,
            "seconds": seconds,
            "error": None if accuracy is None else 1.0 - accuracy,
        },
        "note": NOTE if seconds is not None else f"{NOTE} {NO_SECONDS}",
    }
