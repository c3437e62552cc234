"""Plan against outcome: both sides of a run on public data, in its facts, its text and its page."""

from report_runs import Facts, private_run, run_page, run_text

from colonnade.planning.cost import Cost
from colonnade.planning.forecast import Expected, Forecast
from colonnade.report.plain import section_lines
from colonnade.report.record import RunRecord
from colonnade.report.run_folder import forecast_facts
from colonnade.report.text import forecast_section

MADE = Forecast(
    Cost(
        {("bank", "shop", "columns"): 51_500.0, ("bank", "shop", "blinded"): 32_000.0},
        {("shop", "columns"): 14.0, ("shop", "blinded"): 1.0},
        seconds=0.25,
    ),
    True,
    None,
    "products",
    Expected((0.209, 0.219, 0.229), 300),
)


def with_forecast(*, seconds: float, measured: dict[str, float] | None) -> Facts:
    facts, federation = private_run()
    made = forecast_facts(MADE, federation.runs[-1], seconds=seconds, measured=measured)
    return facts | {"forecast": made.to_data()}


def forecast_lines(facts: Facts) -> list[str]:
    return section_lines(forecast_section(RunRecord.model_validate(facts)), None)


def test_both_sides_stand_in_text_and_page() -> None:
    facts = with_forecast(seconds=0.31, measured={"accuracy on the training rows": 0.83})
    used = facts["traffic"]
    assert facts["forecast"]["measured"]["bytes"] == used["bytes"]
    assert facts["forecast"]["measured"]["rounds"] == used["rounds"]
    lines = "\n".join(forecast_lines(facts))
    for piece in ("51.5 kB", "14", "0.25 s", "0.31 s"):
        assert piece in lines and piece in run_page(facts), piece
    assert lines in run_text(facts, verbose=True)


def test_an_error_of_invented_people_never_stands_beside_one_of_training_rows() -> None:
    facts = with_forecast(seconds=0.31, measured={"accuracy on the training rows": 0.83})
    assert facts["forecast"]["predicted"]["error"] == 0.219
    for announced in ("\n".join(forecast_lines(facts)), run_page(facts)):
        assert "0.219" not in announced and "0.170" not in announced


def test_finding_the_common_people_is_on_neither_side() -> None:
    made = with_forecast(seconds=0.31, measured=None)["forecast"]
    assert made["predicted"]["bytes"] == 51_500 and made["predicted"]["rounds"] == 14
    assert made["measured"]["bytes"] < private_run()[1].runs[-1].outcome.bytes_sent
