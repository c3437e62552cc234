"""Private learning on columns that different organisations hold about the same people."""

from __future__ import annotations

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.learn.federation import Federation
from colonnade.learn.linear import LinearRegression
from colonnade.learn.logistic import LogisticRegression
from colonnade.learn.pca import PCA
from colonnade.learn.release import MomentRelease
from colonnade.ledger import Ledger
from colonnade.privacy.guarantee import Guarantee

__version__ = "0.1.0"

__all__ = [
    "PCA",
    "Federation",
    "Guarantee",
    "Ledger",
    "LinearRegression",
    "LogisticRegression",
    "MomentRelease",
    "Schema",
    "Table",
    "__version__",
]
