"""Verbs over a released model: `export`, `describe` and `synthesize`."""

from __future__ import annotations

from pathlib import Path

import typer

from colonnade.cli.screen import COLUMNS, FREE, LABEL, MODEL, RUN, Answer, check_free, flag, option, progress
from colonnade.runs.drafts import write_named
from colonnade.runs.reading import release_of, released_model


def export(
    model: Path = MODEL,
    onnx: Path | None = option("--onnx FILE", "A new file for the ONNX graph."),
    card: Path | None = option("--card FILE", "A new file for the model card."),
    license: str = option("--license ID", "The license that you publish the model under.", "unknown"),
    label: str | None = LABEL,
    name: str = option("--name TEXT", "What the card calls the model.", ""),
    features: bool = flag(
        "--features", "A graph that takes encoded features, for columns that go through a map."
    ),
) -> Answer:
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
    check_free(onnx, "--onnx", FREE)
    check_free(card, "--card", FREE)
    whole, record = released_model(model, label)
    if onnx is not None:
        from colonnade.models.files.onnx import save_onnx

        save_onnx(whole, onnx, encoded=features)
    if card is not None:
        from colonnade.report.model_card import model_card

        text = model_card(whole, name=name, license=license, record=record, onnx=onnx is not None)
        write_named(card, text, option="--card")
    written = {"onnx": onnx and str(onnx), "card": card and str(card)}
    named = {"ONNX graph": onnx, "Model card": card}
    lines = [f"{what}: {path}" for what, path in named.items() if path is not None]
    data = {"model": str(model), "kind": whole.kind, **written, "privacy": str(whole.privacy)}
    return Answer(data, "\n".join([*lines, *str(whole.privacy).splitlines()]))


def describe(
    run: Path = RUN,
    output: Path | None = option("--output -o FILE", "A new file for a page with pictures."),
    columns: list[str] = COLUMNS,
    label: str | None = LABEL,
) -> Answer:
    """Say what a run's release says of its columns, one and two at a time, at no cost.

    Shares and means of every column, correlations and two-way tables of every pair, each with ± from the release's
    noise; variance inflation, and by class weight of evidence and information value. For columns in bins and
    categories: of other numbers a release does not know how many people are where, and they are named as left out.

    It is computed from the release alone: no data is read and nothing is charged.

    Example (RUN is of a job whose numbers are declared in ordered bins):
      colonnade describe runs/first --output columns.html
    """
    check_free(output)
    release = release_of(run).for_label(label)
    if columns:
        release = release.select(columns)
    from colonnade.report.describing import description_facts, description_page, description_text

    facts = description_facts(release, name=f"Columns of {run}")
    if output is not None:
        write_named(output, description_page(facts))
    page = "" if output is None else f"\n\nPage: {output}"
    data = {**facts, "output": None if output is None else str(output)}
    return Answer(data, lambda wide: f"{description_text(facts, width=wide)}{page}")


def synthesize(
    run: Path = RUN,
    output: Path = option("--output -o FILE", "A new .parquet or .csv file.", ...),
    rows: int = option("--rows -n N", "How many synthetic people.", ...),
    columns: list[str] = COLUMNS,
    seed: int | None = option("--seed N", "Draw the same people again."),
    label: str | None = LABEL,
) -> Answer:
    """Write a table of synthetic people that agrees with a run's release, at no cost.

    The table has the columns of all parties in their own units and spellings, and agrees with the release in every
    column and every pair of columns, up to the release's noise. It is computed from the release alone: no data is read,
    nothing is charged, and it may be shared as the release may. A manifest is written beside it.

    Every column must be binary, categorical or in bins; a number that is not in bins has no table. --columns leaves
    columns out.

    Example (RUN is of a job whose numbers are declared in ordered bins):
      colonnade synthesize runs/first --rows 50000 --output table.parquet
    """
    from colonnade.models.tables.synthetic import checked_rows, checked_target

    checked_rows(rows)
    checked_target(output)
    release = release_of(run).for_label(label)
    if columns:
        release = release.select(columns)
    with progress() as advance:
        table = release.synthesize(rows, seed=seed, progress=advance)
    companion = table.save(output)
    fit = table.manifest["fit"]
    lines = [
        f"Table: {output}, {rows} synthetic people, {len(table.columns)} columns",
        f"Manifest: {companion}",
        f"Distance to the release: {fit['residual_over_noise']:.2f} of what its noise would leave "
        f"({fit['residual_of_unrelated_columns']:.3g} if columns had nothing to do with each other)",
        *(f"- {line}" for line in table.manifest["notes"]),
        "\nNot to do",
        *(f"- {line}" for line in table.manifest["not_to_do"]),
        "\nNothing was charged: it says no more than the release, of which this holds",
        *table.manifest["privacy"],
    ]
    data = {**table.manifest, "output": str(output), "manifest": str(companion)}
    return Answer(data, "\n".join(lines))
