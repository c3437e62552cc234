"""`colonnade trees`: boosted trees from a run's class-conditional release."""

from __future__ import annotations

from pathlib import Path

import typer

from colonnade.cli.options import AS_JSON
from colonnade.cli.runs.report import write_page
from colonnade.cli.runs.run_folders import release_of
from colonnade.cli.screen import say, say_json, width
from colonnade.errors import NameTaken

EXAMPLE = """
Trees of two questions each, for two classes, trained on invented people who agree with the release: no data is read,
nothing is charged, and they may be shared as the release may. The job needs conditional = true in its options and every
number in bins; the extra is colonnade[trees].

The graph takes raw columns by name, as that of `colonnade export` does. The page shows which columns the trees ask
about and what each level adds. Where a linear model is expected to be as good, that is said.

Example (RUN is of such a job):

  colonnade trees runs/first --onnx trees.onnx --output trees.html
"""


def trees(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run, or its name within runs."),
    onnx: Path | None = typer.Option(None, "--onnx", metavar="FILE", help="A new file for the ONNX graph."),
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="A new file for a page with pictures."
    ),
    columns: list[str] = typer.Option(
        [], "--columns", "-c", metavar="NAME", help="Only this column and others so named; repeat."
    ),
    rows: int = typer.Option(50_000, "--rows", "-n", metavar="N", help="How many invented people."),
    rounds: int = typer.Option(400, "--rounds", metavar="N", help="How many trees at most."),
    rate: float = typer.Option(0.05, "--rate", metavar="R", help="How much each tree counts."),
    seed: int = typer.Option(0, "--seed", metavar="N", help="Of the draw of invented people."),
    as_json: bool = AS_JSON,
) -> None:
    """Train boosted trees on a run's class-conditional release, at no cost."""
    if onnx is not None and onnx == output:
        raise typer.BadParameter(f"--onnx and --output are both {output}. Name a file for each.")
    for option, path in (("--onnx", onnx), ("--output", output)):
        if path is not None and (path.exists() or path.is_symlink()):
            raise NameTaken(f"{option}: {path} exists already. Name another file, or remove it first.")
    release = release_of(run)
    if columns:
        release = release.select(columns)
    from colonnade.models.trees import GradientBoostedTrees
    from colonnade.report.trees import tree_facts, tree_page, tree_text

    if onnx is not None:
        from colonnade.models.files.onnx import need_onnx

        need_onnx()
    model = GradientBoostedTrees(rows=rows, rounds=rounds, rate=rate, seed=seed).fit(release)
    facts = tree_facts(model, name=f"Trees of {run}")
    if onnx is not None:
        from colonnade.models.files.tree_export import save_onnx_trees

        save_onnx_trees(model, onnx)
    if output is not None:
        write_page(output, tree_page(model, facts))
    if as_json:
        written = {
            "onnx": None if onnx is None else str(onnx),
            "output": None if output is None else str(output),
        }
        say_json({**facts, **written})
        return
    say(tree_text(facts, width=width()))
    for what, written_to in (("ONNX graph", onnx), ("Page", output)):
        if written_to is not None:
            say(f"{what}: {written_to}")


trees.__doc__ = f"{trees.__doc__}\n{EXAMPLE}"
