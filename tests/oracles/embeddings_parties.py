"""Parties for the tests of embeddings: networks without PyTorch, whose numbers can be worked out by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plan_runs import inputs_for
from training_specs import requested, table_of

from colonnade.data.schema import PublicSchema
from colonnade.data.table import AlignedTable, Table
from colonnade.ledger import Ledger
from colonnade.methods.network.plan import NetworkOptions, NetworkPlan
from colonnade.methods.network.protocol import PartyModels, TrainedEmbeddings, embeddings_session
from colonnade.protocols.plans import TrainingSpec
from colonnade.runtime.journal import Journal, ReplayRandomness, ResumedLedger
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import Outcome, PartyInputs, run_here

EVERYBODY_PUBLIC = requested(NetworkOptions, epsilon=1.0, delta=1e-5, regime="paper", public=("everybody",))
LABEL = '[label]\ncolumn = "y"\nkind = "classes"\nclasses = ["0", "1"]\n'


def numeric(*names: str) -> str:
    return 'id = "n"\n' + "".join(
        f'columns.{name} = {{kind = "numeric", low = -1, high = 1}}\n' for name in names
    )


def tables_for(
    rows: int = 24, parties: int = 3, *, holder_has_columns: bool = True, label: str = LABEL, seed: int = 0
) -> list[Table]:
    """One column each; the label holder is "h"."""
    generator = np.random.default_rng(seed)
    values = {f"p{party}": generator.uniform(-1, 1, rows) for party in range(parties - holder_has_columns)}
    labels = generator.integers(0, 2, rows)
    columns = {"x": generator.uniform(-1, 1, rows)} if holder_has_columns else {}
    holder = table_of("h", columns, label, labels)
    return [holder, *(table_of(party, {"x": x}) for party, x in values.items())]


def group_of(tables: list[Table]) -> Group:
    return Group.of(tuple(table.party for table in tables), active="h")


def schemas_of(tables: list[Table]) -> tuple[PublicSchema, ...]:
    return tuple(table.public() for table in tables)


@dataclass
class Line:
    """h(x) = clip(w·x) in every coordinate: a network with one weight for each of P coordinates."""

    features: np.ndarray
    embedding: int
    weights: Any = None
    fails_at: int = -1
    embedded: list[Any] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        if self.weights is None:
            self.weights = np.linspace(0.5, 1.0, self.embedding)

    @property
    def parameters(self) -> int:
        return self.embedding

    def embed(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        if len(self.embedded) == self.fails_at:
            raise ConnectionError("the machine of this party lost its power")
        self.embedded.append(np.array(rows))
        return np.asarray(np.clip(self.features[rows, :1] * self.weights, -1, 1))

    def clipped_sum(
        self, rows: NDArray[np.int64], gradient: NDArray[np.float32], *, clip: float, grid: int
    ) -> NDArray[np.int64]:
        per_row = self.features[rows, :1] * gradient
        norms = np.linalg.norm(per_row, axis=1, keepdims=True)
        clipped = per_row * np.minimum(1, clip / np.maximum(norms, 1e-12))
        return np.asarray((clipped * (grid * 0.999 / clip)).astype(np.int64).sum(axis=0))

    def plain_sum(self, rows: NDArray[np.int64], gradient: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.asarray((self.features[rows, :1] * gradient).sum(axis=0))

    def step(self, direction: NDArray[np.float64]) -> None:
        self.weights = self.weights - 0.1 * np.asarray(direction, dtype=np.float64)


@dataclass
class Recorder:
    """A fusion model that writes down what it is given and returns a gradient that can be told apart."""

    targets: np.ndarray
    seen: list[Any] = field(default_factory=list[Any])
    looked: list[Any] = field(default_factory=list[Any])
    stops_after: int = 10**9

    def labels(self) -> NDArray[np.float64]:
        return self.targets

    def learn(
        self, rows: NDArray[np.int64], sums: NDArray[np.float64], targets: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        self.seen.append((np.array(rows), np.array(sums), np.array(targets)))
        return np.asarray(sums) * 0.01 - targets[:, :1]

    def look(self, rows: NDArray[np.int64], sums: NDArray[np.float64], targets: NDArray[np.float64]) -> None:
        self.looked.append((np.array(rows), np.array(sums), np.array(targets)))

    def goes_on(self, epoch: int) -> bool:
        return epoch + 1 < self.stops_after


def brings(
    request: TrainingSpec,
    *,
    fails: tuple[()] | list[tuple[str, int]] = (),
    width: int | None = None,
    fusion: Recorder | None = None,
) -> Callable[..., Any]:
    """What each party brings; `fails` are (party, step) at which it stops."""
    stops = dict(fails)

    def for_party(name: str) -> Callable[..., Any]:
        def bring(aligned: AlignedTable | None, plan: NetworkPlan) -> PartyModels:
            if aligned is None:
                return PartyModels()
            (block,) = aligned.blocks(plan.rows)
            contributor: Line | None = None
            mine: Recorder | None = None
            if name in plan.contributors:
                size, stop = width or plan.options.embedding, stops.get(name, -1)
                contributor = Line(plan.encoders[name].encode(block), size, fails_at=stop)
            if name == plan.receiver:
                mine = fusion or Recorder(np.where(block.label == 1, 1.0, -1.0)[:, None])
            return PartyModels(contributor, mine)

        return bring

    return for_party


def desks_for(
    tables: list[Table],
    *,
    epsilon: float = 1e6,
    ledgers: dict[str, Ledger] | None = None,
    journals: dict[str, Journal] | None = None,
) -> dict[str, PartyInputs]:
    group = group_of(tables)
    books: dict[str, Any] = {
        name: (ledgers or {}).get(name) or Ledger.in_memory(name) for name in group.members
    }
    for table in tables:
        books[table.party].set_budget(table.party, "*", "*", epsilon=epsilon, delta=1e-5)
    desks = inputs_for(group, tables, books)
    for name, journal in (journals or {}).items():
        book = ResumedLedger(books[name]) if journal.resumed else books[name]
        desks[name] = replace(desks[name], ledger=book, randomness=ReplayRandomness(journal.key))
    return desks


def run(
    tables: list[Table],
    request: TrainingSpec,
    *,
    bring: Callable[..., Any] | None = None,
    journals: Any = None,
    record: bool = False,
    **how: Any,
) -> Outcome:
    bring = bring or brings(request)

    async def session(party: Party, table: Table | None, requested: TrainingSpec) -> TrainedEmbeddings:
        return await embeddings_session(party, table, requested, bring(party.name))

    desks = desks_for(tables, journals=journals, **how)
    try:
        return run_here(
            session, group_of(tables), desks, request, record=record, timeout=20.0, journals=journals
        )
    finally:
        for journal in (journals or {}).values():
            journal.close()
