"""From a source with cell marks to a notebook with outputs, and nothing of the machine that ran it.

A source is a Python file: `# %%` begins a cell of code, `# %% [markdown]` one of text in comments. It is the one place
where a notebook is edited; the `.ipynb` is made from it.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).parent
MARK = re.compile(r"^# %%(?P<text> \[markdown\])?$", re.MULTILINE)
SECONDS = 900
PICTURE = "image/png"


def sources() -> dict[str, Path]:
    """The notebooks' sources by name."""
    return {path.stem: path for path in sorted((FOLDER / "sources").glob("*.py"))}


def cells_of(source: str) -> list[Any]:
    """The cells of a source, without outputs."""
    marks = list(MARK.finditer(source))
    ends = [mark.start() for mark in marks[1:]] + [len(source)]
    cells = []
    for number, (mark, end) in enumerate(zip(marks, ends, strict=True)):
        text = source[mark.end() : end].strip("\n")
        prose = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        cell = new_markdown_cell(prose) if mark["text"] else new_code_cell(text)  # type: ignore[no-untyped-call]
        # Ids are random by default, and would change at every run.
        cell.id = f"cell-{number:02d}"
        cells.append(cell)
    return cells


def executed(source: Path) -> Any:
    """The notebook of a source, run from top to bottom in this folder; a cell that fails stops it."""
    # Reading notebooks needs less than running them: pip install 'colonnade[notebooks]'.
    from nbclient import NotebookClient

    notebook = new_notebook(cells=cells_of(source.read_text(encoding="utf-8")))  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(FOLDER)}}
    client = NotebookClient(
        notebook, timeout=SECONDS, startup_timeout=SECONDS, kernel_name="python3", resources=resources
    )
    with tempfile.TemporaryDirectory() as folder:
        # Not over TCP, where everybody on this machine could listen. The two processes work in different folders.
        kernel = client.create_kernel_manager()
        kernel.transport, kernel.ip = "ipc", str(Path(folder) / "kernel")
        client.execute()
    clean(notebook)
    return notebook


def clean(notebook: Any) -> None:
    """Take out what is of a machine or a moment: times, versions, addresses of objects. Complaints are an error."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = _joined([_cleaned(output) for output in cell.outputs])


def _joined(outputs: list[Any]) -> list[Any]:
    """Text that was printed in several goes, as one."""
    joined: list[Any] = []
    for output in outputs:
        if joined and output.output_type == joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _cleaned(output: Any) -> Any:
    if output.output_type == "stream" and output.name != "stdout":
        raise ValueError(f"a notebook complained: {output.text}")
    if output.output_type == "display_data":
        output.data = {PICTURE: output.data[PICTURE]}
        output.metadata = {}
    return output
