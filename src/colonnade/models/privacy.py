"""What a model cost, as something to print."""

from __future__ import annotations

from collections.abc import Iterable

from colonnade.markup import html_table
from colonnade.privacy.guarantee import Guarantee, delta_text, epsilon_text
from colonnade.privacy.words import observer_text, unit_text

NOT_PRIVATE = (
    "No privacy: the noise was drawn from a seed, so whoever has the seed can take it out. "
    "With noise from the system the same run would give:"
)


class Privacy(tuple[Guarantee, ...]):
    """The guarantees of a release, one for each observer; printed, one sentence a line."""

    reproducible: bool

    def __new__(cls, guarantees: Iterable[Guarantee], *, reproducible: bool = False) -> Privacy:
        made = super().__new__(cls, guarantees)
        made.reproducible = reproducible
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[tuple[Guarantee, ...]], dict[str, bool]]:
        return (tuple(self),), {"reproducible": self.reproducible}

    def _repr_html_(self) -> str:
        rows = [
            (
                observer_text(item.observer.name),
                f"{unit_text(item.unit.name)} ({item.unit.name})",
                epsilon_text(item.epsilon),
                delta_text(item.delta),
                item.assumption,
            )
            for item in self
        ]
        caption = NOT_PRIVATE if self.reproducible else "What each observer can learn at most"
        return html_table(caption, ("who", "about what", "ε", "at δ", "provided that"), rows)

    def __str__(self) -> str:
        sentences = [str(item) for item in self] or ["No guarantee."]
        return "\n".join([NOT_PRIVATE, *sentences] if self.reproducible else sentences)
