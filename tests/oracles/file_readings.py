"""How often data files are looked into: every opening for a header and every statement of the engine counts as one."""

import contextlib
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.csv
import pyarrow.parquet
from cli_project import train, write_project

from colonnade.data import files

MOST_READS = 3
"""A header, a number of rows, and the rows."""


@contextlib.contextmanager
def counted_reads() -> Iterator[Counter[str]]:
    reads: Counter[str] = Counter()

    def counting(place: Any, name: str, file_of: Any) -> Any:
        before = getattr(place, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            reads[file_of(arguments[0]).path.name] += 1
            return before(*arguments, **named)

        return patch.object(place, name, counted)

    with (
        counting(files.File, "unpacked", lambda file: file),
        counting(files, "_parquet", lambda file: file),
        counting(files.FileRelation, "batches", lambda relation: relation._file),
        counting(files.FileRelation, "count", lambda relation: relation._file),
    ):
        yield reads


def reads_in_training(folder: Path, *, suffix: str) -> Counter[str]:
    """How often `colonnade train` reads each party's file: public people in different orders, a fifth held out."""
    project = write_project(folder)
    lines = project.path("insurer.csv").read_text().splitlines()
    project.path("insurer.csv").write_text("\n".join([lines[0], *reversed(lines[6:])]) + "\n")
    project.path("job.toml").write_text(f"{project.path('job.toml').read_text()}held_out = 0.2\n")
    for party in ("bank", "insurer"):
        project.edit(f"{party}.toml", f'"{party}.csv"', f'"{party}{suffix}"\npublic = true')
        if suffix == ".parquet":
            table = pyarrow.csv.read_csv(project.path(f"{party}.csv"))
            pyarrow.parquet.write_table(table, project.path(f"{party}{suffix}"))
    with contextlib.redirect_stdout(io.StringIO()), counted_reads() as reads:
        code = train(project, "--output", str(folder / "run"), "--json")
    if code:
        raise RuntimeError(f"the training ended with exit code {code}")
    return reads
