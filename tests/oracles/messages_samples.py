"""Small federations for the tests of noisy messages, and one party against a scripted peer."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from training_specs import requested
from typed import untyped

from colonnade.data.kinds import NumericColumn
from colonnade.data.labels import ClassLabel, CountLabel, Label, RealLabel
from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.errors import LabelMismatch
from colonnade.ledger import Ledger
from colonnade.methods.glm.losses import LOSSES, Loss, Penalty
from colonnade.methods.messages.plan import PrivateMessagesOptions, PrivateMessagesPlan
from colonnade.methods.messages.protocol import private_messages_results
from colonnade.protocols.agreement import charge_first, meet
from colonnade.protocols.alignment import align
from colonnade.protocols.messages import hear, tell
from colonnade.protocols.plans import TrainingSpec
from colonnade.protocols.session import agreed_rows
from colonnade.randomness import SeededRandomness
from colonnade.runtime.party import Party
from colonnade.runtime.run import PartyInputs, run_here
from colonnade.runtime.wire import Message

NAMES = ("clinic", "bank", "shop", "school")
KINDS: tuple[Label, ...] = (
    ClassLabel("y", ("no", "yes")),
    RealLabel("y", low=-2, high=2),
    CountLabel("y", low=0, high=4),
    RealLabel("y", low=0.5, high=8),
)


def first_fitting(loss: Loss) -> Label:
    for label in KINDS:
        with suppress(LabelMismatch):
            loss.check(label)
            return label
    raise LookupError(f"KINDS has no label that fits the loss {loss.name}")


# Of all losses there are, so that one that is added is tested too.
LABELS = {name: first_fitting(loss) for name, loss in LOSSES.items()}


def labels(loss: str, rows: int, generator: np.random.Generator) -> NDArray[Any]:
    label = untyped(LABELS[loss])
    if label.classes:
        return np.array(label.classes)[generator.integers(0, 2, rows)]
    if isinstance(label, CountLabel):
        return generator.integers(0, 5, rows).astype(float)
    return generator.uniform(label.low, label.high, rows)


def tables(
    rows: int, *, loss: str = "logistic", widths: tuple[int, ...] = (2, 3), seed: int = 0
) -> list[Table]:
    generator = np.random.default_rng(seed)
    made = []
    for name, width in zip(NAMES, widths, strict=False):
        columns = tuple(NumericColumn(f"{name}{i}", low=-1, high=1) for i in range(width))
        arrays = {column.name: generator.uniform(-1, 1, rows) for column in columns}
        label = LABELS[loss] if name == NAMES[0] else None
        if label is not None:
            arrays["y"] = labels(loss, rows, generator)
        made.append(Table.from_arrays(name, arrays, Schema("row", columns, untyped(label))))
    return made


def request(loss: str = "logistic", **changes: Any) -> TrainingSpec:
    settings: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "penalty": Penalty(l2=0.01), **changes}
    if changes.get("calibration", "sound") != "sound":
        settings.setdefault("public", NAMES)
    return requested(PrivateMessagesOptions, LOSSES[loss].task, loss=loss, **settings)


def against(
    owner: str,
    table: Table,
    others: dict[str, Table],
    plan: PrivateMessagesPlan,
    script: Callable[..., Any],
    *,
    seed: int = 1,
) -> Any:
    """The messages that one honest owner sends while its peers say what the script says.

    `script(sender, step)` gives the integers a peer sends. Noise comes from a seed, so that two runs differ in their
    messages exactly as they differ in what they hide.
    """
    sent = []

    async def program(party: Party, own: Table | None) -> Any:
        await meet(party)
        aligned = await align(party, own, "equal")
        await agreed_rows(party, aligned)
        if party.name == owner:
            return await private_messages_results(party, aligned, plan)
        await charge_first(party, plan.release(party.name, run=party.run, reproducible=party.seeded))
        if not party.owns_columns:
            return None
        for step, rows in plan.batches():
            size = rows.stop - rows.start
            mine = Message(arrays={"values": script(party.name, step)[:size]})
            if party.name == plan.active:
                for passive in plan.passive:
                    heard = await hear(party, passive, f"scores {step}")
                    if passive == owner:
                        sent.append(heard.arrays["values"].copy())
                for passive in plan.passive:
                    await tell(party, passive, f"residuals {step}", mine)
            else:
                await tell(party, plan.active, f"scores {step}", mine)
                heard = await hear(party, plan.active, f"residuals {step}")
                if owner == plan.active and party.name == plan.passive[0]:
                    sent.append(heard.arrays["values"].copy())
        return None

    desks = {}
    for member in plan.group.members:
        ledger = Ledger.in_memory(member)
        ledger.set_budget("data", "*", "*", epsilon=1e6, delta=0.5)
        own = table if member == owner else others.get(member)
        desks[member] = PartyInputs(ledger, own, dataset="data", randomness=SeededRandomness(seed))
    outcome = run_here(program, plan.group, desks)
    return sent, outcome.results[owner]
