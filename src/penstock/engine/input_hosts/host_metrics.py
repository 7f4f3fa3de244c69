"""Metrics of an input host in Prometheus's format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.core import optional_import
from penstock.engine.input_hosts.chunk_service import ChunkService


class HostMetrics:
    """Collector of the totals of a service, for a registry of prometheus-client.

    Args:
        service: The service.
    """

    def __init__(self, service: ChunkService) -> None:
        self._service = service
        self._families = optional_import.import_extra("prometheus_client.core", "hosts", "penstock serve --metrics")

    def collect(self) -> Iterator[Any]:
        """Yield the metrics."""
        totals = self._service.totals
        counters = {
            "requests": ("Requests for chunks.", totals.requests),
            "refused": ("Messages that violated the protocol.", totals.refused),
            "rows": ("Rows computed.", totals.rows),
            "sent_bytes": ("Bytes of computed rows.", totals.sent),
            "compute_seconds": ("Time spent computing, summed over threads.", totals.seconds),
        }
        for name, (text, value) in counters.items():
            yield self._families.CounterMetricFamily(f"penstock_host_{name}", text, value=value)
        gauges = {
            "waiting": ("Requests that are computed, wait, or are sent.", totals.waiting),
            "programs": ("Programs that the host has built and not dropped.", totals.programs),
        }
        for name, (text, value) in gauges.items():
            yield self._families.GaugeMetricFamily(f"penstock_host_{name}", text, value=value)


def serve_metrics(service: ChunkService, port: int, host: str) -> int:
    """Serve the metrics of a service over HTTP, on a thread. Returns the port.

    Args:
        service: The service.
        port: The port; 0 lets the system choose.
        host: The address to listen at.

    Raises:
        MissingExtraError: prometheus-client is not installed.
    """
    prometheus = optional_import.import_extra("prometheus_client", "hosts", "penstock serve --metrics")
    registry = prometheus.CollectorRegistry()
    registry.register(HostMetrics(service))
    http, _ = prometheus.start_http_server(port, addr=host, registry=registry)
    return http.server_port
