"""JAX for all tests and doctests: eight emulated devices, and no silent promotion of dtypes or ranks."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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

# Modules that `make test` does not install: of the dependency groups test-all and dali.
PEERS = frozenset(
    (
        "albumentations",
        "array_record",
        "astropy",
        "cv2",
        "datasets",
        "flask",
        "grain",
        "kubernetes_validate",
        "moto",
        "nvidia",
        "playwright",
        "ray",
        "tensorboard",
        "tensorboardX",
        "wandb",
    )
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make test-all` continue where `make test` ended."""
    parser.addoption("--passed", type=Path, help="file of tests that passed: leave them out, and add others that pass")


def pytest_configure(config: pytest.Config) -> None:
    """Register `PassedTests` if there is a file for them."""
    if path := config.getoption("passed"):
        config.pluginmanager.register(PassedTests(path))


class PassedTests:
    """The tests that a file names as passed; a test that lacks a module of a peer is skipped, until that is installed.

    Args:
        path: The file, with the name of a test per line, or of a module whose tests have all passed. It need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = set(path.read_text().splitlines()) if path.exists() else set()
        self.new: list[str] = []
        self.collected: dict[str, int] = {}
        self.absent = {name for name in PEERS if find_spec(name) is None}

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Leave out a module whose tests have all passed: to import all takes 17 s of CPU time in each worker."""
        name = os.path.relpath(collection_path, config.rootpath)
        return True if name.endswith(".py") and name in self.before else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what has passed. Count the tests of each module, before options leave out any."""
        self.collected = dict(Counter(_module(item.nodeid) for item in items))
        if hasattr(config, "workeroutput"):
            config.workeroutput["collected"] = self.collected
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in self.before])
        items[:] = [item for item in items if item.nodeid not in self.before]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the numbers of tests that a worker of xdist has collected."""
        self.collected = getattr(node, "workeroutput", {}).get("collected", self.collected)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Skip a test that fails because a peer is not installed."""
        report = yield
        self._excuse(report, call, item)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Skip a module that cannot be imported because a peer is not installed."""
        report = yield
        # pytest keeps the call in the report, without declaring it.
        self._excuse(report, report.call, collector)  # pyright: ignore[reportAttributeAccessIssue]
        return report

    def _excuse(
        self,
        report: pytest.TestReport | pytest.CollectReport,
        call: pytest.CallInfo[object],
        node: pytest.Item | pytest.Collector,
    ) -> None:
        """Make a failure a skip if its cause is an import of a peer that is not installed."""
        error = call.excinfo.value if report.failed and call.excinfo is not None else None
        while error is not None:
            error = getattr(error, "exc_info", (None, error))[1]  # a doctest wraps it
            text = str(error)
            if isinstance(error, ImportError) and (found := [name for name in self.absent if name in text]):
                report.outcome = "skipped"
                reason = f"Skipped: {found[0]} is not installed (dependency groups test-all and dali)"
                report.longrepr = (str(node.path), 1, reason)
                return
            error = error.__cause__ or error.__context__

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that passed."""
        if report.when == "call" and report.passed:
            self.new.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file, once: not in xdist's workers, whose reports the main process gets."""
        if not hasattr(session.config, "workerinput"):
            passed = self.before.union(self.new)
            counts = Counter(map(_module, passed))
            passed |= {module for module, count in self.collected.items() if counts[module] == count}
            self.path.write_text("".join(f"{name}\n" for name in sorted(passed)))


def _module(nodeid: str) -> str:
    """Return the path of the module of a test."""
    return nodeid.partition("::")[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave modules and collected tests out of collections of garbage: fixtures collect after many a test."""
    gc.disable()
    result = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    return result
