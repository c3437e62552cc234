"""A plan says before the run what the run will say after it, without a row and without a charge."""

import re
from typing import Any

import pytest
from cli_project import ROWS, Cli, Project, train

from colonnade.cli import screen
from colonnade.cli.app import run
from colonnade.cli.plan_answer import plan_text
from colonnade.methods.functional.plan import FunctionalPlan
from colonnade.methods.table import METHODS
from colonnade.planning.pilot import PilotRuns
from colonnade.planning.recommend import Admission, ask_budgets

USAGE, INPUT, PLAN = 2, 3, 4
# The job's own method alone, without its error: the rest is rehearsed where a test is about it.
OWN = ("--methods", "none", "--no-simulation")
REHEARSE = PilotRuns.rehearse


def test_a_plan_promises_what_the_run_then_promises_and_touches_nothing(project: Project, cli: Cli) -> None:
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
    cli("plan", "job.toml", "--rows", "0", *OWN, code=INPUT)


DELTA, MOMENTS = "delta = 1e-5", 'method = "moments"'
HELD_OUT = (DELTA, f"{DELTA}\nheld_out = 0.25")


@pytest.mark.parametrize(
    ("edits", "options", "said", "unsaid"),
    [
        (
            [(MOMENTS, f'{MOMENTS}\nverify = "none"')],
            "100",
            ['verify = "rows" in the job asks for checks'],
            [],
        ),
        ([(MOMENTS, f'{MOMENTS}\nverify = "rows"')], "100", ["Rows, verify", "say with --held"], []),
        ([], "100 --held bank=150", [], ["say with --held"]),
        (
            [("epsilon = 1.0", "epsilon = 0.1")],
            "400",
            ["Warnings", "Nothing usable", "400 rows are fewer"],
            [],
        ),
        ([], "400", ["Warnings", "Expect little"], []),
        ([("epsilon = 1.0", "epsilon = 0.1")], "3", ["Nothing usable", "features are more than 3 rows"], []),
        ([], "9000", [], ["Warnings"]),
        ([], "20000", ["δ = 1e-05 is not below 1/(10n) = 5e-06"], []),
        (
            [HELD_OUT],
            "400",
            ["Of 400 people in common 0.25 are held out. The model is evaluated on them."],
            [],
        ),
        (
            [HELD_OUT, ("moments", "network")],
            "400",
            ["which only the label holder sees"],
            ["The model is evaluated"],
        ),
    ],
)
def test_a_plan_says_before_it_is_paid_for(
    project: Project, cli: Cli, edits: list[tuple[str, str]], options: str, said: list[str], unsaid: list[str]
) -> None:
    for old, new in edits:
        project.edit("job.toml", old, new)
    text = " ".join(cli("plan", "job.toml", "--rows", *options.split(), *OWN).split())
    assert all(words in text for words in said) and not any(words in text for words in unsaid), text


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


def test_a_delta_too_large_to_protect_is_refused(project: Project, cli: Cli) -> None:
    assert "1/n" in cli("plan", "job.toml", "--rows", "200000", *OWN, code=PLAN)


def test_methods_stand_side_by_side_and_one_is_recommended_with_a_reason(project: Project, cli: Cli) -> None:
    facts = cli.facts("plan job.toml --rows 2000 --methods local,private-messages")
    methods = {item["method"]: item for item in facts["methods"]}
    assert facts["methods"][0]["method"] == "moments"
    assert set(methods) == {"moments", "local", "private-messages"}
    for item in methods.values():
        made = item["forecast"]
        assert made["bytes"] > 0 and made["rounds"] > 0 and made["seconds"] > 0 and made["memory"] > 0
        assert made["noise"]["standard_deviation"] > 0 and made["expected"]["rows"] == 2000
        assert item["guarantees"] and item["admitted"] is True
    assert facts["recommended"] in methods and "expected error" in facts["why"]
    assert 0 < facts["without_privacy"] < 0.5
    out = plan_text(facts, 80)
    first = " ".join(plan_text(facts, None).split("\n")[0].split())
    assert re.fullmatch(
        r".*: classification by moments on 2000 people; ε at most \d\.\d\d, for \w+; every budget admits it; "
        r"error 0\.\d+ on synthetic people \(0\.\d+ without privacy\)\.",
        first,
    )
    assert max(map(len, out.splitlines())) <= 80
    assert "Recommended" in out and "AUC on the same people: moments 0." in plan_text(facts, None)
    for kept in ("ε of local: server", "Noise, standard deviation"):
        assert kept in plan_text(facts, None, verbose=True) and kept not in out


def test_what_could_not_be_recommended_anyway_is_not_rehearsed_and_the_plan_says_why(
    project: Project, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(METHODS[name] for name in ("moments", "local", "functional", "encrypted", "network"))
    monkeypatch.setattr("colonnade.planning.recommend.methods_for", lambda task: few)
    # A budget of this party refuses one of them.
    refused = (Admission("bank", False, "its budget has less left."),)
    rehearsed: list[str] = []

    def asked(plan: Any, files: Any, **how: Any) -> Any:
        return refused if isinstance(plan, FunctionalPlan) else ask_budgets(plan, files, **how)

    def noted(self: PilotRuns, method: Any, spec: Any, plan: Any) -> Any:
        rehearsed.append(method.name)
        return REHEARSE(self, method, spec, plan)

    monkeypatch.setattr("colonnade.planning.recommend.ask_budgets", asked)
    monkeypatch.setattr(PilotRuns, "rehearse", noted)
    facts = cli.facts("plan", str(project.path("job.toml")), "--rows", "2000")
    methods = {item["method"]: item for item in facts["methods"]}
    assert rehearsed == ["moments", "local"] and facts["recommended"] == "moments"
    assert "that of moments" in methods["encrypted"]["passed"] and methods["encrypted"]["guarantees"]
    assert "trains a network" in methods["network"]["passed"] and not methods["network"]["reason"]
    assert methods["functional"]["passed"] == "a budget refuses it" and methods["functional"]["guarantees"]
    assert methods["encrypted"]["forecast"] is methods["network"]["forecast"] is None


def test_people_who_are_held_out_are_not_planned_to_be_trained_on(project: Project, cli: Cli) -> None:
    project.edit("job.toml", *HELD_OUT)
    facts = cli.facts("plan", "job.toml", "--rows", "400", *OWN)
    assert (facts["rows"], facts["common"], facts["held_out"]) == (300, 400, 0.25)


def test_a_method_that_could_not_be_judged_is_not_offered_to_a_job_that_holds_people_out(
    project: Project, cli: Cli
) -> None:
    project.edit("job.toml", *HELD_OUT)
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


def test_a_line_changes_the_time_and_nothing_else(project: Project, cli: Cli) -> None:
    facts = cli.facts("plan", "job.toml", "--rows", "400", *OWN)
    options = ("--rows", "400", "--bandwidth", "1", "--latency", "100")
    slow = cli.facts("plan", "job.toml", *options, *OWN)
    (before,), (after,) = facts["methods"], slow["methods"]
    for name in ("bytes", "rounds", "steps", "busiest"):
        assert before["forecast"][name] == after["forecast"][name]
    made = after["forecast"]
    assert made["sending"] == pytest.approx(made["rounds"] * 0.1 + 8 * made["busiest"] / 1e6)
    assert made["seconds"] == made["sending"] + made["computing"]
    assert all(slow["machine"][name] > 0 for name in ("cores", "products", "draws", "powers", "floats"))


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
    facts = cli.facts("plan", "job.toml", "--rows", "100", "--held", "bank=1000000", *OWN)
    assert "matched through the server" in plan_text(facts, None)
    found = facts["matching"]
    # Sixteen bytes for each id of a list, and a bit to answer it.
    assert found["by"] == "server" and 16.1e6 < found["bytes"] < 16.2e6
    assert found["seconds"] > 0


def test_a_plan_tells_a_pipe_how_far_it_is(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(screen, "EVERY", 0.0)
    assert run(["plan", "job.toml", "--rows", "400", "--methods", "none", "--no-simulation", "--json"]) == 0
    printed = capsys.readouterr()
    assert "rehearsing" in printed.err and "rehearsing" not in printed.out
