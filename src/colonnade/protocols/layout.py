"""How the columns of all parties become integers on one grid, for plans that put them there."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from colonnade.data.encoder import Encoder
from colonnade.data.labels import LabelBlock, LabelBlocks
from colonnade.data.number_codes import Mode
from colonnade.data.quantizer import Quantizer, Rounding
from colonnade.data.schema import PublicSchema
from colonnade.runtime.group import Group


class Layout:
    """Encoders, label and quantizers of a plan, from its schemas, its coding and its grid 1/γ.

    Features of all parties share a norm of γ: with m attributes in all, x is divided by √m, and c_q² = m_q/m is party
    q's part of it.
    """

    group: Group
    schemas: tuple[PublicSchema, ...]
    gamma: int

    constants: ClassVar[int] = 0
    """How many constants beside the columns share that norm."""

    @property
    def mode(self) -> Mode:
        """How numbers become features: on a circle, which lifts every classifier."""
        return "circle"

    @property
    def rows_rounded(self) -> Rounding:
        return "nearest"

    @cached_property
    def encoders(self) -> dict[str, Encoder]:
        return {schema.party: schema.encoder(self.mode) for schema in self.schemas}

    @cached_property
    def label(self) -> LabelBlock:
        """The label's declaration; a constant where there is no label to learn."""
        return LabelBlock(next((schema.label for schema in self.schemas if schema.label is not None), None))

    @cached_property
    def labels(self) -> LabelBlocks:
        """The blocks of all labels that are learnt: one, unless a plan takes several."""
        return LabelBlocks((self.label,))

    @property
    def label_holder(self) -> str:
        declared = (schema.party for schema in self.schemas if schema.label is not None)
        return next(declared, self.group.owners[0])

    @property
    def attributes(self) -> int:
        return sum(encoder.attributes for encoder in self.encoders.values()) + self.constants

    @property
    def widths(self) -> dict[str, int]:
        return {
            party: encoder.width + (self.constants if party == self.label_holder else 0)
            for party, encoder in self.encoders.items()
        }

    @property
    def constant(self) -> int:
        """The integer that stands for "one" beside features: ⌊γ/√m⌋."""
        return math.isqrt(self.gamma**2 // self.attributes)

    @cached_property
    def quantizers(self) -> dict[str, Quantizer]:
        """How each owner turns its rows into integers, with the cap c_q² = m_q/m."""
        return {
            party: Quantizer(
                encoder,
                attributes_total=self.attributes,
                gamma=self.gamma,
                cap_squared=Fraction(encoder.attributes, self.attributes),
                rounding=self.rows_rounded,
            )
            for party, encoder in self.encoders.items()
        }

    @property
    def bounds(self) -> dict[str, int]:
        """The integer that the squared norm of each owner's part of a row never exceeds."""
        return {party: quantizer.norm_squared_bound for party, quantizer in self.quantizers.items()}

    def layout_data(self) -> dict[str, Any]:
        return {
            "gamma": self.gamma,
            "mode": self.mode,
            "rounding": self.rows_rounded,
            "label": self.label.to_data(),
            "label_holder": self.label_holder,
            "bounds": self.bounds,
        }
