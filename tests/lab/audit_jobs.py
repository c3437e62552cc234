"""Declared columns of two parties, and what a job asks of a method, small enough to audit in a test."""

from typing import Any

from colonnade.data.schema import Schema
from colonnade.lab.targets import AuditTarget
from colonnade.methods.table import METHODS, checked_options
from colonnade.protocols.plans import Task, TrainingSpec
from colonnade.runtime.party import Group

BANK = """id = "n"
columns.age = {kind = "numeric", low = 18, high = 90}
columns.job = {kind = "categorical", categories = ["clerk", "farmer", "nurse"]}
columns.since = {kind = "date", low = 2000-01-01, high = 2020-01-01}
"""
SHOP = """id = "n"
columns.spent = {kind = "numeric", low = 0, high = 1000, transform = "log1p"}
columns.member = {kind = "binary", values = ["no", "yes"]}
"""
LABELS = {
    "classification": 'label = {column = "risk", kind = "classes", classes = ["low", "high"]}',
    "regression": 'label = {column = "price", kind = "real", low = 0, high = 9}',
    "pca": "",
}


def wanted(
    method: str,
    *,
    task: Task = "classification",
    epsilon: float = 1.0,
    delta: float = 1e-5,
    parties: int = 2,
    **options: Any,
) -> AuditTarget:
    bank = Schema.parse(BANK + LABELS[task]).public("bank")
    shops = tuple(Schema.parse(SHOP).public(name) for name in ("shop", "store")[: parties - 1])
    group = Group.of(("bank", *(shop.party for shop in shops)), active="bank" if LABELS[task] else None)
    requested = TrainingSpec(task, epsilon, delta=delta, options=checked_options(METHODS[method], options))
    return AuditTarget(method, requested, group, (bank, *shops))
