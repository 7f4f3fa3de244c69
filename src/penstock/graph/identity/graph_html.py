"""Definitions as HTML: a table of their operators."""

from penstock.display.html_table import html_table
from penstock.graph.identity.graph_calls import GraphCalls
from penstock.graph.ir.node import Graph


def graph_html(graph: Graph) -> str:
    """Return the operators of a definition as an HTML table: arguments, results and lines."""
    calls, rows = GraphCalls(graph), list[list[str]]()
    for call, nodes in calls.nodes.items():
        arguments = ", ".join(f"{name}={text}" if name else text for name, text in calls.arguments(call))
        gives = ", ".join(str(value.spec) for value in calls.results(call))
        where = nodes[-1].where
        rows.append([calls.names[call], arguments, gives, where.short])
    return html_table(f"operators of {graph.name}", ["operator", "arguments", "returns", "line"], rows)
