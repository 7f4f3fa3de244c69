"""Metrics of an input host in Prometheus's format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.core import optional_import
from penstock.engine.input_hosts.chunk_server import ChunkServer

prometheus: Any = optional_import.import_extra("prometheus_client", "hosts", "penstock serve --metrics")
families: Any = optional_import.import_extra("prometheus_client.core", "hosts", "penstock serve --metrics")


class HostMetrics:
    """Collector of the totals of a server, for the registry of prometheus-client.

    Args:
        server: The server.
    """

    def __init__(self, server: ChunkServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Any]:
        """Yield the metrics."""
        totals = self._server.totals
        counters = {
            "requests": ("Requests for chunks.", totals.requests),
            "refused": ("Messages that violated the protocol.", totals.refused),
            "rows": ("Rows computed.", totals.rows),
            "sent_bytes": ("Bytes of computed rows.", totals.sent),
            "compute_seconds": ("Time spent computing, summed over threads.", totals.seconds),
        }
        for name, (text, value) in counters.items():
            yield families.CounterMetricFamily(f"penstock_host_{name}", text, value=value)
        gauges = {
            "waiting": ("Requests that are computed, wait, or are sent.", totals.waiting),
            "programs": ("Programs that the host has built.", totals.programs),
        }
        for name, (text, value) in gauges.items():
            yield families.GaugeMetricFamily(f"penstock_host_{name}", text, value=value)


def serve_metrics(server: ChunkServer, port: int, host: str) -> int:
    """Serve the metrics of a server over HTTP, on a thread. Returns the port.

    Args:
        server: The server.
        port: The port; 0 lets the system choose.
        host: The address to listen at.
    """
    registry = prometheus.CollectorRegistry()
    registry.register(HostMetrics(server))
    http, _ = prometheus.start_http_server(port, addr=host, registry=registry)
    return http.server_port
