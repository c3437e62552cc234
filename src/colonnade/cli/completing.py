"""What a shell offers after the tab key where neither a verb, nor an option, nor a file is meant.

Names stand here once more, so that completing them waits for no numerical library; a test holds them to the tables.
"""

from __future__ import annotations

METHODS = (
    "moments",
    "functional",
    "encrypted",
    "slr",
    "spca",
    "local",
    "intermediate",
    "one-shot",
    "network",
    "vfl-non-private",
    "single-party",
    "non-private",
    "central",
    "dp-sgd",
    "dp-sgd-laplace",
    "frank-wolfe",
)
TASKS = ("classification", "regression", "pca")


def complete_methods(incomplete: str) -> list[str]:
    """Names of methods after the last comma that is there already.

    >>> complete_methods("moments,sl")
    ['moments,slr']
    """
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in METHODS if name.startswith(last) and name not in taken]


def complete_tasks(incomplete: str) -> list[str]:
    """Tasks that a job can have.

    >>> complete_tasks("c")
    ['classification']
    """
    return [name for name in TASKS if name.startswith(incomplete)]
