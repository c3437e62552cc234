"""How often data files are read: each time Python opens one, and each statement of the engine that names one."""

import contextlib
import gzip
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pyarrow.csv
import pyarrow.parquet
from cli_project import train, write_project

from colonnade.data import arrays

MOST_READS = 3
"""A header, a number of rows, and the rows."""
DATA = re.compile(r"[^/']+\.(?:csv(?:\.gz)?|parquet)\b")
counting: list[Counter[str]] = []


def opened(event: str, arguments: tuple[Any, ...]) -> None:
    if counting and event == "open" and "w" not in str(arguments[1]):
        counting[-1].update(DATA.findall(str(arguments[0])))


# There for good: what is added to Python's audit cannot be taken away.
sys.addaudithook(opened)


@contextlib.contextmanager
def counted_reads() -> Iterator[Counter[str]]:
    reads: Counter[str] = Counter()
    session = arrays.Engine.session

    @contextlib.contextmanager
    def watched(engine: arrays.Engine) -> Iterator[Mock]:
        with session(engine) as real:
            seen = Mock(wraps=real)
            yield seen
        for statement in seen.method_calls:
            reads.update(DATA.findall(str(statement.args)))

    counting.append(reads)
    try:
        with patch.object(arrays.Engine, "session", watched):
            yield reads
    finally:
        counting.pop()


def reads_in_training(folder: Path, *, suffix: str) -> Counter[str]:
    """How often `colonnade train` reads each party's file: public people in different orders, a fifth held out."""
    project = write_project(folder)
    lines = project.path("insurer.csv").read_text().splitlines()
    project.path("insurer.csv").write_text("\n".join([lines[0], *reversed(lines[6:])]) + "\n")
    project.path("job.toml").write_text(f"{project.path('job.toml').read_text()}held_out = 0.2\n")
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", f'"{party}.csv"', f'"{party}{suffix}"\npublic = true')
        plain, file = project.path(f"{party}.csv"), project.path(f"{party}{suffix}")
        if suffix == ".parquet":
            pyarrow.parquet.write_table(pyarrow.csv.read_csv(plain), file)
        elif suffix == ".csv.gz":
            file.write_bytes(gzip.compress(plain.read_bytes()))
    with contextlib.redirect_stdout(io.StringIO()), counted_reads() as reads:
        code = train(project, "--output", str(folder / "run"), "--json")
    if code:
        raise RuntimeError(f"the training ended with exit code {code}")
    return reads
