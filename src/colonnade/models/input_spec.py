"""What a model needs to read people with: the declared columns of all parties, and the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.encoder import Encoder
from colonnade.data.labels import LabelBlock
from colonnade.errors import ModelError
from colonnade.models.columns import Rows, column_names, feature_names, feature_rows


@dataclass(frozen=True)
class InputSpec:
    """Encoders by party and the label's declaration: public, and enough to encode raw rows anywhere.

    `attributes` is m, by whose root features are divided; by default as many as the encoders have.
    """

    encoders: tuple[tuple[str, Encoder], ...]
    label: LabelBlock
    attributes: int = 0

    def __post_init__(self) -> None:
        declared = sum(encoder.attributes for _, encoder in self.encoders)
        object.__setattr__(self, "attributes", self.attributes or declared)

    @classmethod
    def joined(cls, parts: Sequence[InputSpec], label: LabelBlock) -> InputSpec:
        """Parts of one frame beside each other again; refused where one of them is not here."""
        encoders = tuple(pair for part in parts for pair in part.encoders)
        attributes = parts[0].attributes
        here = sum(encoder.attributes for _, encoder in encoders)
        if here < attributes:
            raise ModelError(
                f"the model reads {attributes} columns, but the parts found here, of "
                f"{', '.join(party for party, _ in encoders)}, read {here} of them: a party's part is missing. "
                "Give the whole folder of the run."
            )
        return cls(encoders, label, attributes)

    @property
    def columns(self) -> int:
        """How many features a row has, the label not counted."""
        return sum(encoder.width for _, encoder in self.encoders)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return feature_names(self.encoders)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The raw columns that `features` reads; one that two parties use is written party.column."""
        return column_names(self.encoders)

    @property
    def owners(self) -> tuple[str, ...]:
        return tuple(party for party, encoder in self.encoders for _ in encoder.feature_names)

    def features(self, rows: Rows) -> NDArray[np.float64]:
        """People as rows of features: raw columns by name are encoded, encoded rows are checked."""
        return feature_rows(rows, self.encoders, attributes=self.attributes)
