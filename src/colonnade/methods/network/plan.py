"""Everything the parties agree on before a network is trained on sums of embeddings. It touches no data.

After PBM-VFL: every owner of columns maps its part of a record to P numbers in [−C, C], quantises each with the Poisson
binomial mechanism, and a secure sum shows the label holder the totals, from which it trains the fusion model. Three
regimes say what is protected:

* ``frozen``: local networks are public or random and never learn. A record is released once, the fusion model learns
  from the noisy sums as long as it likes, nothing is sent back. Sound.
* ``private-local``: local networks learn from the returned gradient with clipped, noised steps (DP-SGD), whose cost is
  added; the gradient is computed from labels that were randomised once. Sound end to end.
* ``paper``: as published, on public data only. What is said of it is per embedding release, not end to end, because a
  record also acts through the networks that it trained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from colonnade.ledger import LedgerLine
from colonnade.methods.network.terms import EmbeddingsTerms
from colonnade.methods.network.views import costs_of, lines_of, views_of
from colonnade.privacy.guarantee import Guarantee, View
from colonnade.protocols.agreement import digest


@dataclass(frozen=True)
class EmbeddingsPlan(EmbeddingsTerms):
    """The terms of a training run, and what it is to each observer. Made by `EmbeddingsRequest`."""

    protocol = "embeddings"
    charged_as = "embeddings"
    published = False

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What the run is to each observer: `colonnade.methods.network.views`."""
        return views_of(self)

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """One statement per view. The paper's regime has none."""
        return costs_of(self.views, self.delta) if self.regime != "paper" else ()

    @property
    def statement(self) -> str:
        labels = (
            "gradients are computed from randomised labels"
            if self.label_noise is not None
            else "the returned gradient shows labels to every party"
        )
        return {
            "frozen": "frozen: local networks are public or random, only the fusion model learns, and nothing is sent "
            "back. What is stated holds end to end. Labels do not leave their holder.",
            "private-local": "private-local: local networks learn with clipped and noised steps, and gradients are "
            "computed from randomised labels. What is stated holds end to end.",
            "paper": "paper: per-embedding release, not end to end. Local networks learn from exact gradients, so that "
            f"a record also acts on every later embedding, and {labels}. "
            "Public data only; paper formula, not a guarantee.",
        }[self.regime]

    @property
    def what(self) -> str:
        return (
            f"sums of {self.embedding} embedding coordinates, {self.passes} time(s) a record ({self.regime})"
        )

    @property
    def shown_to(self) -> tuple[str, ...]:
        """The label holder, and where gradients go back everybody who gets them."""
        return self.group.owners if self.learns_locally else (self.receiver,)

    @property
    def is_published(self) -> bool:
        """How many epochs were run is told to everybody, and held-out people decide it where networks learn."""
        return self.learns_locally and self.held_out > 0

    def receiver_for(self, party: str) -> str:
        return self.receiver

    def lines_for(self, party: str) -> tuple[LedgerLine, ...]:
        """The lines about a party's own part and about whole records; in the paper's regime nothing is claimed."""
        return lines_of(self, party) if self.regime != "paper" else ()

    def own_data(self) -> dict[str, Any]:
        first = next(self.batches(0)).rows
        return {
            "task": self.task,
            "regime": self.regime,
            "mechanism": self.mechanism,
            "epsilon": None if math.isinf(self.epsilon) else self.epsilon,
            "embedding": self.embedding,
            "bound": self.bound,
            "trials": self.trials,
            "beta": str(self.beta),
            "local_variance": str(self.local_variance),
            "update_variance": str(self.update_variance),
            "label_trials": self.label_trials,
            "label_beta": str(self.label_beta),
            "batch": self.batch,
            "epochs": self.epochs,
            "held_out": self.held_out,
            "clip": self.clip,
            "parameters": self.parameters,
            "gradient_bits": self.gradient_bits,
            "order_seed": self.order_seed,
            "first_batch": digest([int(row) for row in first]),
            "coalitions": [list(members) for members in self.coalitions],
        }
