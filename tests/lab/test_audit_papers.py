"""The papers' own formulas, audited: those that break where counting can show it are caught, by seeded draws."""

from dataclasses import replace

import pytest
from typed import there

from colonnade.lab.papers import Variant, variants
from colonnade.randomness import SeededRandomness
from colonnade.report.lab import papers_text

VARIANTS = variants()
# Whole descents, and sessions' worth of matrices, one by one.
LONG = {"the noise of (71) and (72)"}


def marked(variant: Variant) -> pytest.ParameterSet:
    return pytest.param(
        variant,
        id=f"{variant.paper}: {variant.claim}",
        marks=[pytest.mark.slow] if variant.claim in LONG else [],
    )


@pytest.mark.parametrize("variant", [marked(variant) for variant in VARIANTS if variant.drawn is not None])
def test_a_formula_is_caught_exactly_where_it_is_said_to_be(variant: Variant) -> None:
    shown = there(variant.drawn).bound(variant.draws, SeededRandomness(f"audit of {variant.claim}")).epsilon
    assert (shown > there(variant.drawn).claim.epsilon) is variant.caught
    assert not there(variant.drawn).claim.proved


def test_what_has_nothing_to_draw_says_why_and_is_not_said_to_be_caught() -> None:
    silent = [variant for variant in VARIANTS if variant.drawn is None]
    assert silent
    assert not any(variant.caught for variant in silent)
    assert all(variant.why for variant in VARIANTS)


def test_more_of_a_papers_noise_is_not_caught() -> None:
    """The control of the control: with four times the claim, nothing of PBM-VFL is exceeded."""
    variant = next(variant for variant in VARIANTS if "one party's value" in variant.claim)
    claim = replace(there(variant.drawn).claim, epsilon=4 * there(variant.drawn).claim.epsilon)
    drawn = replace(there(variant.drawn), claim=claim)
    assert there(drawn).bound(variant.draws, SeededRandomness(1)).epsilon < claim.epsilon


def test_what_is_shown_is_printed_rounded_down_and_what_is_claimed_rounded_up() -> None:
    item = {
        "paper": "P",
        "claim": "c",
        "why": "so",
        "delta": 0.0,
        "lower": 1.239,
        "epsilon": 1.231,
        "caught": True,
    }
    assert "shown ε ≥ 1.23, claimed ε ≤ 1.24; so" in papers_text([item])
