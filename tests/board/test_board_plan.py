"""Planning on the board: what a job would cost and bring, before anything is paid, and the file that is written."""

from __future__ import annotations

import io
import json
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
from boards import EVE, HOSTILE_JOB, Visit, ask, bank, growing, noted, rehearse, visit, write_runs
from cli_project import Project, write_project
from two_houses import PARTIES, job_text
from typed import there

from colonnade.board import forecasts
from colonnade.board.forecaster import main
from colonnade.board.forecasts import Forecast, Forecasts, question
from colonnade.cli.app import run
from colonnade.data.schema import Schema
from colonnade.federation.approval import _LATER, list_requests
from colonnade.federation.job import Job
from colonnade.federation.own_files import LOG
from colonnade.federation.party_file import PartyFile
from colonnade.ledger import Ledger
from colonnade.runtime.logged import StepFacts, step_line

ASKED = {
    "name": "Default risk 2",
    "task": "classification",
    "method": "local",
    "epsilon": "1",
    "delta": "1e-5",
    "held_out": "",
    "rows": "400",
    "party:bank": "on",
    "party:insurer": "on",
    "column:bank:age": "on",
    "column:bank:job": "on",
    "column:insurer:claims": "on",
    "column:insurer:smoker": "on",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return write_project(tmp_path, rows=40)


def planner(folder: Path, *, run: Any = rehearse) -> Visit:
    ada = visit(folder)
    ada.board.forecasts = Forecasts(run)
    return ada


def plan(ada: Visit, **changed: str | None) -> str:
    """Send the form; the address of the plan."""
    fields = {name: value for name, value in {**ASKED, **changed}.items() if value is not None}
    answer = ada.send("/plan", **fields)
    assert answer.status == 303, answer.text
    return answer.headers["location"]


def test_a_plan_says_what_it_would_cost_at_once_and_what_it_would_bring_when_that_is_known(
    project: Project,
) -> None:
    before = {path: path.read_bytes() for path in project.folder.iterdir()}
    go = threading.Event()

    def later(asked: dict[str, Any], made: Forecast) -> None:
        made.hear('{"done": 30, "total": 100}')
        go.wait()
        rehearse(asked, made)

    ada = planner(project.folder, run=later)
    assert "bank takes part" in ada.get("/plan").text
    address = plan(ada)
    page = ada.get(address).text
    assert (
        "left after" in page
        and "4.00 of 4" in page
        and "bank: customers" in page
        and "insurer: customers" in page
    )
    assert "about what insurer&#39;s columns say of one person" in page
    while "30 %" not in page:
        page = ada.get(address).text
    assert f"{address}/events" in page and "load it again" in page
    go.set()
    ada.board.forecasts.close()
    page = ada.get(address).text
    assert "By pilot runs on invented people" in page and "Error: share of people classed wrongly" in page
    assert "kB" in page and "/events" not in page
    after = {path: path.read_bytes() for path in project.folder.iterdir() if path.name != "board.jsonl"}
    assert after == before, "nothing was charged, and nothing but the log was written"
    assert ("Ada", "planned", "done") in noted(project.folder)


def test_the_costs_on_the_page_are_those_of_the_command_line(project: Project, capsys: Any) -> None:
    ada = planner(project.folder, run=lambda asked, made: None)
    planned = ada.board.plans.find(plan(ada).rpartition("/")[2])
    project.edit("job.toml", '"moments"', '"local"')
    words = ["plan", str(project.path("job.toml")), "--rows", "400", "--methods", "none", "--no-simulation"]
    assert run([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    shown = {(one["observer"], one["unit"]): one["epsilon"] for one in planned.facts["guarantees"]}
    assert shown == {(one["observer"], one["unit"]): one["epsilon"] for one in facts["guarantees"]}
    assert [answer.admits for answer in planned.facts["answers"]] == [True, True]


def test_a_job_is_saved_beside_the_party_files_and_never_over_another(project: Project) -> None:
    ada = planner(project.folder, run=lambda asked, made: None)
    address = plan(ada, held_out="0.25", base="job.toml")
    assert ada.get(f"{address}/job.toml").text == ada.board.plans.find("1").draft.text
    assert ada.send(address, deed="save").status == 303
    job = Job.load(project.path("Default-risk-2.toml"))
    assert (job.name, job.method, job.epsilon, job.held_out) == ("Default risk 2", "local", 1.0, 0.25)
    assert job.parties == ("bank", "insurer") and job.active == "bank"
    page = ada.get(address).text
    assert f"colonnade train {project.path('Default-risk-2.toml')}" in page
    assert ("Ada", "saved a job", "done") in noted(project.folder)
    again = ada.send(plan(ada), deed="save")
    assert again.status == 409 and "exists already" in again.text
    assert "Default-risk-2.toml" in ada.get("/plan").text


def test_columns_that_are_left_out_make_a_schema_of_their_own(project: Project) -> None:
    ada = planner(project.folder, run=lambda asked, made: None)
    address = plan(ada, **{"column:bank:job": None})
    assert "Planned with these columns of bank: age." in ada.get(f"{address}/job.toml").text
    assert ada.send(address, deed="save").status == 303
    own = PartyFile.load(project.path("Default-risk-2.bank.toml"))
    before = PartyFile.load(project.path("bank.toml"))
    assert (own.ledger, own.budgets, own.data) == (before.ledger, before.budgets, before.data)
    whole, kept = Schema.load(before.schema), Schema.load(own.schema)
    assert [column.name for column in kept.columns] == ["age"] and kept.label == whole.label
    assert kept.columns[0] == whole.columns[0] and kept.id == whole.id
    assert not project.path("Default-risk-2.insurer.toml").exists()
    assert "--party" in ada.get(address).text and own.path.stat().st_mode & 0o077 == 0
    assert "bank takes part" in ada.get("/plan").text, "the second file of a party is no second party"


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"epsilon": "much"}, "epsilon: &#39;much&#39; is no number"),
        ({"epsilon": "-1"}, "epsilon: found -1.0"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"held_out": "1.5"}, "held_out: found 1.5"),
        ({"rows": "0"}, "is no number of people"),
        ({"rows": "9" * 30}, "is no number of people"),
        ({"party:insurer": None}, "choose at least two"),
        ({"method": "magic"}, "&#39;magic&#39; is none"),
        ({"task": "pca", "method": "margin"}, "cannot do pca"),
        ({"name": ""}, "name"),
        ({"column:insurer:claims": None, "column:insurer:smoker": None}, "none of insurer is chosen"),
        ({"base": "../bank.toml"}, "there is no job"),
    ],
)
def test_a_form_that_is_wrong_is_shown_again_with_what_is(
    project: Project, changed: dict[str, str | None], found: str
) -> None:
    ada = planner(project.folder, run=lambda asked, made: None)
    fields = {name: value for name, value in {**ASKED, **changed}.items() if value is not None}
    answer = ada.send("/plan", **fields)
    assert answer.status == 409 and found in answer.text and 'role="alert"' in answer.text
    assert ada.board.plans.latest() == []
    assert 'name="column:bank:age" checked' in answer.text


def test_an_auditor_makes_no_plan_and_saves_none(project: Project) -> None:
    eve = visit(project.folder, EVE)
    assert "Plan it" not in eve.get("/plan").text
    assert eve.send("/plan", **ASKED).status == 403
    assert eve.send("/plan/1", deed="save").status == 403


def test_a_plan_can_be_made_again_with_another_method_or_other_fields(project: Project) -> None:
    ada = planner(project.folder, run=lambda asked, made: None)
    address = plan(ada)
    answer = ada.send(address, deed="method", method="moments")
    assert answer.status == 303 and ada.board.plans.find("2").draft.job.method == "moments"
    assert 'value="Default risk 2"' in ada.get("/plan?from=1").text
    assert "plans are kept while the board runs" in ada.get("/plan/7").text
    assert ada.send(address, deed="run").status == 400
    assert 'name="held_out" inputmode="decimal" value=""' in ada.get("/plan?job=job.toml").text


def test_a_kit_plans_with_its_own_columns_and_those_that_peers_introduced(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    (tmp_path / "shop.schema.toml").unlink()
    Ledger.open(tmp_path / "bank.ledger")
    assert "shop takes part" not in visit(kit.path).get("/plan").text
    schema = {"party": "shop", "columns": [{"name": HOSTILE_JOB, "kind": "numeric", "low": 0.0, "high": 1.0}]}
    facts = {
        "name": "risk",
        "task": "classification",
        "rows": 3,
        "learnt": {"a": 1},
        "time": "2026-05-06T07:08:09",
    }
    write_runs(kit.runs, {**facts, "plan": {"epsilon": 1.0, "schemas": {"shop": schema}}}, ["j1"])
    ada = planner(kit.path, run=lambda asked, made: None)
    page = ada.get("/plan").text
    assert "shop takes part" in page and "the run j1" in page and "<script>alert" not in page
    fields = {
        "name": "risk", "task": "classification", "method": "local", "epsilon": "1", "delta": "1e-5", "rows": "100",
        "party:bank": "on", "party:shop": "on", "column:bank:bank_0": "on", "column:bank:bank_1": "on",
        f"column:shop:{HOSTILE_JOB}": "on",
    }  # fmt: skip
    answer = ada.send("/plan", **fields)
    assert answer.status == 303, answer.text
    page = ada.get("/plan/1").text
    assert "only shop can say" in page and "left after" in page
    assert ada.send("/plan/1", deed="save").status == 303
    assert tomllib.loads((kit.path / "jobs" / "risk.toml").read_text())["parties"] == ["bank", "shop"]
    assert "colonnade job submit" in ada.get("/plan/1").text


def test_forecasts_are_made_one_after_the_other_and_too_many_are_refused() -> None:
    go, running = threading.Event(), []

    def slow(asked: dict[str, Any], made: Forecast) -> None:
        running.append(asked["key"])
        go.wait()
        raise ValueError("it broke")

    made = Forecasts(slow)
    begun = [made.begin(str(number), {"key": number}) for number in range(forecasts.WAITING + 1)]
    assert begun[-1] is None and made.begin("0", {"key": 0}) is begun[0]
    go.set()
    made.close()
    assert len(running) <= forecasts.WAITING and all(one.ended for one in begun if one is not None)
    assert begun[0] is not None and "no forecast was made" in begun[0].error
    assert made.begin("after", {"key": 9}) is None


def test_the_process_of_a_forecast_answers_complains_and_can_be_ended(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    schemas = {
        party: Schema.load(project.path(f"{party}.schema.toml")).public(party)
        for party in ("bank", "insurer")
    }
    text = project.path("job.toml").read_text().replace('"moments"', '"one-shot"')
    made = Forecasts()
    wrong = made.begin("wrong", question(text.replace("1.0", "-1.0"), schemas, rows=40))
    assert wrong is not None
    while not wrong.ended:
        threading.Event().wait(0.05)
    assert "epsilon: found -1.0" in wrong.error
    ended = made.begin("ended", question(text, schemas, rows=40))
    made.close()
    assert ended is not None and ended.ended and "no forecast was made" in ended.error
    asked = {**question(text, schemas, rows=40), "effort": 0.01}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(asked)))
    main()
    right = Forecast()
    for line in capsys.readouterr().out.splitlines():
        right.hear(line)
    assert right.facts is not None and right.done == right.total
    assert right.facts["methods"][0]["forecast"]["bytes"] > 0


def test_a_request_shows_the_jobs_text_and_a_forecast_that_its_first_look_begins(tmp_path: Path) -> None:
    kit = bank(tmp_path)
    schemas = {
        party: Schema.load(tmp_path / f"{party}.schema.toml").public(party).to_data() for party in PARTIES
    }
    text = f"# {HOSTILE_JOB}\n" + job_text('method = "local"')
    ask(kit, "j1", text=text, schemas=schemas, rows=60)
    ask(kit, "j2")
    ada = planner(kit.path)
    ada.get("/requests/j1")
    ada.board.forecasts.close()
    page = ada.get("/requests/j1").text
    assert (
        "method = &#34;local&#34;" in page and "&lt;script&gt;alert" in page and "<script>alert" not in page
    )
    assert "By pilot runs on invented people" in page and "Error: share of people classed wrongly" in page
    growing(kit, "j1", "approval of bank")
    assert "by the forecast" in ada.get("/runs/j1").text
    (made,) = there(there(ada.board.forecasts.get("request j1")).facts)["methods"]
    whole = made["forecast"]["through"]["bank"]
    with (kit.run_folder("j1") / LOG).open("a") as log:
        half = StepFacts("hello", sent=whole // 2, received=0, seconds=100.0)
        log.write(step_line("bank", "j1", half) + "\n")
    assert "as it went so far" in ada.get("/runs/j1").text
    earlier = ada.get("/requests/j2").text
    assert "An earlier version asked" in earlier and "There is no forecast" in earlier


def test_requests_of_earlier_versions_are_read_and_a_ledger_is_opened_once_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = bank(tmp_path)
    opened: list[Any] = []
    for number in range(20):
        ask(kit, f"j{number}")
        path = kit.path / "requests" / f"j{number}.json"
        kept = {name: value for name, value in json.loads(path.read_text()).items() if name not in _LATER}
        path.write_text(json.dumps(kept))
    before = Ledger.open

    def counted(path: Path, *, patience: float) -> Ledger:
        opened.append(path)
        return before(path, patience=patience)

    monkeypatch.setattr(Ledger, "open", counted)
    found = list_requests(kit)
    assert len(found) == 20 and len(opened) == 1
    assert {(one.text, one.rows) for one in found} == {("", 0)}
