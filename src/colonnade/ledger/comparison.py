"""That ids were compared with others': it costs no ε and says something, so it is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Comparison:
    """The ids of a data set were compared with those of these parties, in a run that began at this time.

    `through` is the server that pseudonyms of the ids are shown to where lists differ; empty if none is. How many ids
    there were is not in it: an export of a ledger tells nobody the size of a table.
    """

    dataset: str
    partners: tuple[str, ...]
    run: str
    time: str
    through: str = ""

    def __post_init__(self) -> None:
        if not self.partners or not all(isinstance(partner, str) and partner for partner in self.partners):
            raise ValueError("ids are compared with at least one party, by its name")
        if not all(isinstance(said, str) for said in (self.dataset, self.run, self.through)):
            raise ValueError("a comparison names its data set and its run")

    def to_data(self) -> dict[str, Any]:
        """The body of its entry, whose time is the entry's."""
        through = {"through": self.through} if self.through else {}
        return {"dataset": self.dataset, "partners": list(self.partners), "run": self.run, **through}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], *, time: str) -> Comparison:
        """The comparison that `to_data` wrote into an entry of this time."""
        return cls(data["dataset"], tuple(data["partners"]), data["run"], time, data.get("through", ""))
