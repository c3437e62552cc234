"""A run's page shows what attacks and comparisons found on the same data, where it may be shown."""

import json
from typing import Any

import pytest
from report_runs import private_run, run_page
from typed import there

from colonnade.report.comparison import PRIVATE, section_of

ATTACK = {
    "name": "risk",
    "people": 60,
    "epsilon": 0.5,
    "delta": 1e-5,
    "findings": [
        {
            "attack": "labels from gradients",
            "attacker": "shop",
            "target": "bank",
            "run": "recorded <b>",
            "defence": defence,
            "success": {"rate": rate, "low": 0.9, "high": 1.0, "chance": 0.5, "hits": 60, "trials": 60},
            "by_epoch": [],
            "refused": None,
            "note": "",
        }
        for defence, rate in (("sound", 0.5), ("none", 0.99))
    ],
}


def comparison(public: bool) -> dict[str, str | float | list[float | dict[str, str | float | list[float]]]]:
    row: dict[str, Any] = {
        "method": "moments",
        "title": "one noisy moment matrix",
        "paper": False,
        "trusted": False,
        "split": False,
        "mean": 0.9,
        "spread": 0.01,
        "scores": [0.9],
        "failures": [],
        "guarantees": [],
        "seconds": 1.0,
        "bytes": 10,
        "notes": [],
    }
    return {
        "name": "risk",
        "task": "classification",
        "metric": "accuracy",
        "metric_note": "the share of people told right",
        "larger_is_better": True,
        "public": public,
        "epsilons": [0.5, 1.0],
        "delta": 1e-5,
        "seeds": 1,
        "trained_on": 10,
        "held_out": 5,
        "constant": 0.5,
        "rows": [{**row, "epsilon": epsilon} for epsilon in (0.5, 1.0)],
        "left_out": [],
    }


def test_attacks_stand_on_the_page_undefended_first_and_as_text() -> None:
    page = run_page(private_run()[0], [there(section_of(ATTACK))])
    assert "What attacks on encrypted gradients found" in page
    assert page.index("without a defence: labels") < page.index("with noise before encryption: labels")
    assert "recorded &lt;b&gt;" in page and "recorded <b>" not in page


@pytest.mark.parametrize("public", [True, False])
def test_accuracy_against_epsilon_is_shown_of_public_data_only(public: bool) -> None:
    page = run_page(private_run()[0], [there(section_of(comparison(public)))])
    assert ("0.9 ± 0.01" in page) is public
    assert (PRIVATE in page) is not public
    assert "Accuracy against ε" in page


def test_other_facts_are_no_section() -> None:
    assert section_of(json.loads("{}")) is None
    assert section_of({"findings": [{"observer": "server"}], "people": "made up"}) is None
