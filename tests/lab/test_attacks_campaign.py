"""A campaign of attacks on somebody's public tables, and what is said about it."""

import json
from pathlib import Path
from typing import Any

import pytest
from encrypted_runs import WIDER, request_of, tables_of
from typed import there

from colonnade.lab.campaign import Campaign
from colonnade.report.lab import attack_text, draw_attacks
from colonnade.report.record import AttackRecord, Attempt


def findings_of(
    widths: dict[str, int], *, rows: int = 160, people: int = 24, **changes: Any
) -> list[Attempt]:
    tables = {table.party: table for table in tables_of(widths, rows)}
    request = request_of(
        widths, **{"batch": None, "keys": WIDER, "epochs": 2, "learning_rate": 0.01, **changes}
    )
    return list(Campaign(tables, request, people).findings())


def by_name(findings: list[Attempt], defence: str) -> dict[str, Attempt]:
    return {finding.attack: finding for finding in findings if finding.defence == defence}


@pytest.fixture(scope="module")
def two_parties() -> list[Attempt]:
    return findings_of({"a": 6, "b": 8})


def test_every_attack_succeeds_without_a_defence(two_parties: list[Attempt]) -> None:
    found = by_name(two_parties, "none")
    for attack in ("labels from gradients", "labels from packed answers", "inner products of records"):
        assert there(found[attack].success).rate > 0.99, attack
        assert there(found[attack].success).low > there(found[attack].success).chance
    assert "expected an array" in there(found["claiming more columns"].refused)


def test_every_attack_fails_or_is_refused_with_the_sound_defence(two_parties: list[Attempt]) -> None:
    found = by_name(two_parties, "sound")
    # 160 people: six standard deviations of a coin are 0.24.
    for attack in ("labels from gradients", "labels from averaged messages"):
        assert abs(there(found[attack].success).rate - there(found[attack].success).chance) < 0.3, attack
    assert there(found["inner products of records"].success).rate < 0.5
    assert "holds more than was agreed" in there(found["labels from packed answers"].refused)
    assert "expected an array" in there(found["claiming more columns"].refused)
    assert "Φ(2·√looks/σ) = 0.5" in found["labels from averaged messages"].note


@pytest.mark.parametrize(
    ("widths", "attack", "attacker"),
    [
        ({"a": 6, "b": 1}, "the only column", "a"),
        pytest.param({"a": 1, "b": 6}, "the only column", "b", marks=pytest.mark.slow),
        ({"a": 0, "b": 4}, "labels of a party without columns", "b"),
    ],
)
def test_attacks_that_fit_the_columns_are_chosen(widths: dict[str, int], attack: str, attacker: str) -> None:
    changes = {"epochs": 4, "learning_rate": 0.1} if attack == "the only column" else {"epochs": 1}
    found = by_name(findings_of(widths, rows=24, people=24, **changes), "none")[attack]
    assert found.attacker == attacker and there(found.success).rate == 1.0


@pytest.mark.parametrize("approximation", ["taylor", "piecewise"])
def test_three_parties_are_attacked_by_the_one_with_most_columns(approximation: str) -> None:
    found = findings_of({"a": 2, "b": 3, "c": 6}, rows=24, people=24, epochs=1, approximation=approximation)
    assert {finding.attacker for finding in found} == {"c"}
    assert there(by_name(found, "none")["labels from gradients"].success).rate == 1.0


def test_what_was_found_is_told_and_drawn(two_parties: list[Attempt], tmp_path: Path) -> None:
    facts = AttackRecord(name="risk", people=160, epsilon=0.5, delta=1e-5, findings=two_parties)
    assert json.loads(json.dumps(facts.to_data())) == facts.to_data()
    text = attack_text(facts, width=100)
    assert "without a defence" in text and "with noise before encryption (ε = 0.5, δ = 1e-05)" in text
    assert "refused: a at step" in text and "by chance" in text
    assert draw_attacks(tmp_path / "picture.svg", facts)
    assert "chance" in (tmp_path / "picture.svg").read_text()
    assert not draw_attacks(tmp_path / "none.svg", facts.model_copy(update={"findings": []}))
