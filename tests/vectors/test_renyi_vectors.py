"""Every event leaf has a Rényi rule and a vector for it; `make_renyi_values.py` says how they were made."""

import json
from pathlib import Path
from typing import get_args

import pytest
from typed import untyped

from colonnade.privacy.events import AdditiveNoise, Mechanism, event_from_data
from colonnade.privacy.renyi import renyi

VALUES = json.loads(Path(__file__).with_name("renyi_values.json").read_text(encoding="utf-8"))["values"]
LEAVES = set(get_args(AdditiveNoise)) | {leaf for leaf in get_args(Mechanism) if isinstance(leaf, type)}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value['event']['kind']}-{value['order']}")
def test_a_rule_is_never_below_the_exact_divergence(
    value: dict[str, dict[str, str | int] | int | str],
) -> None:
    found, exact = (
        renyi(event_from_data(untyped(value["event"])), untyped(value["order"])),
        float(untyped(value["divergence"])),
    )
    assert found >= exact * (1 - 1e-12)
    if value["rule"] == "equals":
        assert found == pytest.approx(exact, rel=1e-9)
    else:
        assert found <= 1.6 * exact, "a bound this loose would be a mistake in one of the two"


def test_every_leaf_has_a_vector() -> None:
    covered = {type(event_from_data(value["event"])) for value in VALUES}
    assert covered == LEAVES
