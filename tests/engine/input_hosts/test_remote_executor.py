"""Input hosts in this process pass the contract suite of executors; refused, stopped and lying hosts lose no chunk."""

from __future__ import annotations

import copy
import itertools
import json
import threading
from concurrent.futures import wait
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from penstock import data_iterator, fn, peekable_data_iterator
from penstock.engine.host.chunk_executor import Chunk
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.machine_identity import machine_identity
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.engine.input_hosts import chunk_service
from penstock.engine.input_hosts.chunk_protocol import OPEN, ChunkHead, ChunkRequest, extended_checksum
from penstock.engine.input_hosts.chunk_server import ChunkServer
from penstock.engine.input_hosts.chunk_service import ChunkService
from penstock.engine.input_hosts.host_address import parse_address
from penstock.engine.input_hosts.host_pool import HostPool
from penstock.engine.input_hosts.json_messages import MessageError
from penstock.engine.input_hosts.program_table import HostedProgram, ProgramEntry, ProgramTable
from penstock.engine.input_hosts.remote_executor import RemoteExecutor, program_key
from penstock.errors import UsageError
from penstock.sources.order.schedule import BatchStep
from penstock.testing import check_executor

pytest.importorskip("grpc")


class OwnHosts(RemoteExecutor):
    """Executor with hosts in this process, which compute the program that is prepared."""

    def __init__(self, count, kind=ChunkService):
        self.hosted = None
        services = [kind(lambda _: self.hosted, ThreadExecutor(2, name=f"host-{n}")) for n in range(count)]
        self.servers = [ChunkServer(parse_address("127.0.0.1:0"), service) for service in services]
        addresses = [parse_address(f"127.0.0.1:{server.port}") for server in self.servers]
        super().__init__(addresses, {"name": "own"}, {"definition": "one"}, "iterator", 2)

    def prepare(self, program):
        own = copy.copy(program)
        own.context = replace(program.context, executor=ThreadExecutor(2))
        self.hosted = self.hosted or HostedProgram(own, {"definition": "one"})
        super().prepare(program)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_hosts_pass_the_contract(count):
    executors = []

    def make():
        executors.append(OwnHosts(count))
        return executors[-1]

    check_executor(make)
    assert all(sum(executor._pool.hosts[n].rows for executor in executors) > 0 for n in range(count))
    for executor in executors:
        for server in executor.servers:
            server.shutdown()


class LyingService(ChunkService):
    """Host whose memory flips a bit."""

    def compute(self, request, cancelled):
        head, parts = super().compute(request, cancelled)
        return replace(head, checksum=head.checksum ^ 1), parts


@pytest.mark.slow
def test_a_host_that_sends_other_bytes_is_excluded(caplog):
    executors = []

    def make():
        executors.append(OwnHosts(1, LyingService))
        return executors[-1]

    check_executor(make)
    address = str(executors[0]._pool.hosts[0].address)
    assert f"input host {address} is not used any more: it sent data with the checksum" in caplog.text
    assert "excluded" in executors[0].summary()
    assert executors[0]._pool.hosts[0].rows == 0
    for executor in executors:
        executor.servers[0].shutdown()


@pytest.mark.slow
def test_machines_that_compute_other_bits_are_refused(monkeypatch):
    executor = OwnHosts(1)
    other = {**machine_identity(), "CPU features": "AVX"}
    monkeypatch.setattr(chunk_service, "machine_identity", lambda: other)
    with pytest.raises(UsageError, match=r"differs in CPU features(.|\n)*AVX on the host(.|\n)*in this process"):
        RemoteExecutor.prepare(executor, None)
    executor.servers[0].shutdown()


def test_a_host_accepts_a_bounded_number_of_requests():
    service = ChunkService(lambda _: None, ThreadExecutor(1, name="bounded"))
    service.max_requests = 2
    ticket = ChunkRequest("none", BatchStep(0, 0, (0,), 4), np.arange(4), ("uint8",)).encode()
    answers = [service.chunk(ticket, lambda: False) for _ in range(3)]
    heads = [ChunkHead.decode(next(answer)) for answer in answers]
    assert [head.refusal for head in heads] == [*["the host does not have the program"] * 2, "the host is busy"]
    assert service.totals.waiting == 2
    del answers  # which trainers that give up do not read to their end
    assert service.totals.waiting == 0


def test_a_host_is_ready_when_it_has_computed_a_row(monkeypatch):
    compiled, computed = threading.Event(), []

    class Compiling(HostProgram):
        def run_rows(self, chunk):
            assert compiled.wait(60)
            computed.append(chunk.rows.tolist())
            return super().run_rows(chunk)

    monkeypatch.setattr(chunk_service, "_BUILD_SECONDS", 0.01)
    with data_iterator(lambda: fn.readers.arrays(np.arange(8)), ["number"])(batch_size=4) as it:
        program = it._cursor.run._loader._program
        hosted = HostedProgram(Compiling(program.plan, program.context), {})
        service = ChunkService(lambda _: hosted, ThreadExecutor(1, name="compiling"))
        message = json.dumps({"description": {}, "identity": dict(machine_identity()), "iterator": ""}).encode()
        building = (json.loads(service.call(OPEN, message))["building"] for _ in itertools.count())
        assert next(building)
        assert next(building)
        compiled.set()
        assert not next(ready for ready in building if not ready)
    assert computed == [[0]]


@pytest.fixture
def service_and_open():
    """A service, a function that opens a program of it, and the data and the time of the service."""
    facts = dict(machine_identity())
    with data_iterator(lambda: fn.readers.arrays(np.arange(8)), ["number"])(batch_size=4) as it:
        program = it._cursor.run._loader._program
        data = {"data": "old", "seconds": 0.0}

        def build(description):
            if description["name"].startswith("wrong"):
                raise UsageError("wrong")
            return HostedProgram(program, {"data": data["data"]})

        service = ChunkService(build, ThreadExecutor(1, name="opening"), clock=lambda: data["seconds"])

        def opened(name, theirs="old", iterator=""):
            body = {"description": {"name": name}, "identity": {**facts, "data": theirs}, "iterator": iterator}
            return json.loads(service.call(OPEN, json.dumps(body).encode()))

        yield service, opened, data
        service._builder.close()
        service._executor.close()


def test_a_program_with_other_data_is_built_again(service_and_open):
    service, opened, data = service_and_open
    assert opened("one", "new")["differences"] == [["data", "old", "new"]]
    data["data"] = "new"  # the host's copy is complete now
    assert opened("one", "new")["differences"] == []
    assert service.totals.programs == 1


def test_iterators_do_not_share_programs(service_and_open, caplog):
    service, opened, data = service_and_open
    opened("one", iterator="first")
    data["data"] = "new"  # the files are replaced between two runs
    assert opened("one", "new", iterator="second")["differences"] == []
    old, new = (service._programs.find(program_key({"name": "one"}, name)) for name in ("first", "second"))
    assert (old.hosted.identity, new.hosted.identity) == ({"data": "old"}, {"data": "new"})
    assert service.totals.programs == 2
    for number in range(20):  # evaluations, one after another
        opened("one", "new", iterator=f"{number}")
    assert "programs are in use" not in caplog.text
    data["seconds"] = 61.0  # they have ended
    opened("one", "new", iterator="third")
    assert service.totals.programs == 1


class FailingService(ChunkService):
    """Host that cannot read the file of row 1, which it reports as a skipped row of zeros."""

    def compute(self, request, cancelled):
        head, (part,) = super().compute(request, cancelled)
        part = part.copy()
        part.view(np.int32)[1] = 0
        part.flags.writeable = False
        return replace(head, failed=(1,), checksum=extended_checksum(0, part)), [part]


def test_rows_that_fail_on_a_host_are_computed_here():
    with peekable_data_iterator(lambda: fn.readers.arrays(np.arange(5, 13)), ["number"])(batch_size=4) as it:
        program = it._cursor.run._loader._program
        executor = OwnHosts(1, FailingService)
        slot = np.empty(4, np.int32)
        result = executor.compute(program, Chunk(program.context.schedule.first(), np.arange(4), [slot])).result(60)
        assert result.failed == []
        assert slot.tolist() == it.peek()["number"].tolist()
        assert executor._pool.hosts[0].rows == 4
        assert "1 rows in this process" in executor.summary()
        executor.close()
        executor.servers[0].shutdown()


def test_programs_whose_trainers_have_gone_leave_room_for_others(service_and_open, monkeypatch):
    service, opened, _ = service_and_open
    monkeypatch.setattr(chunk_service, "_MAX_BUILDING", 3)
    monkeypatch.setattr(chunk_service, "_BUILD_SECONDS", 0)
    for name in ("one", "two", "wrong"):
        opened(name)
    wait(service._building.values())  # and nobody asks for them again
    opened("four")
    assert len(service._building) == 1
    assert len(service._programs) == 2


def test_programs_in_use_are_not_dropped(service_and_open, caplog):
    service, opened, now = service_and_open
    tickets = {}

    def refusals():
        heads = [service.compute(ticket, lambda: False)[0] for ticket in tickets.values()]
        return [name for name, head in zip(tickets, heads, strict=True) if head.unknown]

    for number in range(20):
        opened(f"{number}")
        key = program_key({"name": f"{number}"}, "")
        tickets[number] = ChunkRequest(key, BatchStep(0, 0, (0,), 4), np.arange(4), ("int64",))
    assert not refusals()
    assert caplog.text.count("programs are in use at the same time") == 1
    assert "17 programs are in use" in caplog.text
    # Those that nobody requests make room for others.
    now["seconds"] = 400.0
    for number in range(5):
        service.compute(tickets[number], lambda: False)
    now["seconds"] = 700.0
    opened("20")
    assert refusals() == [5, 6, 7, 8, 9]
    assert service.totals.programs == 16


class CacheInMemory:
    in_memory = True


def test_idle_programs_with_caches_in_memory_make_room():
    def entry(*caches, description=""):
        context = SimpleNamespace(
            caches=dict(enumerate(caches)), executor=SimpleNamespace(prefetched=()), readers={}, prefetch_depth=0
        )
        return ProgramEntry(HostedProgram(SimpleNamespace(context=context), {}), description or object())

    now = [0.0]
    table = ProgramTable(lambda: now[0])
    table.add("plain", entry())
    table.add("cached", entry(CacheInMemory()))
    table.add("used", entry(CacheInMemory()))
    now[0] = 599.0
    table.add("another", entry())
    assert len(table) == 4
    table.find("used")
    now[0] = 601.0
    table.add("one more", entry())
    assert table.find("cached") is None
    assert all(table.find(name) for name in ("plain", "used", "another", "one more"))
    # Nobody else needs the room: a trainer that pauses finds its cache again.
    now[0] = 10_000.0
    assert table.find("used")


def test_slow_hosts_get_less():
    pool = HostPool([parse_address("a:1"), parse_address("b:1")])
    for host in pool.due():
        assert pool.opened(host, object(), 8)
    seconds = {pool.hosts[0]: 0.01, pool.hosts[1]: 0.03}
    for host in pool.hosts:
        host.row_seconds, host.fresh = seconds[host], False
    loans = [pool.borrow(1, [], 0.0, lambda: False) for _ in range(12)]
    assert [sum(loan.host is host for loan in loans) for host in pool.hosts] == [9, 3]
    # A host that is full is not passed over for one that takes longer.
    pool.hosts[0].in_flight = pool.hosts[0].window
    assert pool.borrow(1, [], 0.0, lambda: False) is None


def test_equal_hosts_share_the_rows():
    pool = HostPool([parse_address("127.0.0.1:1"), parse_address("127.0.0.1:2"), parse_address("127.0.0.1:3")])
    for host, rows in zip(pool.due(), (5, 3, 4), strict=True):
        assert pool.opened(host, object(), 8)
        host.row_seconds, host.fresh, host.rows = 0.0, False, rows
    loans = [pool.borrow(1, [], 0.0, lambda: False) for _ in range(4)]
    assert [pool.hosts.index(loan.host) for loan in loans] == [1, 2, 0, 1]


def test_a_fresh_host_gets_one_chunk():
    pool = HostPool([parse_address("a:1"), parse_address("b:1")])
    for host in pool.due():
        pool.opened(host, object(), 8)
    pool.hosts[0].row_seconds, pool.hosts[0].fresh = 0.01, False
    loans = [pool.borrow(1, [], 0.0, lambda: False) for _ in range(6)]
    assert [sum(loan.host is host for loan in loans) for host in pool.hosts] == [5, 1]
    pool.completed(next(loan for loan in loans if loan.host is pool.hosts[1]), 10)
    assert pool.borrow(1, [], 0.0, lambda: False).host is pool.hosts[1]


@pytest.mark.parametrize("rows", [[0], [0, 1, 2], [1, 3, 4, 9]])
def test_requests_survive_the_wire(rows):
    request = ChunkRequest("key", BatchStep(1, 2, (3, 4), 16), np.array(rows), ("uint8", None))
    received = ChunkRequest.decode(request.encode())
    assert (received.program, received.step, received.dtypes) == (request.program, request.step, request.dtypes)
    assert received.rows.tolist() == rows


@pytest.mark.parametrize(
    "message",
    [b"", b"[]", b"{}", b'{"a": NaN}', b"[" * 10_000, b'{"program": "x"}', b"\xff"],
)
def test_messages_that_violate_the_protocol(message):
    with pytest.raises(MessageError):
        ChunkRequest.decode(message)
