"""From an organisation's own files to integers with declared bounds."""

from colonnade.data.aligned import AlignedTable
from colonnade.data.block import Block
from colonnade.data.clipping import ClippingLog
from colonnade.data.columns import (
    BinaryColumn,
    BinnedColumn,
    CategoricalColumn,
    Column,
    DateColumn,
    NumericColumn,
)
from colonnade.data.encoding import Encoder
from colonnade.data.label import LabelBlock
from colonnade.data.quantizer import Quantizer
from colonnade.data.schema import PublicSchema, Schema
from colonnade.data.spelling import Spelling
from colonnade.data.table import Table
from colonnade.data.targets import ClassLabel, CountLabel, Label, RealLabel

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
