"""From an organisation's own files to integers with declared bounds; names are loaded when one is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colonnade.data.block import Block, ClippingLog
    from colonnade.data.declaring import Spelling
    from colonnade.data.encoder import Encoder, Quantizer
    from colonnade.data.kinds import Column, DateColumn, NumericColumn
    from colonnade.data.labels import ClassLabel, CountLabel, Label, LabelBlock, RealLabel
    from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
    from colonnade.data.schema import PublicSchema, Schema
    from colonnade.data.table import AlignedTable, Table

__all__ = [
    "AlignedTable",
    "BinaryColumn",
    "BinnedColumn",
    "Block",
    "CategoricalColumn",
    "ClassLabel",
    "ClippingLog",
    "Column",
    "CountLabel",
    "DateColumn",
    "Encoder",
    "Label",
    "LabelBlock",
    "NumericColumn",
    "PublicSchema",
    "Quantizer",
    "RealLabel",
    "Schema",
    "Spelling",
    "Table",
]


def __getattr__(name: str) -> object:
    """A name on its first use (PEP 562); all of them are then there."""
    if name not in __all__:
        raise AttributeError(f"module 'colonnade.data' has no attribute {name!r}")
    global AlignedTable, Block, ClippingLog, Encoder, LabelBlock, Quantizer, Spelling, Table
    global BinaryColumn, BinnedColumn, CategoricalColumn, Column, DateColumn, NumericColumn
    global ClassLabel, CountLabel, Label, PublicSchema, RealLabel, Schema
    from colonnade.data.block import Block, ClippingLog
    from colonnade.data.declaring import Spelling
    from colonnade.data.encoder import Encoder, Quantizer
    from colonnade.data.kinds import Column, DateColumn, NumericColumn
    from colonnade.data.labels import ClassLabel, CountLabel, Label, LabelBlock, RealLabel
    from colonnade.data.levels import BinaryColumn, BinnedColumn, CategoricalColumn
    from colonnade.data.schema import PublicSchema, Schema
    from colonnade.data.table import AlignedTable, Table

    value: object = globals()[name]
    return value
