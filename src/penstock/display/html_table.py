"""Tables as HTML."""

from collections.abc import Iterable, Sequence
from html import escape

# Notebooks align the cells of tables to the right, which suits numbers.
_CELL = ' style="text-align: left; vertical-align: top"'


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML. Its texts are escaped.

    >>> html_table("Outputs", ["name"], [["<b>"]]).splitlines()[-2]
    '<tr><td style="text-align: left; vertical-align: top">&lt;b&gt;</td></tr>'
    """
    lines = [f"<tr>{''.join(f'<td{_CELL}>{escape(text)}</td>' for text in row)}</tr>" for row in rows]
    titles = "".join(f"<th{_CELL}>{escape(text)}</th>" for text in head)
    title = f'<caption style="text-align: left; white-space: nowrap">{escape(caption)}</caption>'
    return "\n".join(["<table>", title, f"<tr>{titles}</tr>", *lines, "</table>"])
