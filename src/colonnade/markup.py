"""A table as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import escape


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a caption and a scope for every head; whatever is put into it is text."""
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for first, *cells in rows
    )
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
