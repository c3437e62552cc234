"""Resharings that are proved: a computing party that adds to its product reads a row, unless the other two check it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lying_parties import adding_to_products
from plain_kernels import plain_numpy
from typed import untyped

from colonnade.crypto.product_proof import ProductClaim, ProductProof
from colonnade.crypto.sharing import Shamir
from colonnade.errors import LocalProtocolError, RowsNotProved
from colonnade.ledger import Ledger, Release
from colonnade.numbers.field import FIELD63, FieldArray
from colonnade.protocols import verified_products
from colonnade.protocols.agreement import meet
from colonnade.protocols.assumptions import Verify
from colonnade.protocols.sharing import Shared, open_to, share, total
from colonnade.protocols.verified_products import reshare_products
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_here

GROUP = Group.of(("bank", "shop"))
SCHEME = Shamir(3, FIELD63)
RNG = np.random.default_rng(2)
ROWS = 70
LEFT, RIGHT = RNG.integers(-500, 500, (ROWS, 3)), RNG.integers(-500, 500, (ROWS, 3))
WEIGHTS = RNG.integers(-500, 500, (ROWS, 1))


async def gradient(party: Party, _table: object, verify: Verify) -> np.ndarray | None:
    """Σ_i ⟨p_i, q_i⟩ w_i with noise of degree 2t: a product of three factors, with one resharing."""
    await meet(party)
    deal: dict[str, Any] = {"scheme": SCHEME, "degree": 1}
    mine = {"bank": LEFT, "shop": RIGHT}.get(party.name)
    dealt = await share(party, mine, {"bank": (ROWS, 3), "shop": (ROWS, 3)}, step="factors", **deal)
    weights = await share(
        party, WEIGHTS if party.name == "shop" else None, {"shop": (ROWS, 1)}, step="weights", **deal
    )
    product = await reshare_products(
        party, dealt["bank"], dealt["shop"], scheme=SCHEME, verify=verify, step="products"
    )
    local = None
    if product.share is not None and weights["shop"].share is not None:
        local = product.share.transpose_times(weights["shop"].share)
    noise = np.zeros((1, 1), dtype=np.int64) if party.owns_columns else None
    noises = await share(
        party, noise, dict.fromkeys(GROUP.owners, (1, 1)), scheme=SCHEME, degree=2, step="noise"
    )
    release = Release("r/x", "r", "plan", "a test", "server", (), False)
    value = Shared(local, (1, 1), 2) + total(noises.values())
    return await open_to(party, "server", value, scheme=SCHEME, release=release, step="open")


def opened(verify: Verify) -> int:
    desks = {}
    for name in GROUP.members:
        ledger = Ledger.in_memory(name)
        ledger.set_budget(name, "*", "*", epsilon=10.0, delta=1e-9)
        desks[name] = PartyInputs(ledger, None, dataset=name)
    return int(run_here(gradient, GROUP, desks, verify, timeout=20.0).results["server"][0, 0])


TRUE = int(((LEFT * RIGHT).sum(axis=1, keepdims=True) * WEIGHTS).sum())


@pytest.mark.parametrize("verify", ["none", "rows", "all"])
def test_a_proved_product_is_the_product(verify: Verify) -> None:
    assert opened(verify) == TRUE


def test_plain_loops_prove_products_and_factors_of_another_degree_are_refused() -> None:
    with plain_numpy():
        assert opened("all") == TRUE
    assert ProductClaim(16384, 48, -1, 0, (1, -1)).algebraic_bits >= 76
    with pytest.raises(ValueError, match="three computing parties at different points"):
        ProductClaim(10, 1, -1, 0, (0, -1))

    async def wrong(party: Party, _table: object) -> None:
        await meet(party)
        value = Shared(None, (1, 1), 2)
        await reshare_products(party, value, value, scheme=SCHEME, verify="all", step="products")

    desks = {name: PartyInputs(Ledger.in_memory(name), None, dataset=name) for name in GROUP.members}
    with pytest.raises(LocalProtocolError, match="one shape and degree t"):
        run_here(wrong, GROUP, desks, timeout=20.0)


@pytest.fixture
def adding(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A computing party adds 2^48 to its product of one row before it reshares, and says that it did not."""
    return lambda liar: adding_to_products(monkeypatch, liar, GROUP, place=5, value=1 << 48)


def test_a_keeper_that_adds_to_its_product_reads_a_row_where_nobody_checks(adding: Any) -> None:
    adding("bank")
    assert (opened("rows") - TRUE) / 2**48 == WEIGHTS[5, 0]


@pytest.mark.parametrize("liar", ["bank", "shop", "server"])
def test_a_keeper_that_adds_to_its_product_is_stopped_before_anything_is_opened(
    adding: Any, liar: str
) -> None:
    adding(liar)
    others = [computing_party for computing_party in GROUP.computing_parties if computing_party != liar]
    with pytest.raises(
        RowsNotProved, match=f"what {liar} dealt was not proved to {others[0]} and {others[1]}"
    ):
        opened("all")


@pytest.mark.parametrize("which", ["proof", "answer"])
def test_an_altered_proof_or_answer_stops_the_run(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    class Altered(ProductProof):
        def proof(self, challenge: Any) -> Any:
            return _changed(super().proof(challenge))

    honest = untyped(verified_products).answer
    if which == "proof":
        monkeypatch.setattr(verified_products, "ProductProof", Altered)
    else:
        monkeypatch.setattr(verified_products, "answer", lambda *a, **k: _changed(honest(*a, **k)))
    with pytest.raises(RowsNotProved):
        opened("all")


def _changed(words: FieldArray) -> FieldArray:
    changed = words.words.copy()
    changed.reshape(-1)[3] ^= np.uint64(1)
    return FieldArray(FIELD63, changed)
