"""`colonnade privacy`: from noise to ε and back, for every observer."""

import json
import re
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from cli_project import Cli
from training_specs import requested as spec_of

from colonnade.cli import privacy
from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel
from colonnade.data.schema import PublicSchema
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.privacy import paper as skellam_moments
from colonnade.privacy.events import event_from_data
from colonnade.privacy.guarantee import account
from colonnade.runtime.party import Group

COMMANDS = {str(command.name): command.callback for command in privacy.app.registered_commands}
MOMENTS = ("moments", "--party", "bank=3", "--party", "shop=2", "--classes", "3")
SUMS = ("poisson-binomial", "--parties", "3", "--trials", "4")
DEALT = ("skellam", "--l1", "100", "--l2", "20", "--entries", "50", "--owners", "5", "--threshold", "2")


@pytest.fixture
def ask(cli: Cli) -> Any:
    return partial(cli.facts, "privacy")


def epsilons(answer: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for item in answer["guarantees"]:
        found[item["observer"]] = max(found.get(item["observer"], 0.0), item["epsilon"])
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_in_the_help_runs(name: str, ask: Any) -> None:
    (example,) = re.findall(r"colonnade privacy (.*)", COMMANDS[name].__doc__ or "")
    answer = ask(*example.removesuffix(" --paper").split())
    assert answer["guarantees"]
    assert example.split()[0] == name


@pytest.mark.parametrize(
    "arguments",
    [
        ("gaussian", "--sensitivity", "1"),
        ("gaussian", "--sensitivity", "2", "--times", "10"),
        ("discrete-gaussian", "--sensitivity", "16", "--entries", "4"),
        ("laplace", "--sensitivity", "3", "--times", "2"),
        ("discrete-laplace", "--sensitivity", "3"),
        ("discrete-laplace", "--sensitivity", "3", "--owners", "3", "--delta", "1e-9", "--for", "party"),
        DEALT,
        (*DEALT, "--for", "everyone"),
        (*DEALT, "--for", "coalition"),
        MOMENTS,
        ("messages", "--rows", "569", "--batch", "569", "--epochs", "5"),
        ("messages", "--rows", "569", "--batch", "100", "--epochs", "5", "--sender", "active"),
    ],
    ids=" ".join,
)
def test_the_noise_for_an_epsilon_keeps_it_and_a_hundredth_less_noise_does_not(
    arguments: tuple[str, ...], ask: Any
) -> None:
    answer = ask(*arguments, "--epsilon", "1")
    to = answer["noise"]["calibrated"]["for"]
    flag = {"σ": "--sigma", "σ²": "--sigma-squared", "μ": "--mu", "scale": "--scale"}[answer["noise"]["name"]]
    noise = Fraction(answer["noise"]["exact"])
    plain = arguments[: arguments.index("--for")] if "--for" in arguments else arguments

    def largest(parameter: Fraction) -> float:
        found = epsilons(ask(*plain, flag, str(parameter)))
        return max(
            epsilon for observer, epsilon in found.items() if to == "everyone" or observer.split(":")[0] == to
        )

    assert largest(noise) <= 1 < largest(noise * Fraction(99, 100))


def test_the_beta_for_an_epsilon_keeps_it_and_a_larger_one_does_not(ask: Any) -> None:
    answer = ask(*SUMS, "--epsilon", "1")
    beta = Fraction(answer["noise"]["exact"])
    assert answer["guarantees"][0]["epsilon"] <= 1
    assert ask(*SUMS, "--beta", str(beta * Fraction(101, 100)))["guarantees"][0]["epsilon"] > 1
    everyone = ask(*SUMS, "--epsilon", "1", "--for", "everyone")
    assert max(epsilons(everyone).values()) <= 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("gaussian", "--sensitivity", "1", "--sigma", "3.7306317"),
        ("laplace", "--sensitivity", "1", "--scale", "5", "--times", "3"),
        (*DEALT, "--mu", "4000"),
        (*SUMS, "--beta", "1/10", "--rows", "7", "--colluding", "2"),
        (*MOMENTS, "--mu", "1e16", "--times", "2"),
    ],
    ids=" ".join,
)
def test_every_epsilon_is_the_account_of_the_event_beside_it(arguments: tuple[str, ...], ask: Any) -> None:
    for item in ask(*arguments)["guarantees"]:
        assert item["epsilon"] == account(event_from_data(item["event"]), item["delta"]).epsilon
        assert item["method"] in item["sentence"]


def test_the_moments_command_plans_what_training_plans(ask: Any) -> None:
    columns = {"bank": 3, "shop": 2}
    schemas = tuple(
        PublicSchema(
            party,
            tuple(NumericColumn(f"{party} {place}", low=0, high=7) for place in range(count)),
            ClassLabel("kind", classes=("a", "b", "c")) if party == "bank" else None,
        )
        for party, count in columns.items()
    )
    group = Group.of(tuple(columns), active="bank")
    plan = spec_of(MomentsOptions, task="classification", epsilon=1.0, delta=1e-5, verify="none").plan(
        group, schemas, 1000
    )
    answer = ask(*MOMENTS, "--epsilon", "1")
    assert Fraction(answer["noise"]["exact"]) == plan.mu
    # What it would cost if more noise became known is for a plan to say.
    planned = [re.sub(r" \(if one does, [^)]*\)", "", str(item)) for item in plan.guarantees]
    assert [item["sentence"] for item in answer["guarantees"]] == planned


def test_the_moments_of_a_number_and_of_no_label_are_planned_too(ask: Any) -> None:
    number = ask("moments", "--party", "a=2", "--party", "b=2", "--regression", "--epsilon", "1")
    nothing = ask("moments", "--party", "a=2", "--party", "b=2", "--classes", "0", "--epsilon", "1")
    assert "6 × 6" in number["mechanism"]
    assert "classes" not in number["given"]
    assert "5 × 5" in nothing["mechanism"]


def test_an_observer_who_knows_more_never_gets_a_smaller_epsilon(ask: Any) -> None:
    dealt = epsilons(ask(*DEALT, "--mu", "4000", "--unit", "record-replaced"))
    assert dealt["server"] == dealt["reader"]
    assert dealt["party:any"] < dealt["coalition:any 2 owners"] == dealt["server"]
    sums = ask("poisson-binomial", "--parties", "5", "--trials", "4", "--beta", "0.1", "--colluding", "3")
    one_part = [item["epsilon"] for item in sums["guarantees"] if item["unit"].startswith("own-part")]
    assert one_part == sorted(one_part)
    assert len(set(one_part)) == 3


def test_owners_are_charged_for_a_replacement_which_moves_a_sum_twice_as_far(ask: Any) -> None:
    twice = ("skellam", "--l2", "40", "--l1", "200", *DEALT[5:], "--unit", "record-replaced")
    replaced = epsilons(ask(*twice, "--mu", "4000"))["party:any"]
    assert epsilons(ask(*DEALT, "--mu", "4000"))["party:any"] == replaced


def test_all_rows_of_one_partys_columns_cost_as_many_releases(ask: Any) -> None:
    once = ask(*SUMS, "--beta", "1/50", "--rows", "6")
    six = ask(*SUMS, "--beta", "1/50", "--times", "6")
    (columns,) = (item for item in once["guarantees"] if item["unit"].startswith("columns"))
    assert columns["epsilon"] == six["guarantees"][0]["epsilon"]


def test_a_secret_sample_helps_the_server_and_not_the_owners(ask: Any) -> None:
    words = "skellam --l1 10 --l2 5 --mu 2000 --entries 9 --owners 3 --times 20"
    plain = words.split()
    without, sampled = epsilons(ask(*plain)), epsilons(ask(*plain, "--rate", "0.01"))
    assert sampled["server"] < without["server"]
    assert sampled["party:any"] == without["party:any"]


def test_an_observer_without_a_bound_is_named_and_does_not_silence_the_others(ask: Any) -> None:
    plain = ("skellam", "--l1", "100", "--l2", "20", "--mu", "300", "--owners", "3", "--times", "200")
    answer = ask(*plain, "--rate", "0.01")
    bounds = {item["observer"]: item["epsilon"] for item in answer["guarantees"]}
    assert bounds["server"] < 2
    assert bounds["party:any"] is None
    assert "ε = ∞" in answer["guarantees"][-1]["sentence"]


def test_known_values(ask: Any) -> None:
    """Analytic Gaussian at (1, 1e-5); PBM-VFL's five parties over ten epochs; HDP-VFL's paper sensitivity."""
    assert ask("gaussian", "--sensitivity", "1", "--epsilon", "1")["noise"]["value"] == 3.73064
    sums = ask(
        "poisson-binomial", "--parties", "5", "--trials", "4", "--beta", "0.1", "--coordinates", "16",
        "--times", "10", "--paper",
    )  # fmt: skip
    assert sums["guarantees"][0]["epsilon"] == pytest.approx(30.783, abs=2e-3)
    assert sums["paper"][0]["value"] == pytest.approx(8.194, abs=2e-3)
    steps = ask("messages", "--rows", "569", "--batch", "569", "--epochs", "10", "--sigma", "20", "--paper")
    assert steps["paper"][0]["value"] == pytest.approx(6.3412, abs=1e-4)


def test_a_paper_figure_is_labelled_and_stands_apart(ask: Any, cli: Cli) -> None:
    words = ("gaussian", "--sensitivity", "1", "--sigma", "1/10", "--paper")
    answer = ask(*words)
    assert "paper" not in json.dumps(answer["guarantees"])
    assert all(figure["label"] == "paper formula, not a guarantee" for figure in answer["paper"])
    # Past its range it claims too little.
    assert answer["paper"][0]["value"] < answer["guarantees"][0]["epsilon"]
    assert "(paper formula, not a guarantee). It is proved" in cli("privacy", *words)
    assert "No paper has a formula" in cli("privacy laplace --sensitivity 1 --scale 2 --paper")


def test_the_papers_moments_are_computed_for_the_same_rows(ask: Any) -> None:
    answer = ask(*MOMENTS, "--mu", "1e16", "--paper")
    square = 4096**2 + 2896**2 + 13
    released = skellam_moments.Moments(square, 13**0.5 * square)
    expected = skellam_moments.server_epsilon(released, 1e16, 1e-5).value
    assert answer["paper"][0]["value"] == pytest.approx(expected)
    assert len(answer["paper"]) == 3
    assert ask(*MOMENTS, "--mu", "1e16", "--paper", "--times", "2")["paper"] == []


def test_people_read_sentences_notes_and_the_noise(cli: Cli) -> None:
    calibrated = cli("privacy", *DEALT, "--times", "3", "--epsilon", "1")
    assert "the least for ε = 1 at δ = 1e-05 for the observer server, 3 releases" in calibrated
    assert (
        "  The server learns at most ε = 1.00 (δ = 1e-05)" in calibrated and "is taken out of δ" in calibrated
    )
    sampled = cli("privacy", *DEALT, "--mu", "9000", "--rate", "1/2")
    assert "each record in a release with probability 1/2" in sampled
