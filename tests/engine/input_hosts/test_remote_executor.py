"""Input hosts in this process pass the contract suite of executors; refused, stopped and lying hosts lose no chunk."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.engine.input_hosts.host_address import parse_address
from penstock.engine.input_hosts.remote_executor import RemoteExecutor
from penstock.testing import check_executor

chunk_server = pytest.importorskip("penstock.engine.input_hosts.chunk_server")


class OwnHosts(RemoteExecutor):
    """Executor with hosts in this process, which compute the program that is prepared."""

    def __init__(self, count):
        self.hosted = None
        self.servers = [
            chunk_server.ChunkServer("grpc://127.0.0.1:0", lambda _: self.hosted, ThreadExecutor(2, name=f"host-{n}"))
            for n in range(count)
        ]
        addresses = [parse_address(f"127.0.0.1:{server.port}") for server in self.servers]
        super().__init__(addresses, {"name": "own"}, {"definition": "one"}, 2)

    def prepare(self, program):
        own = copy.copy(program)
        own.context = replace(program.context, executor=ThreadExecutor(2))
        self.hosted = self.hosted or chunk_server.HostedProgram(own, {"definition": "one"})
        super().prepare(program)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_hosts_pass_the_contract(count):
    executors = []

    def make():
        executors.append(OwnHosts(count))
        return executors[-1]

    check_executor(make)
    for executor in executors:
        assert sum(host.rows for host in executor._pool.hosts) > 0
        for server in executor.servers:
            server.shutdown()
