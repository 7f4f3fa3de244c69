"""Iterators as HTML, for notebooks."""

from typing import Any

from penstock.display.html_table import html_table
from penstock.graph.identity.graph_html import graph_html


def iterator_html(self: Any) -> str:
    """Return position, outputs and operators as HTML, for notebooks. Computes nothing and does not wait.

    Args:
        self: The iterator.
    """
    # This function is a method of the iterator.
    graph, structs, place = self._executable.plan.graph, self._structs(), self._place()
    layouts = [value.spec.layout or "none" for value in graph.outputs]
    rows = [
        [name, str(struct.dtype), str(list(struct.shape)), layout]
        for name, struct, layout in zip(self._names, structs, [*layouts, "none"], strict=False)
    ]
    caption = f"{type(self).__name__} {graph.name}: {place}"
    outputs = html_table(caption, ["output", "dtype", "shape", "layout"], rows)
    operators = f"<details><summary>Operators</summary>{graph_html(graph)}</details>"
    return f"{outputs}\n{operators}"
