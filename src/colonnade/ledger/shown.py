"""A ledger as a notebook shows it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from colonnade.ledger.state import Total
from colonnade.markup import html_table
from colonnade.privacy.guarantee import delta_text, epsilon_text
from colonnade.privacy.words import observer_text, unit_text


def totals_table(party: str, totals: Iterable[Total]) -> str:
    """Where every account stands: ε spent rounded up, ε left rounded down."""
    rows = [
        (
            observer_text(total.observer),
            f"{unit_text(total.unit, owner=party)} ({total.unit})",
            total.dataset,
            f"{epsilon_text(total.epsilon)} of {epsilon_text(total.budget_epsilon)}",
            "∞" if math.isinf(total.left) else f"{math.floor(total.left * 100) / 100:.2f}",
            delta_text(total.delta),
        )
        for total in totals
    ]
    heads = ("who could learn", "about what", "data set", "ε spent", "ε left", "at δ")
    return html_table(f"Ledger of {party}", heads, rows)
