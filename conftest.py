"""JAX for all tests and doctests: eight emulated devices, and no silent promotion of dtypes or ranks."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import jax
import pytest

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile("quick", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.register_profile("few", deadline=None, max_examples=4, derandomize=True)
hypothesis.settings.register_profile("nightly", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make test-all` continue where `make test` ended."""
    parser.addoption(
        "--passed", type=Path, help="file of tests that have passed: leave them out, and add others that pass"
    )


class PassedTests:
    """The tests that a file names as passed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = set(path.read_text().splitlines()) if path.exists() else set()
        self.new: list[str] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what has passed."""
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self.before])
        items[:] = [item for item in items if item.nodeid not in self.before]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that passes. One that lacks a package runs again where the package is installed."""
        if report.when == "call" and report.passed:
            self.new.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file, once: not in xdist's workers, whose reports the main process gets."""
        if not hasattr(session.config, "workerinput"):
            self.path.write_text("".join(f"{name}\n" for name in [*sorted(self.before), *self.new]))


def pytest_configure(config: pytest.Config) -> None:
    """Register `PassedTests` if there is a file for them."""
    if path := config.getoption("passed"):
        config.pluginmanager.register(PassedTests(path))
