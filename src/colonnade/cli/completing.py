"""What a shell offers after the tab key where neither a verb, nor an option, nor a file is meant.

Names of methods are read in the text of the modules that make them, so that completing them waits for no numerical
library; a test holds them and the tasks to the tables.
"""

from __future__ import annotations

import re
from pathlib import Path

import colonnade

TASKS = ("classification", "regression", "pca")
_METHODS = Path(colonnade.__file__).parent / "methods"
_NAME = re.compile(r'^ +name="([a-z-]+)",$', re.MULTILINE)


def method_names() -> tuple[str, ...]:
    """What methods call themselves, in the order of their folders."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(_METHODS.glob("*/*.py")))
    return tuple(name for text in texts for name in _NAME.findall(text))


def complete_methods(incomplete: str) -> list[str]:
    """Names of methods after the last comma that is there already."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [
        f"{before}{comma}{name}" for name in method_names() if name.startswith(last) and name not in taken
    ]


def complete_tasks(incomplete: str) -> list[str]:
    return [name for name in TASKS if name.startswith(incomplete)]
