"""Threads and processes pass the contract suite of executors, and a wrong executor fails it."""

from __future__ import annotations

import pytest

from penstock.engine.host.chunk_executor import ChunkResult
from penstock.engine.host.process_executor import ProcessExecutor
from penstock.engine.host.worker_threads import SerialExecutor, ThreadExecutor
from penstock.testing import check_executor


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        SerialExecutor,
        lambda: ThreadExecutor(1),
        lambda: ThreadExecutor(3),
        lambda: ProcessExecutor(1),
        lambda: ProcessExecutor(2),
    ],
    ids=["serial", "one thread", "threads", "one process", "processes"],
)
def test_executors_pass(make):
    check_executor(make)


class Forgetful(SerialExecutor):
    """Executor that loses bad samples."""

    def compute(self, program, chunk):
        future = super().compute(program, chunk)
        result = future.result()
        return self.submit(lambda: ChunkResult(result.columns, []))

    in_process = False


@pytest.mark.slow
def test_a_wrong_executor_fails():
    with pytest.raises(AssertionError, match="the bad samples differ"):
        check_executor(Forgetful)
