"""`colonnade export`: a released model in the forms that others read."""

from __future__ import annotations

from pathlib import Path

import typer

from colonnade.cli.options import AS_JSON, LABEL
from colonnade.cli.screen import say, say_json
from colonnade.errors import CannotWrite, NameTaken
from colonnade.runs.run_folders import released


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
    """Write a released model as ONNX, its model card, or both.

    The ONNX graph takes raw columns by name: numbers and days since 1970 as doubles, NaN where one is missing;
    categories as text spelt as declared, "" where one is missing. Its metadata carries the privacy statement. The card
    is Markdown with the metadata that model hubs read; figures are on it only if they were measured on data declared
    public.

    A model whose weights stay with their parties is not exported: no guarantee covers putting them together.

    Example (`colonnade demo` makes such a run):

      colonnade export demo-run/run --onnx model.onnx --card README.md --license cc-by-4.0
    """
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


def _write(path: Path, text: str) -> None:
    from colonnade.federation.whole_files import write_whole

    try:
        write_whole(path, text)
    except OSError as error:
        raise CannotWrite(
            f"--card: {path} cannot be written ({error.strerror}). Name another file."
        ) from None
