"""What a model cost, as something to print."""

from __future__ import annotations

from collections.abc import Iterable

from colonnade.privacy.guarantee import Guarantee

NOT_PRIVATE = (
    "No privacy: the noise was drawn from a seed, so whoever has the seed can take it out. "
    "With noise from the system the same run would give:"
)


class Privacy(tuple[Guarantee, ...]):
    """The guarantees of a release, one for each observer; printed, one sentence a line.

    >>> print(Privacy((), reproducible=False))
    No guarantee.
    """

    reproducible: bool

    def __new__(cls, guarantees: Iterable[Guarantee], *, reproducible: bool = False) -> Privacy:
        made = super().__new__(cls, guarantees)
        made.reproducible = reproducible
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[tuple[Guarantee, ...]], dict[str, bool]]:
        return (tuple(self),), {"reproducible": self.reproducible}

    def __str__(self) -> str:
        sentences = [str(item) for item in self] or ["No guarantee."]
        return "\n".join([NOT_PRIVATE, *sentences] if self.reproducible else sentences)
