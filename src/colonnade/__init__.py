"""Private learning on columns that different organisations hold about the same people.

The public names are loaded when one of them is first used: the command line answers `--help` without waiting
for the numerical libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colonnade.data.schema import Schema
    from colonnade.data.table import Table
    from colonnade.federation.federation import Federation
    from colonnade.ledger import Ledger
    from colonnade.methods.network.estimators import NeuralClassifier, NeuralRegressor
    from colonnade.models.available import available_models, rank_columns, ridge_path
    from colonnade.models.linear import (
        GammaRegression,
        LinearRegression,
        PoissonRegression,
        SupportVectorClassifier,
    )
    from colonnade.models.logistic import LogisticRegression
    from colonnade.models.pca import PCA
    from colonnade.models.release import MomentRelease
    from colonnade.models.trees import GradientBoostedTrees
    from colonnade.privacy.guarantee import Guarantee

__version__ = "0.2.0"

__all__ = [
    "PCA",
    "Federation",
    "GammaRegression",
    "GradientBoostedTrees",
    "Guarantee",
    "Ledger",
    "LinearRegression",
    "LogisticRegression",
    "MomentRelease",
    "NeuralClassifier",
    "NeuralRegressor",
    "PoissonRegression",
    "Schema",
    "SupportVectorClassifier",
    "Table",
    "__version__",
    "available_models",
    "rank_columns",
    "ridge_path",
]


def __getattr__(name: str) -> object:
    """A public name on its first use (PEP 562); all of them are then there."""
    if name not in __all__:
        raise AttributeError(f"module 'colonnade' has no attribute {name!r}")
    global Federation, Guarantee, Ledger, MomentRelease, Schema, Table
    global \
        GammaRegression, \
        GradientBoostedTrees, \
        LinearRegression, \
        LogisticRegression, \
        NeuralClassifier, \
        NeuralRegressor, \
        PCA, \
        PoissonRegression, \
        SupportVectorClassifier
    global available_models, rank_columns, ridge_path
    from colonnade.data.schema import Schema
    from colonnade.data.table import Table
    from colonnade.federation.federation import Federation
    from colonnade.ledger import Ledger
    from colonnade.methods.network.estimators import NeuralClassifier, NeuralRegressor
    from colonnade.models.available import available_models, rank_columns, ridge_path
    from colonnade.models.linear import (
        GammaRegression,
        LinearRegression,
        PoissonRegression,
        SupportVectorClassifier,
    )
    from colonnade.models.logistic import LogisticRegression
    from colonnade.models.pca import PCA
    from colonnade.models.release import MomentRelease
    from colonnade.models.trees import GradientBoostedTrees
    from colonnade.privacy.guarantee import Guarantee

    return globals()[name]


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted(__all__)
