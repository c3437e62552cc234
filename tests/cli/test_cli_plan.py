"""A plan says before the run what the run will say after it, without a row and without a charge."""

from __future__ import annotations

import pytest
from cli_project import ROWS, Project, one_object, train

from colonnade.cli.app import run
from colonnade.data.schema import Schema
from colonnade.learn.jobs import Job
from colonnade.learn.planning import plan_job, price
from colonnade.protocols.dry_run import bill
from colonnade.protocols.moments_plan import MomentsPlan

USAGE, INPUT, PLAN = 2, 3, 4


def plan(project: Project, *options: str) -> int:
    return run(["plan", str(project.path("job.toml")), *options])


def planned(project: Project, rows: int) -> MomentsPlan:
    job = Job.load(project.path("job.toml"))
    schemas = {
        party: Schema.load(project.path(f"{party}.schema.toml")).public(party) for party in job.parties
    }
    return plan_job(job, schemas, rows=rows)


def test_a_plan_promises_what_the_run_then_promises_and_touches_nothing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {name: project.path(name).read_text() for name in ("bank.csv", "insurer.csv")}
    for name in data:
        project.path(name).unlink()
    before = set(project.folder.iterdir())
    assert plan(project, "--rows", str(ROWS), "--json") == 0
    facts = one_object(capsys.readouterr().out)
    assert set(project.folder.iterdir()) == before, "no ledger is made, and no data is needed"
    for name, text in data.items():
        project.path(name).write_text(text)
    assert train(project, "--json") == 0
    after = one_object(capsys.readouterr().out)
    assert facts["plan"] == after["plan"]
    assert facts["guarantees"] == after["guarantees"]
    assert facts["noise"]["standard_deviation"] == after["noise"]["standard_deviation"]
    assert 0 < facts["traffic"]["bytes"] < after["traffic"]["bytes"]


def test_a_plan_can_count_rows_if_it_is_asked_to(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(project, "--count", "--json") == 0
    assert one_object(capsys.readouterr().out)["rows"] == ROWS
    for options in ((), ("--rows", "10", "--count")):
        assert plan(project, *options) == USAGE
        assert "--rows" in capsys.readouterr().err
    assert plan(project, "--rows", "0") == INPUT


def test_bytes_of_many_blocks_are_those_of_running_them_all(project: Project) -> None:
    many = planned(project, 1000)
    small = MomentsPlan(
        many.task,
        many.group,
        5 * many.block + 77,
        many.schemas,
        many.epsilon,
        many.delta,
        many.gamma,
        many.mu,
    )
    scaled, real = price(small), bill(small)
    assert dict(scaled.bytes_by_step) == dict(real.bytes_by_step)
    assert scaled.rounds == real.rounds
    one = price(many)
    assert dict(one.bytes_by_step) == dict(bill(many).bytes_by_step)


def test_budgets_are_asked_with_what_the_ledger_holds_and_not_written(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.edit("insurer.toml", "epsilon = 4.0", "epsilon = 1.5")
    assert train(project) == 0
    before = {party: project.path(f"{party}.ledger").read_bytes() for party in ("bank", "insurer")}
    capsys.readouterr()
    assert plan(project, "--rows", str(ROWS), "--json") == 0
    bank, insurer = one_object(capsys.readouterr().out)["budgets"]
    assert bank["admits"] is True
    assert insurer["admits"] is False and "is left of 1.5" in insurer["reason"]
    assert before == {party: project.path(f"{party}.ledger").read_bytes() for party in before}
    # The budget that counts is the one in the party's file now.
    project.edit("insurer.toml", "epsilon = 1.5", "epsilon = 9.0")
    assert plan(project, "--rows", str(ROWS), "--json") == 0
    assert all(item["admits"] for item in one_object(capsys.readouterr().out)["budgets"])


def test_schemas_alone_are_enough(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.path("insurer.toml").unlink()
    assert plan(project, "--rows", "2000") == 0
    out = capsys.readouterr().out
    assert "insurer  not known" in out and "bank     yes" in out and "Nothing was run or charged." in out
    assert plan(project, "--count") == INPUT
    assert "insurer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("epsilon", "rows", "pieces"),
    [
        ("0.1", 400, ("Nothing usable", "400 rows are fewer than 1000", "ε = 0.5")),
        ("1.0", 400, ("Expect little",)),
        ("0.1", 3, ("Nothing usable", "features are more than 3 rows")),
    ],
)
def test_what_cannot_be_learnt_is_said_before_it_is_paid_for(
    project: Project, capsys: pytest.CaptureFixture[str], epsilon: str, rows: int, pieces: tuple[str, ...]
) -> None:
    project.edit("job.toml", "epsilon = 1.0", f"epsilon = {epsilon}")
    assert plan(project, "--rows", str(rows)) == 0
    out = capsys.readouterr().out
    assert "Warnings" in out and all(piece in out for piece in pieces), out


def test_a_large_delta_is_warned_of_and_a_larger_one_refused(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(project, "--rows", "9000") == 0
    assert "Warnings" not in capsys.readouterr().out
    assert plan(project, "--rows", "20000") == 0
    assert "δ = 1e-05 is not below 1/(10n) = 5e-06" in capsys.readouterr().out
    assert plan(project, "--rows", "200000") == PLAN
    assert "1/n" in capsys.readouterr().err


def test_a_plan_refuses_what_the_run_would_refuse(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.edit("job.toml", 'active = "bank"', 'active = "insurer"')
    assert plan(project, "--rows", str(ROWS)) == PLAN
    err = capsys.readouterr().err
    assert "job.toml" in err and "active = 'bank'" in err
