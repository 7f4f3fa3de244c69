"""DNS names with several addresses: their hosts join, leave and are replaced, and no process is two hosts."""

from __future__ import annotations

import shutil
import socket
import subprocess
from contextlib import ExitStack

import pytest
import served_program
from input_hosts import Host
from taken_batches import same, taken

from penstock.diagnose.environment_checks import host_checks
from penstock.engine.input_hosts import host_names
from penstock.engine.input_hosts.host_address import HostAddress, parse_address
from penstock.engine.input_hosts.host_names import HostNames, resolved
from penstock.engine.input_hosts.host_pool import HostPool, HostState

pytest.importorskip("grpc")


@pytest.fixture
def names(monkeypatch):
    """The addresses of DNS names, which are looked up at each chance; other names do not resolve."""
    names = {}

    def getaddrinfo(host, port, *arguments, **options):
        if not names.get(host):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        # As of the system: an entry per protocol.
        return [(None, None, number, "", (ip, port)) for ip in names[host] for number in (1, 2)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(host_names, "RESOLVE_SECONDS", 0.0)
    return names


@pytest.fixture
def start():
    """Return a function that starts a host at an address."""
    with ExitStack() as stack:

        def started(listen, *arguments):
            host = Host(*arguments, listen=listen)
            stack.callback(host.end)
            return host

        yield started


def rows_of(it):
    """Rows by the IP address of the host."""
    return {host.address.host: host.rows for host in it._cursor.run._context.executor._pool.hosts}


def make(*addresses):
    """An epoch that the hosts do not complete while the test waits for them."""
    return served_program.numbers(count=80_000, batch_size=8, seed=3, input_hosts=list(addresses))


@pytest.mark.slow
def test_hosts_of_a_name_join_leave_and_are_replaced(names, start, monkeypatch, caplog):
    first = start("127.0.0.1:0")
    second = start(f"127.0.0.2:{first.port}")
    address = f"penstock-input:{first.port}"
    names["penstock-input"] = ["127.0.0.1"]
    with make(address) as it, make() as threads:

        def until(done):
            """Compare batches until something has happened."""
            while not done(rows_of(it)):
                assert same(taken(it, 4), taken(threads, 4))

        until(lambda rows: rows == {"127.0.0.1": rows["127.0.0.1"]} and rows["127.0.0.1"] > 0)
        names["penstock-input"] = ["127.0.0.2", "127.0.0.1"]
        until(lambda rows: rows.get("127.0.0.2"))
        names["penstock-input"] = ["127.0.0.2"]  # the first one still works
        until(lambda rows: set(rows) == {"127.0.0.1", "127.0.0.2"})
        computed = rows_of(it)["127.0.0.1"]
        first.end()
        until(lambda rows: set(rows) == {"127.0.0.2"})
        third = start(f"127.0.0.3:{first.port}")
        second.process.kill()
        names["penstock-input"] = ["127.0.0.3"]
        until(lambda rows: rows.get("127.0.0.3") and len(rows) == 1)
        text = it.explain()
        assert f"1 input host (grpc://penstock-input:{third.port} (127.0.0.3): " in text
        former = int(text.partition("2 former: ")[2].partition(" rows")[0])
        assert former > computed > 0
        names["penstock-input"] = []  # nothing is known of the name, so its hosts stay
        until(lambda rows: "not known" in caplog.text and set(rows) == {"127.0.0.3"})
        names["penstock-input"] = ["127.0.0.3"]
        before = rows_of(it)["127.0.0.3"]
        until(lambda rows: rows["127.0.0.3"] > before)


@pytest.mark.slow
def test_two_addresses_of_a_process_are_one_host(names, start):
    host = start("0.0.0.0:0", "--insecure")
    names["localhost"] = ["127.0.0.2", "127.0.0.1"]
    addresses = [f"localhost:{host.port}", f"127.0.0.3:{host.port}"]
    with make(*addresses) as it, make() as threads:
        assert same(taken(it, 4), taken(threads, 4))
        assert sorted(bool(rows) for rows in rows_of(it).values()) == [False, False, True]
        assert "1 input host (grpc://" in it.explain()
        host.end()
        host = start(f"0.0.0.0:{host.port}", "--insecure")
        before = sum(rows_of(it).values())
        while sum(rows_of(it).values()) == before:
            assert same(taken(it, 4), taken(threads, 4))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "trusted"), [("penstock-input", True), ("another", False)])
def test_the_certificate_is_that_of_the_name(names, start, tmp_path, monkeypatch, name, trusted):
    command = shutil.which("openssl")
    if command is None:
        pytest.skip("needs openssl")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    options = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-days", "2", "-nodes"]
    made = [command, "req", "-x509", "-newkey", "rsa:2048", "-keyout", key, "-out", certificate, *options]
    subprocess.run(made, check=True, capture_output=True)
    host = start("127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key)
    names["penstock-input"] = ["127.0.0.1"]
    monkeypatch.setenv("PENSTOCK_INPUT_HOSTS_CA", str(certificate))
    address = f"grpc+tls://penstock-input:{host.port}"
    with make(address) as it:
        assert (rows_of(it)["127.0.0.1"] > 0) == trusted
    monkeypatch.setenv("PENSTOCK_INPUT_HOSTS", address)
    (check,) = host_checks()
    assert check.name == f"{address} (127.0.0.1)"
    assert (check.value == "2 threads") == trusted


@pytest.mark.slow
def test_a_name_that_does_not_resolve_yet(names, start, monkeypatch, caplog):
    host = start("127.0.0.1:0")
    address = f"penstock-input:{host.port}"
    monkeypatch.setenv("PENSTOCK_INPUT_HOSTS", address)
    (check,) = host_checks()
    assert (check.value, "not known" in check.problem) == ("not reachable", True)
    with make(address) as it, make() as threads:
        assert same(taken(it, 4), taken(threads, 4))
        assert f"grpc://{address}: not reachable (the name does not resolve: Name or service not known)" in it.explain()
        assert caplog.text.count("is tried again") == 1
        names["penstock-input"] = ["127.0.0.1"]
        while not rows_of(it).get("127.0.0.1"):
            assert same(taken(it, 4), taken(threads, 4))
        assert "resolve" not in it.explain()


def test_addresses_of_a_name(names):
    names["both"] = ["10.0.0.1", "fd00::1"]
    addresses = resolved(parse_address("grpc+tls://both:7000"))
    assert addresses == [HostAddress("10.0.0.1", 7000, True, "both"), HostAddress("fd00::1", 7000, True, "both")]
    assert [str(address) for address in addresses] == [
        "grpc+tls://both:7000 (10.0.0.1)",
        "grpc+tls://both:7000 (fd00::1)",
    ]
    assert [address.location for address in addresses] == ["10.0.0.1:7000", "[fd00::1]:7000"]
    assert resolved(parse_address("[::1]:7000")) == [HostAddress("::1", 7000, False)]


def test_names_that_python_cannot_encode():
    with pytest.raises(OSError, match="not a DNS name"):
        resolved(parse_address(f"{'x' * 70}:7000"))


def test_a_name_is_looked_up_again_only_after_its_look_up(names):
    names["a"] = ["10.0.0.1"]
    known = HostNames([parse_address("a:1"), parse_address("b:1")])
    first, second = known.due()
    assert known.due() == []
    assert known.resolve(first) == [HostAddress("10.0.0.1", 1, False, "a")]
    assert known.resolve(second) is None
    assert known.unresolved() == [second]
    assert first in known.due()


def test_hosts_that_left_are_kept_while_they_answer():
    name = parse_address("a:1")
    one, two = (HostAddress(ip, 1, False, "a") for ip in ("10.0.0.1", "10.0.0.2"))
    pool = HostPool([])
    pool.update(name, [one, two])
    for host in pool.due():
        assert pool.opened(host, Connection(), 1)
    loan = pool.borrow(1, [], 0.0, lambda: False)
    pool.completed(loan, 10)
    pool.update(name, [])
    assert {host.address for host in pool.hosts} == {one, two}
    loan = pool.borrow(1, [pool.hosts[1]], 0.0, lambda: False)
    pool.failed(loan, "gone", slow=False)
    assert [host.address for host in pool.hosts] == [two]
    assert pool.former().startswith("1 former: 1 rows")
    pool.update(name, [one, two])  # the address belongs to another machine now
    assert [(host.address, host.state) for host in pool.hosts] == [(two, HostState.UP), (one, HostState.DOWN)]


def test_the_other_address_of_a_process_is_used_if_the_first_one_fails():
    pool = HostPool([parse_address("10.0.0.1:1"), parse_address("[fd00::1]:1")])
    first, second = pool.due()
    assert [pool.is_alias(host, "process") for host in (first, second)] == [False, True]
    assert pool.opened(first, Connection(), 1)
    assert pool.due() == []
    assert len(pool.summary()) == 1
    pool.failed(pool.borrow(1, [], 0.0, lambda: False), "unplugged", slow=False)
    assert second in pool.due()
    assert not pool.is_alias(second, "process")


class Connection:
    """Connection that is only closed."""

    def close(self):
        pass
