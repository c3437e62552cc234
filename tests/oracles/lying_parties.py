"""What somebody does who does not follow a protocol, and hides it as well as can be."""

from typing import Any

import numpy as np
import pytest
from typed import untyped

from colonnade.numbers.field import FIELD63
from colonnade.protocols import sharing, verified_products
from colonnade.protocols import verified_rows as row_checks
from colonnade.runtime.party import Group, Party


def proving_short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dealer does not stop itself: its pads are made for rows in which every long part is zero."""
    begun = untyped(row_checks).RowProof.__init__

    def begin(self: Any, claims: Any, rows: Any, *, seeds: Any) -> None:
        start, short = 0, np.array(rows, dtype=np.int64)
        for claim in claims.claims:
            part = short[:, start : start + claim.columns]
            part[(part.astype(object) ** 2).sum(axis=1) > claim.norm_squared] = 0
            start += claim.columns
        begun(self, claims, short, seeds=seeds)

    monkeypatch.setattr(untyped(row_checks).RowProof, "__init__", begin)


def adding_to_products(
    monkeypatch: pytest.MonkeyPatch, liar: str, group: Group, *, place: int, value: int
) -> None:
    """A computing party adds to its product of one row before it reshares, whether that is checked or not."""
    at = group.computing_parties.index(liar)
    checked, unchecked = untyped(verified_products).share_elements, untyped(sharing).reshare

    def more(shape: tuple[int, ...]) -> np.ndarray:
        added = np.zeros(shape, dtype=np.int64)
        added[place] = value
        return added

    async def share_elements(party: Party, mine: Any, shapes: Any, **how: Any) -> Any:
        if party.name == liar:
            mine = mine + FIELD63.encode(more(mine.shape))
        return await checked(party, mine, shapes, **how)

    def reshare(scheme: Any, computing_party: Any, share: Any, randomness: Any) -> Any:
        if computing_party == at:
            # Its weight is −1 or ½.
            share = share + FIELD63.encode((-1, 2, 2)[at] * more(share.shape))
        return unchecked(scheme, computing_party, share, randomness)

    monkeypatch.setattr(verified_products, "share_elements", share_elements)
    monkeypatch.setattr(sharing, "reshare", reshare)
