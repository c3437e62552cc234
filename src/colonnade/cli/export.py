"""`colonnade export`: a released model in the forms that others read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from colonnade.cli.options import AS_JSON, LABEL
from colonnade.cli.runs.run_folders import FACTS, read_run
from colonnade.cli.screen import say, say_json
from colonnade.errors import CannotWrite, ModelError, NameTaken

if TYPE_CHECKING:
    from colonnade.models.files.linear_file import ModelFile

EXAMPLE = """
The ONNX graph takes raw columns by name: numbers and days since 1970 as doubles, NaN where one is missing; categories
as text spelt as declared, "" where one is missing. Its metadata carries the privacy statement. The card is Markdown
with the metadata that model hubs read; figures are on it only if they were measured on data declared public.

A model whose weights stay with their parties is not exported: no guarantee covers putting them together.

Example (`colonnade demo` makes such a run):

  colonnade export demo-run/run --onnx model.onnx --card README.md --license cc-by-4.0
"""


def export(
    model: Path = typer.Argument(..., metavar="MODEL", help="The folder of a run, or its model.json."),
    onnx: Path | None = typer.Option(None, "--onnx", metavar="FILE", help="A new file for the ONNX graph."),
    card: Path | None = typer.Option(None, "--card", metavar="FILE", help="A new file for the model card."),
    license: str = typer.Option(
        "unknown", "--license", metavar="ID", help="The license that you publish the model under."
    ),
    label: str | None = LABEL,
    name: str = typer.Option("", "--name", metavar="TEXT", help="What the card calls the model."),
    features: bool = typer.Option(
        False, "--features", help="A graph that takes encoded features, for columns that go through a map."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Write a released model as ONNX, its model card, or both."""
    if onnx is None and card is None:
        raise typer.BadParameter("say what to write: --onnx FILE, --card FILE, or both.")
    if onnx is not None and onnx == card:
        raise typer.BadParameter(f"--onnx and --card are both {card}. Name a file for each.")
    for option, path in (("--onnx", onnx), ("--card", card)):
        if path is not None and (path.exists() or path.is_symlink()):
            raise NameTaken(f"{option}: {path} exists already. Name another file, or remove it first.")
    whole, facts = released(model, label)
    if onnx is not None:
        from colonnade.models.files.onnx import save_onnx

        save_onnx(whole, onnx, encoded=features)
    if card is not None:
        from colonnade.report.model_card import model_card

        _write(card, model_card(whole, name=name, license=license, facts=facts, onnx=onnx is not None))
    if as_json:
        say_json(
            {
                "model": str(model),
                "kind": whole.kind,
                "onnx": None if onnx is None else str(onnx),
                "card": None if card is None else str(card),
                "privacy": str(whole.privacy),
            }
        )
        return
    for what, path in (("ONNX graph", onnx), ("Model card", card)):
        if path is not None:
            say(f"{what}: {path}")
    for sentence in str(whole.privacy).splitlines():
        say(sentence)


export.__doc__ = f"{export.__doc__}\n{EXAMPLE}"


def released(path: Path, label: str | None = None) -> tuple[ModelFile, Mapping[str, Any] | None]:
    """The model, if its weights were released, and the facts of its run, if they lie beside it.

    Of a run with several labels that of one, with what is known of it.
    """
    from colonnade.evaluation.predict import Stored
    from colonnade.models.files.exporting import SPLIT, exportable
    from colonnade.models.files.linear_file import ModelFile
    from colonnade.report.labels import facts_of_label

    stored = Stored.load(path, label)
    if stored.whole is None:
        raise ModelError(f"{path}: {SPLIT}")
    if not isinstance(stored.whole, ModelFile):
        raise ModelError(
            f"{path} is a {stored.whole.kind}, and linear models can be exported. It scores people by "
            f"`colonnade predict {path}`."
        )
    folder = path if path.is_dir() else path.parent
    facts = read_run(folder).facts if (folder / FACTS).is_file() else None
    predicted = stored.whole.frame.label.label
    if facts is not None and facts.get("labels") and predicted is not None:
        facts = facts_of_label(facts, predicted.column)
    return exportable(stored.whole), facts


def _write(path: Path, text: str) -> None:
    from colonnade.federation.whole_files import write_whole

    try:
        write_whole(path, text)
    except OSError as error:
        raise CannotWrite(
            f"--card: {path} cannot be written ({error.strerror}). Name another file."
        ) from None
