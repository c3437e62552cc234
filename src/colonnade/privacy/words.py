"""Observers and units as people say them; the names that ledgers keep stand beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_UNITS = {
    "record": "one person's record, there or blank",
    "record-replaced": "one person's record, this or any other",
    "others-part": "what the others hold about one person",
}


def observer_text(name: str) -> str:
    kind, colon, rest = name.partition(":")
    if not colon:
        return {"server": "the server", "reader": "a reader of the model"}.get(name, name)
    if kind == "coalition":
        members = ["the server" if member == "server" else member for member in rest.split("+")]
        return f"{joined(members)} together"
    return rest


def unit_text(name: str, *, owner: str = "") -> str:
    """About what; `owner` is whose ledger it stands in, which says whom the others' part belongs to."""
    kind, colon, party = name.partition(":")
    if colon and kind == "columns":
        return f"all of {party}'s columns"
    if colon and kind == "own-part":
        return f"what {party}'s columns say of one person"
    if name == "others-part" and owner:
        return f"what {owner}'s columns say of one person"
    return _UNITS.get(name, name)


def about_text(observer: str, unit: str, parties: Sequence[str]) -> str:
    """About what this observer could learn something, in a federation of these owners of columns."""
    others = [party for party in parties if f"party:{party}" != observer]
    return unit_text(unit, owner=others[0] if len(others) == 1 else "")


def observers_text(names: Iterable[str]) -> str:
    return ", ".join(map(observer_text, names))


def joined(names: Sequence[str]) -> str:
    """Names with "and" before the last."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
