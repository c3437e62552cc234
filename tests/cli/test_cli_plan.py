"""A plan says before the run what the run will say after it, without a row and without a charge."""

import json
import re

import pytest
from cli_project import ROWS, Cli, Project, one_object, train
from typed import untyped

from colonnade.cli.app import run
from colonnade.cli.plan_answer import plan_text
from colonnade.methods.functional.plan import FunctionalPlan
from colonnade.methods.table import METHODS
from colonnade.planning.pilot import PilotRuns
from colonnade.planning.recommend import Answer, ask_budgets

USAGE, INPUT, PLAN = 2, 3, 4
# The job's own method alone, without its error: the rest is rehearsed where a test is about it.
OWN = ("--methods", "none", "--no-simulation")
REHEARSE = PilotRuns.rehearse


def plan(project: Project, *options: str) -> int:
    return run(["plan", str(project.path("job.toml")), *options, *(() if "--methods" in options else OWN)])


def test_a_plan_promises_what_the_run_then_promises_and_touches_nothing(
    project: Project, cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {name: project.path(name).read_text() for name in ("bank.csv", "insurer.csv")}
    for name in data:
        project.path(name).unlink()
    before = set(project.folder.iterdir())
    facts = cli.facts("plan", "job.toml", "--rows", str(ROWS), *OWN)
    assert set(project.folder.iterdir()) == before, "no ledger is made, and no data is needed"
    for name, text in data.items():
        project.path(name).write_text(text)
    after = cli.facts("train job.toml")
    assert facts["plan"] == after["plan"]
    assert facts["guarantees"] == after["guarantees"]
    assert facts["noise"]["standard_deviation"] == after["noise"]["standard_deviation"]
    (own,) = facts["methods"]
    aligning = {"id", "set", "blinded", "twice", "matching", "common"}
    foretold = {step: size for step, size in own["forecast"]["steps"].items() if step not in aligning}
    assert foretold == {item["step"]: item["bytes"] for item in after["traffic"]["steps"]}
    assert set(own["forecast"]["steps"]) - set(foretold) == aligning, "a report leaves alignment out"


def test_a_plan_can_count_rows_if_it_is_asked_to(project: Project, cli: Cli) -> None:
    assert cli.facts("plan", "job.toml", "--count", *OWN)["rows"] == ROWS
    for options in ((), ("--rows", "10", "--count")):
        assert "--rows" in cli("plan", "job.toml", *options, *OWN, code=USAGE)
    assert plan(project, "--rows", "0") == INPUT


def test_a_plan_says_what_is_checked(project: Project, cli: Cli) -> None:
    method = 'method = "moments"'
    for requested, said in (
        (f'{method}\nverify = "none"', 'verify = "rows" in the job asks for checks'),
        (f'{method}\nverify = "rows"', "Rows, verify"),
    ):
        project.edit("job.toml", method, requested)
        assert said in " ".join(cli("plan", "job.toml", "--rows", "100", "--no-simulation", *OWN).split())
        project.edit("job.toml", requested, method)


def test_a_plan_says_if_it_leaves_out_matching_ids(project: Project, cli: Cli) -> None:
    for options, said in (((), True), (("--held", "bank=150"), False)):
        assert (
            "say with --held"
            in " ".join(cli("plan", "job.toml", "--rows", "100", "--no-simulation", *options, *OWN).split())
        ) is said


def test_budgets_are_asked_with_what_the_ledger_holds_and_not_written(project: Project, cli: Cli) -> None:
    project.edit("insurer.toml", "epsilon = 4.0", "epsilon = 1.5")
    assert train(project) == 0
    before = {party: project.path(f"{party}.ledger").read_bytes() for party in ("bank", "insurer")}
    bank, insurer = cli.facts("plan", "job.toml", "--rows", str(ROWS), *OWN)["budgets"]
    assert bank["admits"] is True
    assert insurer["admits"] is False and "is left of 1.5" in insurer["reason"]
    assert before == {party: project.path(f"{party}.ledger").read_bytes() for party in before}
    # The budget that counts is the one in the party's file now.
    project.edit("insurer.toml", "epsilon = 1.5", "epsilon = 9.0")
    assert all(item["admits"] for item in cli.facts("plan", "job.toml", "--rows", str(ROWS), *OWN)["budgets"])


def test_schemas_alone_are_enough(project: Project, cli: Cli) -> None:
    project.path("insurer.toml").unlink()
    out = cli("plan", "job.toml", "--rows", "2000", *OWN)
    assert "insurer  not known" in out and "bank     yes" in out and "Nothing was run or charged." in out
    assert "insurer" in cli("plan", "job.toml", "--count", *OWN, code=INPUT)


@pytest.mark.parametrize(
    ("epsilon", "rows", "pieces"),
    [
        ("0.1", 400, ("Nothing usable", "400 rows are fewer than 1000", "ε = 0.5")),
        ("1.0", 400, ("Expect little",)),
        ("0.1", 3, ("Nothing usable", "features are more than 3 rows")),
    ],
)
def test_what_cannot_be_learnt_is_said_before_it_is_paid_for(
    project: Project, cli: Cli, epsilon: str, rows: int, pieces: tuple[str, ...]
) -> None:
    project.edit("job.toml", "epsilon = 1.0", f"epsilon = {epsilon}")
    out = cli("plan", "job.toml", "--rows", str(rows), *OWN)
    assert "Warnings" in out and all(piece in out for piece in pieces), out


def test_a_large_delta_is_warned_of_and_a_larger_one_refused(project: Project, cli: Cli) -> None:
    assert "Warnings" not in cli("plan", "job.toml", "--rows", "9000", *OWN)
    assert "δ = 1e-05 is not below 1/(10n) = 5e-06" in cli("plan", "job.toml", "--rows", "20000", *OWN)
    assert "1/n" in cli("plan", "job.toml", "--rows", "200000", *OWN, code=PLAN)


def test_methods_stand_side_by_side_and_one_is_recommended_with_a_reason(project: Project, cli: Cli) -> None:
    facts = cli.facts("plan job.toml --rows 2000 --methods local,intermediate")
    methods = {item["method"]: item for item in facts["methods"]}
    assert facts["methods"][0]["method"] == "moments" and set(methods) == {"moments", "local", "intermediate"}
    for item in methods.values():
        made = item["forecast"]
        assert made["bytes"] > 0 and made["rounds"] > 0 and made["seconds"] > 0 and made["memory"] > 0
        assert made["noise"]["standard_deviation"] > 0 and made["expected"]["rows"] == 2000
        assert item["guarantees"] and item["admitted"] is True
    assert facts["recommended"] in methods and "expected error" in facts["why"]
    assert 0 < facts["without_privacy"] < 0.5
    out = plan_text(facts, 80)
    assert "Recommended" in out and " * " in out and "synthetic people" in out
    first = " ".join(plan_text(facts, None).split("\n")[0].split())
    assert re.fullmatch(
        r".*: classification by moments on 2000 people; ε at most \d\.\d\d, for \w+; every budget admits it; "
        r"error 0\.\d+ on synthetic people \(0\.\d+ without privacy\)\.",
        first,
    )
    assert max(map(len, out.splitlines())) <= 80
    assert any(
        line.split()[0] == "method" and line.split()[-1] == "budgets" for line in out.splitlines() if line
    )
    for kept in ("ε of local: server", "Noise, standard deviation"):
        assert kept in plan_text(facts, None, verbose=True) and kept not in out


def test_what_could_not_be_recommended_anyway_is_not_rehearsed_and_the_plan_says_why(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(METHODS[name] for name in ("moments", "local", "functional", "encrypted", "network"))
    monkeypatch.setattr("colonnade.planning.recommend.methods_for", lambda task: few)
    # A budget of this party refuses one of them.
    requested = "colonnade.planning.recommend.ask_budgets"
    refused = (Answer("bank", False, "its budget has less left."),)
    monkeypatch.setattr(
        requested,
        lambda plan, files, **how: (
            refused if isinstance(plan, FunctionalPlan) else ask_budgets(plan, files, **how)
        ),
    )
    rehearsed: list[str] = []
    monkeypatch.setattr(
        PilotRuns,
        "rehearse",
        lambda self, method, requested, plan: (
            untyped(rehearsed).append(method.name) or REHEARSE(self, method, requested, plan)
        ),
    )
    facts = cli.facts("plan", str(project.path("job.toml")), "--rows", "2000")
    methods = {item["method"]: item for item in facts["methods"]}
    assert rehearsed == ["moments", "local"] and facts["recommended"] == "moments"
    assert (
        "larger than that of moments by" in methods["encrypted"]["passed"]
        and methods["encrypted"]["guarantees"]
    )
    assert "trains a network" in methods["network"]["passed"] and not methods["network"]["reason"]
    assert methods["functional"]["passed"] == "a budget refuses it" and methods["functional"]["guarantees"]
    assert methods["encrypted"]["forecast"] is methods["network"]["forecast"] is None


def test_people_who_are_held_out_are_not_planned_to_be_trained_on(project: Project, cli: Cli) -> None:
    project.edit("job.toml", "delta = 1e-5", "delta = 1e-5\nheld_out = 0.25")
    facts = cli.facts("plan", "job.toml", "--rows", "400", *OWN)
    assert (facts["rows"], facts["common"], facts["held_out"]) == (300, 400, 0.25)
    assert "Of 400 people in common 0.25 are held out. The model is judged on them." in plan_text(facts, None)


def test_whose_the_figures_of_a_network_will_be_is_said_before_it_is_trained(
    project: Project, cli: Cli
) -> None:
    project.edit("job.toml", "delta = 1e-5", "delta = 1e-5\nheld_out = 0.25")
    project.edit("job.toml", '"moments"', '"network"')
    text = plan_text(cli.facts("plan", "job.toml", "--rows", "400", *OWN), None)
    assert "which only the label holder sees" in text and "The model is judged" not in text


def test_a_method_that_could_not_be_judged_is_not_offered_to_a_job_that_holds_people_out(
    project: Project, cli: Cli
) -> None:
    project.edit("job.toml", "delta = 1e-5", "delta = 1e-5\nheld_out = 0.25")
    moments, encrypted = cli.facts("plan job.toml --rows 400 --methods encrypted --no-simulation")["methods"]
    assert not moments["reason"] and "no guarantee covers scores" in encrypted["reason"]
    project.edit("job.toml", '"moments"', '"encrypted"')
    assert "Leave held_out out, or take a method" in cli(
        "plan", "job.toml", "--rows", "400", "--json", *OWN, code=4
    )


def test_a_method_that_cannot_do_the_job_is_listed_with_its_reason(project: Project, cli: Cli) -> None:
    project.edit("bank.schema.toml", 'classes = ["low", "high"]', 'classes = ["low", "middle", "high"]')
    facts = cli.facts("plan job.toml --rows 400 --methods encrypted --no-simulation")
    moments, encrypted = facts["methods"]
    assert encrypted["forecast"] is None and "two classes" in encrypted["reason"]
    assert moments["forecast"]["expected"] is None and "no simulation" in moments["forecast"]["unknown"]
    assert facts["recommended"] is None


def test_a_line_and_another_machine_change_the_time_and_nothing_else(
    project: Project, cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    text = cli("plan", "job.toml", "--rows", "400", "--json", *OWN)
    facts = one_object(text)
    here = project.path("here.json")
    machine = {name: value / 2 for name, value in facts["rehearsed_on"].items()}
    here.write_text(text.replace(json.dumps(facts["machine"]), json.dumps(machine | {"cores": 2}), 1))
    options = ("--rows", "400", "--json", "--bandwidth", "1", "--latency", "100", "--machine", str(here))
    assert plan(project, *options) == 0
    slow = one_object(capsys.readouterr().out)
    (before,), (after,) = facts["methods"], slow["methods"]
    for name in ("bytes", "rounds", "steps", "busiest"):
        assert before["forecast"][name] == after["forecast"][name]
    made = after["forecast"]
    assert made["sending"] == pytest.approx(made["rounds"] * 0.1 + 8 * made["busiest"] / 1e6)
    assert made["seconds"] == made["sending"] + made["computing"]
    assert slow["machine"] == machine | {"cores": 2}


def test_people_whom_a_party_holds_alone_make_matching_part_of_the_forecast(
    project: Project, cli: Cli
) -> None:
    alike = cli.facts("plan", "job.toml", "--rows", "100", *OWN)["methods"][0]["forecast"]
    matched = cli.facts("plan", "job.toml", "--rows", "100", "--held", "bank=150", *OWN)["methods"][0][
        "forecast"
    ]
    # The server keeps a share: every id travels to it once, as a pseudonym of 16 bytes.
    assert matched["bytes"] - alike["bytes"] > 16 * (150 + 100)
    assert matched["rounds"] >= alike["rounds"]


def test_a_run_on_public_data_sets_its_plan_against_its_outcome_and_another_run_does_not(
    project: Project, cli: Cli
) -> None:
    assert "forecast" not in cli.facts("train job.toml")
    for name in ("bank.toml", "insurer.toml"):
        project.edit(name, "patience = 0.2", "patience = 0.2\npublic = true")
    facts = cli.facts("train job.toml")
    predicted, measured = facts["forecast"]["predicted"], facts["forecast"]["measured"]
    for name in ("bytes", "rounds"):
        assert predicted[name] == measured[name] == facts["traffic"][name]
    assert predicted["seconds"] > 0 and measured["seconds"] > 0 and measured["error"] is not None


def test_a_plan_says_in_which_way_ids_are_matched_and_how_long_that_takes(project: Project, cli: Cli) -> None:
    short = ("--rows", "100", "--methods", "none", "--no-simulation", "--held", "bank=1000000")
    announced = " ".join(cli("plan", "job.toml", *short, *OWN).split())
    assert "matched through the server" in announced and 'where a policy does not name "server"' in announced
    found = cli.facts("plan", "job.toml", *short, *OWN)["matching"]
    # Sixteen bytes for each id of a list, and a bit to answer it.
    assert found["by"] == "server" and 16.1e6 < found["bytes"] < 16.2e6
    assert 0.1 < found["seconds"] < 120
