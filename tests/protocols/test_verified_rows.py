"""Rows and resharings that are checked: honest runs are what they were, and whoever deviates is caught in time."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from lying_parties import adding_to_products, proving_short_rows
from training_specs import requested
from typed import there, untyped

from colonnade import Federation, Schema, Table
from colonnade.crypto.product_proof import MOST_ROWS, ProductClaim, ProductProof
from colonnade.crypto.sharing import Shamir
from colonnade.errors import ColonnadeError, GroupMismatch, LocalProtocolError, PlanError, RowsNotProved
from colonnade.ledger import Ledger, Release
from colonnade.methods.moments import protocol as moments
from colonnade.methods.moments.plan import MomentsOptions
from colonnade.methods.moments.protocol import moments_session
from colonnade.numbers.field import FIELD63, FieldArray
from colonnade.privacy.guarantee import account, epsilon_text
from colonnade.protocols import sharing, verified_products
from colonnade.protocols import verified_rows as challenges
from colonnade.protocols import verified_rows as row_checks
from colonnade.protocols.agreement import meet
from colonnade.protocols.assumptions import Verify, known_to_party
from colonnade.protocols.sharing import Shared, open_to, share, total
from colonnade.protocols.verified_products import reshare_products
from colonnade.protocols.verified_rows import verifiers_of
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_here
from colonnade.runtime.wire import Message

ROWS = 40
LABEL = '[label]\ncolumn = "buys"\nkind = "classes"\nclasses = ["no", "yes"]'


def numeric(*names: str) -> str:
    return 'id = "n"\n' + "\n".join(
        f'columns.{name} = {{kind = "numeric", low = 0, high = 9}}' for name in names
    )


def schema_for(party: str, names: list[str]) -> Schema:
    return Schema.parse(numeric(*(f"{party}{name}" for name in names)))


def federation(owners: int = 2, rows: int = ROWS, seed: int = 0) -> Federation:
    rng = np.random.default_rng(seed)
    buys = rng.choice(["yes", "no"], rows)
    bank = Table.from_arrays(
        "bank", {"age": rng.uniform(0, 9, rows), "buys": buys}, Schema.parse(f"{numeric('age')}\n{LABEL}")
    )
    others = [
        Table.from_arrays(
            f"shop{k}",
            {f"s{k}": rng.uniform(0, 9, rows), f"t{k}": rng.uniform(0, 9, rows)},
            Schema.parse(numeric(f"s{k}", f"t{k}")),
        )
        for k in range(1, owners)
    ]
    return Federation([bank, *others], budget=(1e4, 1e-5), timeout=20.0)


def release(owners: int = 2, verify: Any = None, **options: Any) -> Any:
    request = requested(MomentsOptions, "classification", 1.0, delta=1e-5, verify=verify)
    return federation(owners, **options).run(moments_session, request, record=True)


@pytest.fixture
def cheat(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Let somebody say something else at one step, to one member or to all; what comes back are the steps told."""

    def arrange(who: str, to: str | None, at: str, say: Callable[[Message], Message]) -> list[str]:
        told: list[str] = []
        for module in (row_checks, sharing):
            honest = module.tell

            async def tell(
                party: Party, peer: str, step: str, message: Message, honest: Any = honest
            ) -> None:
                told.append(step)
                lies = (party.name, step) == (who, at) and to in (None, peer)
                await honest(party, peer, step, say(message) if lies else message)

            monkeypatch.setattr(module, "tell", tell)
        return told

    return arrange


@pytest.fixture
def dealing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[np.ndarray], None]], None]:
    """Let an owner deal other rows than its own."""

    def arrange(owner: str, change: Callable[[np.ndarray], None]) -> None:
        honest = moments.integer_blocks

        def blocks(party: Any, table: Any, plan: Any) -> Iterator[Any]:
            for rows, mine in honest(party, table, plan):
                if party.name == owner:
                    mine = there(mine).copy()
                    change(mine)
                yield rows, mine

        monkeypatch.setattr(moments, "integer_blocks", blocks)
        proving_short_rows(monkeypatch)

    return arrange


def two_people(mine: np.ndarray) -> None:
    """Multipliers of two people that no sum of the others hides."""
    mine[:, 0] = 0
    mine[17, 0], mine[18, 0] = 1 << 33, 1 << 47


@pytest.mark.parametrize("owners", [2, 3, 4])
def test_a_checked_release_is_the_release(owners: int) -> None:
    run = release(owners, "rows")
    assert run.plan.verify == "rows"
    parts = [
        run.plan.quantizers[party].quantize(next(run.aligned[party].blocks(ROWS)))
        for party in run.plan.group.owners
    ]
    rows = np.concatenate(parts, axis=1).astype(object)
    extent = len(run.plan.group.owners) * run.plan.noise.support
    width = rows.shape[1]
    exact = rows.T @ rows
    assert max(abs(int(v)) for v in (run.result().matrix[:width, :width] - exact).ravel()) <= extent


def test_blocks_are_checked_one_by_one_by_two_keepers_other_than_the_dealer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("colonnade.methods.moments.plan.block_rows", lambda columns: 5)
    run = release()
    steps = {seen.step for seen in run.outcome.seen["server"] if "bits" in seen.step or "seed" in seen.step}
    assert {"columns 0, seed", "columns 1, seed", "columns 2, seed"} <= steps
    for owners in (2, 3, 4):
        group = Group.of(tuple(f"o{k}" for k in range(owners)))
        for owner in group.owners:
            pair = verifiers_of(group, owner)
            assert owner not in pair and set(pair) <= set(group.computing_parties)


def test_a_plan_names_what_is_checked_and_costs_hardly_more() -> None:
    group = Group.of(("bank", "shop1"), active="bank")
    schemas = tuple(table.public() for table in federation().tables.values())
    plans = [
        requested(MomentsOptions, task="classification", epsilon=1.0, verify=verify).plan(
            group, schemas, ROWS
        )
        for verify in ("none", "rows", "all", None)
    ]
    assert [plan.to_data()["verify"] for plan in plans] == ["none", "rows", "all", "rows"]
    assert len({plan.hash for plan in plans}) == 4
    noise = {verify: release(2, verify).plan.mu for verify in ("none", "rows")}
    assert noise["none"] <= noise["rows"] < noise["none"] * 101 / 100


def test_what_cannot_be_checked_is_refused_if_asked_for_and_left_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(GroupMismatch, match="t = 2"):
        release(5, "rows")
    assert release(5).plan.verify == "none"
    group = Group.of(("bank", "shop1"), active="bank")
    schemas = tuple(table.public() for table in federation().tables.values())
    fine: dict[str, Any] = {"task": "classification", "epsilon": 1.0}
    monkeypatch.setattr("colonnade.crypto.row_proofs.MOST_NORM", 1 << 20)
    assert requested(MomentsOptions, **fine).planned(group, schemas, 1 << 14).verify == "none"
    with pytest.raises(PlanError, match="smaller gamma, or verify = 'none'"):
        requested(MomentsOptions, **fine, verify="rows").planned(group, schemas, 1 << 14)


# --- attacks: each works on the unverified protocol
def test_a_bank_that_deals_long_rows_reads_two_people_where_nobody_checks(dealing: Any) -> None:
    dealing("bank", two_people)
    run = release(2, "none")
    plan, matrix = run.plan, run.result().matrix
    theirs = plan.quantizers["shop1"].quantize(next(run.aligned["shop1"].blocks(ROWS)))
    read = []
    for j in range(plan.widths["shop1"]):
        value = int(matrix[0, plan.widths["bank"] + j])
        high = round(value / 2**47)
        read.append((high, round((value - high * 2**47) / 2**33)))
    assert [high for high, _ in read] == theirs[18].tolist()
    assert [low for _, low in read] == theirs[17].tolist()
    assert run.privacy[1].epsilon <= 1.0, "and the run says that ε is 1"


@pytest.mark.parametrize("owners", [2, 3, 4])
def test_a_bank_that_deals_long_rows_is_stopped_before_anything_is_opened(dealing: Any, owners: int) -> None:
    dealing("bank", two_people)
    with pytest.raises(RowsNotProved) as stopped:
        release(owners, "rows")
    first, second = verifiers_of(Group.of(("bank", *(f"shop{k}" for k in range(1, owners)))), "bank")
    message = str(stopped.value)
    assert f"{second} at step 'columns 0': what bank dealt was not proved to {first} and {second}" in message
    assert "cannot be told which. Nothing that rests on it was opened" in message


def test_the_last_of_four_owners_who_keeps_no_share_is_stopped_too(dealing: Any) -> None:
    dealing("shop3", two_people)
    with pytest.raises(RowsNotProved, match="what shop3 dealt was not proved to bank and shop1"):
        release(4, "rows")


def altered(message: Message, name: str) -> Message:
    changed = np.array(message.arrays[name])
    changed[5] ^= 1
    return Message(message.fields, {**message.arrays, name: changed})


CHECKED = {
    "share": ("bank", "shop1", "columns 0", "share"),
    "pads": ("bank", "shop1", "columns 0, pads", "share"),
    "bits": ("bank", "shop1", "columns 0, bits", "bits"),
    "proof": ("bank", "shop1", "columns 0, proof", "proof"),
    "a lying verifier": ("server", "shop1", "columns 0, answer about bank", "answer"),
}


@pytest.mark.parametrize("which", CHECKED)
def test_one_altered_bit_of_anything_stops_the_run(cheat: Any, which: str) -> None:
    who, to, at, name = CHECKED[which]
    cheat(who, to, at, lambda message: altered(message, name))
    with pytest.raises(RowsNotProved, match="what bank dealt was not proved to server and shop1"):
        release()


def test_different_seeds_for_the_two_halves_stop_the_run(cheat: Any) -> None:
    cheat("bank", "server", "columns 0", lambda message: Message({"key": bytes(32)}))
    with pytest.raises(RowsNotProved):
        release()


@pytest.mark.parametrize("which", ["columns 0, bits", "columns 0, proof"])
def test_a_proof_of_an_earlier_run_stops_the_run(cheat: Any, which: str) -> None:
    kept: list[Message] = []

    def first(message: Message) -> Message:
        kept.append(message)
        return kept[0]

    cheat("bank", None, which, first)
    release()
    with pytest.raises(RowsNotProved):
        release()


def test_a_proof_for_other_rows_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows and pads that are dealt are short, and not those that the proof is about."""
    honest = untyped(row_checks).RowProof.proof

    def proof(self: Any, challenge: Any, second: Any) -> Any:
        self._rows = -self._rows
        return honest(self, challenge, second)

    monkeypatch.setattr(untyped(row_checks).RowProof, "proof", proof)
    with pytest.raises(RowsNotProved):
        release()


@pytest.mark.parametrize(
    ("liar", "step"),
    [
        ("server", "columns 0, challenge"),
        ("shop1", "columns 0, challenge"),
        ("shop1", "columns 0, second challenge about bank"),
    ],
)
def test_a_verifier_that_tells_dealer_and_verifier_different_challenges_gets_no_answer(
    cheat: Any, liar: str, step: str
) -> None:
    """The answer to another question than was proved would be an equation in the other's rows."""
    sent = cheat(liar, "bank", step, lambda message: Message({"nonce": bytes(32)}))
    with pytest.raises(RowsNotProved, match="they were not told the same challenges"):
        release()
    assert "columns 0, answer about bank" not in sent or liar == "server"


def test_a_dealer_hears_no_challenge_before_it_has_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[tuple[str, str]] = []
    announced = untyped(challenges).tell

    async def tell(party: Party, to: str, step: str, message: Any) -> None:
        order.append((party.name, step))
        await announced(party, to, step, message)

    monkeypatch.setattr(challenges, "tell", tell)
    release()
    seeds = [i for i, (name, step) in enumerate(order) if step == "columns 0, seed" and name == "bank"]
    nonces = [i for i, (name, step) in enumerate(order) if step == "columns 0, challenge" and name == "shop1"]
    assert max(seeds) < min(nonces)


def test_every_attempt_is_charged_and_ends_alike_whatever_the_rows_are(cheat: Any) -> None:
    """A verifier that stops runs on purpose learns that they stopped, and each attempt is paid for."""
    cheat("server", None, "columns 0, answer about bank", lambda message: altered(message, "answer"))
    messages = set()
    for seed in (1, 2, 3):
        parties = federation(seed=seed)
        left = []
        for _ in range(2):
            with pytest.raises(RowsNotProved) as stopped:
                parties.run(moments_session, requested(MomentsOptions, "classification", 1.0, delta=1e-5))
            messages.add(str(stopped.value))
            left.append(min(total.left for total in parties.ledgers["shop1"].totals()))
        assert left[1] < left[0] < 1e4
    assert len(messages) == 1


def test_parties_are_told_what_they_learn_with_a_part_of_the_noise_missing() -> None:
    checked, unchecked = release(3, "rows"), release(3, "none")
    party = next(i for i, stated in enumerate(checked.privacy) if "Party" in str(stated))
    assert checked.privacy[party].epsilon > unchecked.privacy[party].epsilon
    assert checked.privacy[0].epsilon <= 1.0
    assert known_to_party(checked.plan.group, "rows") == 2
    assert known_to_party(Group.of(("a", "b")), "rows") == 1
    # Two of three parts are known or missing to the server and to a party: half of the whole is left.
    plan = release(2, "rows").plan
    owner = plan.group.owners[0]
    for view, event, who in (
        (plan.views[0], plan.zeroed(2), "an owner"),
        (plan.views[2], plan.others_replaced(owner, 2), "the server"),
    ):
        cost = account(event, plan.delta).epsilon
        assert f"(if {who} deals no noise, ε = {epsilon_text(cost)})" in view.assumption
        assert cost > account(view.event, plan.delta).epsilon
    # Readers do without one part of anybody's.
    assert "deals no noise" not in plan.views[1].assumption


def test_a_dealer_that_adds_no_noise_leaves_readers_what_they_were_promised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the three parts of two owners and a server two are the whole; a part more missing would be half of it.

    The variance of some 7,000 entries is within 12 %, false alarm below 1e-9.
    """
    honest = moments.noise_part
    columns = [f"c{i}" for i in range(60)]
    arrays = {name: np.full(ROWS, 4.5) for name in columns}
    tables = [
        Table.from_arrays(party, {f"{party}{c}": v for c, v in arrays.items()}, schema_for(party, columns))
        for party in ("bank", "shop")
    ]
    for silent, parts in ((("bank",), 2), (("bank", "server"), 1)):
        monkeypatch.setattr(
            moments,
            "noise_part",
            lambda party, plan, silent=silent: honest(party, plan) * (party.name not in silent),
        )
        run = Federation(tables, budget=(1e4, 1e-5), timeout=20.0).run(
            moments_session, requested(MomentsOptions, "pca", 1.0, delta=1e-5, verify="none"), record=False
        )
        plan, matrix = run.plan, run.result().matrix
        rows = np.concatenate(
            [
                plan.quantizers[party].quantize(next(run.aligned[party].blocks(ROWS)))
                for party in ("bank", "shop")
            ],
            axis=1,
        )
        noise = (matrix[:120, :120] - rows.T @ rows)[np.triu_indices(120, 1)]
        # Off the diagonal the variance is half, and μ is half of the whole one on it.
        assert np.var(noise.astype(float)) == pytest.approx(
            float(plan.mu) * parts / plan.group.whole, rel=0.12
        )


def test_shares_off_the_line_make_a_column_noise_and_read_nothing(cheat: Any) -> None:
    """A dealer that keeps no share gives the third computing party, who does not check it, something else."""
    cheat("shop3", "shop2", "columns 0", lambda message: altered(message, "share"))
    run = release(4, "rows")
    size = run.plan.size
    column = np.abs(run.result().matrix[: size // 3].astype(object))
    assert run.plan.verify == "rows" and column.max() > run.plan.rows * run.plan.gamma**2


def test_whatever_stops_a_check_is_an_error_with_a_remedy(cheat: Any) -> None:
    cheat("bank", None, "columns 0, seed", lambda message: Message({"nonce": b"short"}))
    with pytest.raises(ColonnadeError, match="expected 'nonce' to be 32 bytes"):
        release()


# Resharings: a computing party that adds to its product reads a row, unless the other two check it.


GROUP = Group.of(("bank", "shop"))
SCHEME = Shamir(3, FIELD63)
RNG = np.random.default_rng(2)
LENGTH = 70
LEFT, RIGHT = RNG.integers(-500, 500, (LENGTH, 3)), RNG.integers(-500, 500, (LENGTH, 3))
WEIGHTS = RNG.integers(-500, 500, (LENGTH, 1))


async def gradient(party: Party, _table: object, verify: Verify) -> np.ndarray | None:
    """Σ_i ⟨p_i, q_i⟩ w_i with noise of degree 2t: a product of three factors, with one resharing."""
    await meet(party)
    deal: dict[str, Any] = {"scheme": SCHEME, "degree": 1}
    mine = {"bank": LEFT, "shop": RIGHT}.get(party.name)
    dealt = await share(party, mine, {"bank": (LENGTH, 3), "shop": (LENGTH, 3)}, step="factors", **deal)
    weights = await share(
        party, WEIGHTS if party.name == "shop" else None, {"shop": (LENGTH, 1)}, step="weights", **deal
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


def test_factors_of_another_degree_are_refused() -> None:
    assert ProductClaim(16384, 48, -1, 0, (1, -1)).algebraic_bits >= 76
    assert ProductClaim(MOST_ROWS, 1, -1, 0, (1, -1)).rows == MOST_ROWS
    for rows, verifiers in ((10, (0, -1)), (MOST_ROWS + 1, (1, -1)), (0, (1, -1))):
        with pytest.raises(ValueError, match="three computing parties at different points"):
            ProductClaim(rows, 1, -1, 0, verifiers)

    async def wrong(party: Party, _table: object) -> None:
        await meet(party)
        value = Shared(None, (1, 1), 2)
        await reshare_products(party, value, value, scheme=SCHEME, verify="all", step="products")

    desks = {name: PartyInputs(Ledger.in_memory(name), None, dataset=name) for name in GROUP.members}
    with pytest.raises(LocalProtocolError, match="one shape and degree t"):
        run_here(wrong, GROUP, desks, timeout=20.0)


def test_a_keeper_that_adds_to_its_product_reads_a_row_where_nobody_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    adding_to_products(monkeypatch, "bank", GROUP, place=5, value=1 << 48)
    assert (opened("rows") - TRUE) / 2**48 == WEIGHTS[5, 0]


@pytest.mark.parametrize("liar", ["bank", "shop", "server"])
def test_a_keeper_that_adds_to_its_product_is_stopped_before_anything_is_opened(
    monkeypatch: pytest.MonkeyPatch, liar: str
) -> None:
    adding_to_products(monkeypatch, liar, GROUP, place=5, value=1 << 48)
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
