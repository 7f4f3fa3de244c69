"""Pipelines as HTML, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.display.html_table import html_table
from penstock.graph.identity.graph_html import graph_html

if TYPE_CHECKING:
    from penstock.pipeline.pipeline import Pipeline


def pipeline_html(self: Pipeline) -> str:
    """Return options, outputs and operators as HTML, for notebooks. Does not run the definition."""
    graph = self._definition.graph  # a method of the pipeline
    options = [str(self.max_batch_size), str(self.num_threads), str(self.seed)]
    table = html_table(f"{type(self).__name__} {self.name}", ["batch size", "threads", "seed"], [options])
    if graph is None:
        return f"{table}\n<p>The definition has not run.</p>"
    rows = [[str(number), str(value.spec), str(value)] for number, value in enumerate(graph.outputs)]
    return "\n".join([table, html_table("outputs", ["number", "samples", "operator"], rows), graph_html(graph)])
