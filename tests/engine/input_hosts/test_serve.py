"""Processes of `penstock serve`: the same batches as threads, also while they fail; and what is refused."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import urllib.request

import jax
import numpy as np
import pytest
import served_program
from input_hosts import Host, hosts
from taken_batches import same, taken

from penstock import DataIterator, Pipeline, data_iterator, errors, fn, train
from penstock.cli import main
from penstock.diagnose.environment_checks import host_checks
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.engine.input_hosts import json_messages
from penstock.engine.input_hosts.chunk_protocol import CHUNK, OPEN, SERVICE, STATUS
from penstock.engine.input_hosts.chunk_service import ChunkService
from penstock.engine.input_hosts.host_metrics import serve_metrics
from penstock.testing import write_photographs

grpc = pytest.importorskip("grpc")

pytestmark = pytest.mark.slow

MESH = jax.make_mesh((8,), ("batch",)) if jax.device_count() >= 8 else None


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return str(write_photographs(tmp_path_factory.mktemp("photographs"), samples_per_class=12))


@pytest.fixture(scope="module")
def served():
    with hosts(3) as started:
        yield started


def iterator(folder, **options):
    # Devices divide the batch of the trainer; hosts have none.
    how = {"sharding": jax.NamedSharding(MESH, jax.P("batch"))} if MESH else {}
    make = data_iterator(served_program.definition, auto_reset=True, **served_program.POLICY, **how)
    return make(folder=folder, batch_size=16, seed=7, **options)


def computed_by(it):
    return [host.rows for host in it._cursor.run._context.executor._pool.hosts]


def test_batches_and_states_do_not_depend_on_the_hosts(photographs, served):
    with iterator(photographs, num_threads=2, input_hosts=[]) as threads:
        expected = taken(threads, 12)
        counts = threads.stats()["bad samples"]
    assert not all(batch["valid"].all() for batch in expected), "some samples fail"
    assert counts
    state, done = None, 0
    # Each arrangement resumes in mid-epoch where the one before stopped.
    for options in (
        {"input_hosts": [host.address for host in served[:1]]},
        {"input_hosts": [host.address for host in served[:2]]},
        {"num_processes": 1},
        {"input_hosts": [host.address for host in served]},
        {"input_hosts": []},
    ):
        with iterator(photographs, **options) as it:
            if state is not None:
                it.set_state(state)
            count = 3 if done < 6 else 2 if done < 10 else 12 - done
            assert same(taken(it, count), expected[done : done + count])
            if addresses := options.get("input_hosts"):
                assert sum(computed_by(it)) > 0
                assert f"{len(addresses)} input host" in it.explain()
                assert "rows per second" in repr(it.stats())
            state, done = it.get_state(), done + count
    assert done == 12


def test_hosts_that_end_stop_and_restart_lose_no_batch(photographs, caplog):
    with hosts(2) as started, iterator(photographs, input_hosts=[]) as threads:
        expected = taken(threads, 60)
        with iterator(photographs, input_hosts=[host.address for host in started]) as it:
            batches = taken(it, 10)
            started[0].process.send_signal(signal.SIGSTOP)
            batches += taken(it, 10)
            started[1].end()
            batches += taken(it, 10)
            started[0].process.send_signal(signal.SIGCONT)
            started[1] = Host(listen=f"127.0.0.1:{started[1].port}")
            before = computed_by(it)
            # The restarted host is tried again after a while; its batches are not needed to end the wait.
            more = 0
            while not all(now > then for now, then in zip(computed_by(it), before, strict=True)):
                taken(it, 10)
                more += 10
            with iterator(photographs, input_hosts=[]) as again:
                again.set_state(it.get_state())
                assert same(taken(it, 10), taken(again, 10))
    assert same(batches, expected[:30])
    assert "it is tried again" in caplog.text


def test_programs_without_a_host_and_hosts_that_start_later(photographs, caplog):
    with hosts(1) as started:
        address = started[0].address
    with iterator(photographs, input_hosts=[address]) as it, iterator(photographs, input_hosts=[]) as threads:
        assert same(taken(it, 4), taken(threads, 4))
        assert computed_by(it) == [0]
        assert "rows in this process" in it.explain()
        late = Host(listen=address.removeprefix("grpc://"))
        try:
            while not computed_by(it)[0]:
                taken(it, 4)
        finally:
            late.end()


def test_a_host_that_starts_again_with_other_data_is_not_used(photographs, tmp_path, caplog):
    other = write_photographs(tmp_path, samples_per_class=5)
    with hosts(1) as started, iterator(photographs, input_hosts=[started[0].address]) as it:
        batches = taken(it, 4)
        started[0].end()
        started[0] = Host("--map", f"{photographs}={other}", listen=f"127.0.0.1:{started[0].port}")
        while "is not used any more" not in caplog.text:
            batches += taken(it, 4)
        it.close()  # which connects again, but not to this host
        batches += taken(it, 4)
        with iterator(photographs, input_hosts=[]) as threads:
            assert same(batches, taken(threads, len(batches)))
    assert "differs in data" in caplog.text


def test_errors_are_those_of_threads(served):
    messages = []
    for addresses in ([], [served[0].address]):
        with served_program.failing(count=40, batch_size=8, seed=2, input_hosts=addresses) as it:
            for _ in range(2):
                with pytest.raises(errors.SampleError) as info:
                    list(it)
                messages.append(str(info.value))
    assert len(set(messages)) == 1


def test_the_environment_names_hosts(monkeypatch, served):
    monkeypatch.setenv("PENSTOCK_INPUT_HOSTS", f"{served[0].address}, {served[1].address}")
    with served_program.numbers(count=40, factor=3, batch_size=8) as it:
        assert "2 input hosts" in it.explain()
    with served_program.numbers(count=40, batch_size=8, input_hosts=[]) as it:
        assert "input host" not in it.explain()
    with train.batches(np.arange(16), batch_size=8, sharding=None) as it:
        assert "input host" not in it.explain()


def test_paths_of_the_trainer_are_mapped_and_back(photographs, tmp_path):
    folder = tmp_path / "there"
    folder.symlink_to(photographs)
    program = f"{served_program.__file__}:training"
    with hosts(1, "--map", f"{folder}={photographs}", program=program) as (host,):
        assert host.line.startswith("definition at grpc://127.0.0.1:")
        bad = []
        for addresses in ([host.address], []):
            # Each has its own file, which names the samples that fail.
            file = tmp_path / f"bad{len(bad)}"
            make = data_iterator(served_program.definition, **served_program.POLICY, quarantine=file)
            with make(folder=str(folder), batch_size=16, seed=7, input_hosts=addresses) as it:
                list(it)
                assert not addresses or computed_by(it)[0] > 0
            bad.append(sorted(file.read_text().splitlines()))
    assert bad[0] == bad[1]
    assert str(folder) in bad[0][0]


def test_the_trainer_tells_if_conditions_on_nodes_work():
    make = data_iterator(served_program.branching, enable_conditionals=True)
    with hosts(1, program=f"{served_program.__file__}:branching") as (host,):
        batches = [
            [batch["x"].tolist() for batch in make(count=40, batch_size=8, seed=2, input_hosts=addresses)]
            for addresses in ([host.address], [])
        ]
    assert batches[0] == batches[1]
    assert min(min(batches[0], key=min)) < 0


def test_other_data_are_refused_with_both_values(tmp_path, photographs, caplog):
    other = write_photographs(tmp_path, samples_per_class=5)
    with (
        hosts(1, "--map", f"{photographs}={other}") as (host,),
        pytest.raises(errors.UsageError, match=r"differs in data(.|\n)*mix:20:(.|\n)*mix:48:"),
    ):
        iterator(photographs, input_hosts=[host.address])
    assert "is not used any more" not in caplog.text  # the error says it


def test_other_definitions_are_refused(served):
    @data_iterator
    def numbers(count, factor=1):
        return {"x": fn.readers.arrays(np.arange(count), random_shuffle=True) + factor}

    @data_iterator
    def absent(count):
        return {"x": fn.readers.arrays(np.arange(count))}

    with pytest.raises(errors.UsageError, match=r"differs in definition(.|\n)*on the host(.|\n)*in this process"):
        numbers(count=40, batch_size=8, input_hosts=[served[0].address])
    with pytest.raises(errors.UsageError, match="serves another definition"):
        absent(count=40, batch_size=8, input_hosts=[served[0].address])


def test_definitions_that_no_host_can_compute():
    somewhere = ["grpc://127.0.0.1:1"]

    @data_iterator(size=8)
    def fed():
        return {"x": fn.external_source(lambda: np.zeros((2, 3)))}

    with pytest.raises(errors.DefinitionError, match=r"input hosts cannot compute(.|\n)*at:"):
        fed(batch_size=2, input_hosts=somewhere)

    generator = np.random.default_rng(1)

    @data_iterator
    def drawing():
        read = fn.readers.arrays(np.arange(8))
        return {"x": fn.python_function(read, function=lambda x: x + generator.integers(2), dtype=np.int64, ndim=0)}

    with pytest.raises(errors.ArgumentTypeError, match=r"random generator of its own(.|\n)*rng"):
        drawing(batch_size=2, input_hosts=somewhere)

    @data_iterator
    def bound(rows):
        return {"x": fn.readers.arrays(rows)}

    with pytest.raises(errors.UsageError, match=r"argument rows is not plain data(.|\n)*bind it in the program"):
        bound(rows=np.arange(8), batch_size=2, input_hosts=somewhere)
    with pytest.raises(errors.UsageError, match="exclude each other"):
        bound(rows=[1, 2], batch_size=2, input_hosts=somewhere, num_processes=1)
    with pytest.raises(errors.UsageError, match="prepare batches ahead"):
        bound(rows=[1, 2], batch_size=2, input_hosts=somewhere, exec_async=False)
    with pytest.raises(errors.UsageError, match=r"address of an input host is wrong(.|\n)*grpc://HOST:PORT"):
        bound(rows=[1, 2], batch_size=2, input_hosts=["http://x"])
    with pytest.raises(errors.UsageError, match="input_hosts has the wrong type"):
        bound(rows=[1, 2], batch_size=2, input_hosts="x:1")
    with pytest.raises(errors.UsageError, match="listed twice"):
        bound(rows=[1, 2], batch_size=2, input_hosts=["x:1", "grpc://x:1"])
    pipeline = Pipeline(batch_size=2, input_hosts=somewhere)
    with pipeline:
        pipeline.set_outputs(fn.readers.arrays(np.arange(8)))
    with pytest.raises(errors.UsageError, match=r"not those of run\(\)"):
        pipeline.run()
    with pytest.raises(errors.UsageError, match="not made by calling one"):
        DataIterator(pipeline, ["x"])


def test_tokens(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("secret\n")
    with hosts(1, "--token", tmp_path / "token") as (host,):
        for token, allowed in (("", False), ("wrong", False), ("secret", True)):
            monkeypatch.setenv("PENSTOCK_INPUT_HOSTS_TOKEN", token)
            with served_program.numbers(count=40, batch_size=8, input_hosts=[host.address]) as it:
                assert (computed_by(it)[0] > 0) == allowed
                assert ("token" in it.explain()) != allowed


def test_tls(tmp_path, monkeypatch):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = shutil.which("openssl")
    if command is None:
        pytest.skip("needs openssl")
    options = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-nodes"]
    made = [command, "req", "-x509", "-newkey", "rsa:2048", "-keyout", key, "-out", certificate, *options]
    subprocess.run(made, check=True, capture_output=True)
    with hosts(1, "--tls-cert", certificate, "--tls-key", key, listen="localhost:0") as (host,):
        assert host.address.startswith("grpc+tls://localhost:")
        for roots, trusted in ((None, False), (certificate, True)):
            if roots is not None:
                monkeypatch.setenv("PENSTOCK_INPUT_HOSTS_CA", str(roots))
            with served_program.numbers(count=40, batch_size=8, input_hosts=[host.address]) as it:
                assert (computed_by(it)[0] > 0) == trusted
    monkeypatch.setenv("PENSTOCK_INPUT_HOSTS_CA", str(tmp_path / "none.pem"))
    with pytest.raises(errors.UsageError, match="cannot be read"):
        served_program.numbers(count=40, batch_size=8, input_hosts=[host.address])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "0.0.0.0:0"], "neither TLS nor a flag protects it"),
        (["--tls-cert", "none.pem"], "TLS needs a certificate and its key"),
        (["--listen", "grpc+tls://127.0.0.1:0"], "grpc.tls needs a certificate"),
        (["--listen", "nowhere"], "address of an input host is wrong"),
    ],
)
def test_unsafe_commands(arguments, message, capsys):
    assert main(["serve", served_program.__file__, *arguments]) == 1
    assert message in capsys.readouterr().err.replace("+", ".")


def test_programs_without_definitions(tmp_path, capsys):
    (tmp_path / "empty.py").write_text("x = 1")
    assert main(["serve", str(tmp_path / "empty.py")]) == 1
    assert main(["serve", f"{served_program.__file__}:none"]) == 1
    text = capsys.readouterr().err
    assert "empty.py has no definition" in text
    assert "has no definition 'none'" in text


def test_definitions_of_one_name(tmp_path, capsys):
    (tmp_path / "twice.py").write_text(
        "from penstock import data_iterator, fn\n"
        "def make(values):\n"
        "    @data_iterator\n"
        "    def definition():\n"
        "        return {'x': fn.readers.arrays(values)}\n"
        "    return definition\n"
        "training = again = make([1])\n"
        "evaluation = make([2])\n"
    )
    assert main(["serve", str(tmp_path / "twice.py")]) == 1
    text = capsys.readouterr().err
    assert "several definitions have one name" in text
    assert "twice.py:training; or give each function a name of its own" in text


def mutated(chance, message):
    """Return a message with random changes: of bytes, or of values of its JSON."""
    data = bytearray(message)
    kind = chance.randrange(4)
    if kind == 0:
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data)
    if kind == 1:
        return bytes(data[: chance.randrange(len(data))])
    value = json.loads(message)
    odd = (None, -1, 0, 2**63, 10**30, 1.5, "", "x" * 100, [], {}, [[0, 2**40]], True, [[[[]]]], {"path": "/"})
    place = value
    while isinstance(place, dict | list) and place:
        key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], dict | list) or not place[key] or chance.randrange(3) == 0:
            if kind == 2:
                place[key] = chance.choice(odd)
            elif isinstance(place, dict):
                place[f"{key}x"] = place.pop(key)
            else:
                place.append(chance.choice(odd))
            break
        place = place[key]
    return json.dumps(value).encode()


def test_mutated_messages_are_refused_or_answered(served):
    count = int(os.environ.get("PENSTOCK_MUTATIONS", "300"))
    chance = random.Random(5)
    host = served[2]
    with (
        served_program.numbers(count=40, batch_size=8, seed=3, input_hosts=[host.address]) as it,
        grpc.insecure_channel(host.address.removeprefix("grpc://")) as channel,
    ):
        chunk = channel.unary_stream(f"/{SERVICE}/{CHUNK}")
        executor = it._cursor.run._context.executor
        opened, key = executor._open_body, executor._key
        step = {"program": key, "step": [0, 0, [0], 8], "rows": [[0, 8]], "dtypes": ["int32"]}
        ticket = json_messages.encode(step)
        answered, refused = 0, set()
        for _ in range(count):
            try:
                if chance.randrange(3):
                    list(chunk(mutated(chance, ticket), timeout=30))
                else:
                    action = chance.choice([OPEN, OPEN, STATUS, "Other", ""])
                    channel.unary_unary(f"/{SERVICE}/{action}")(mutated(chance, opened), timeout=30)
                answered += 1
            except grpc.RpcError as error:
                refused.add(error.code())
        assert answered
        assert refused == {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED}
        _, piece = chunk(ticket, timeout=30)
        expected = next(served_program.numbers(count=40, batch_size=8, seed=3, input_hosts=[]))["x"]
        assert np.array_equal(np.frombuffer(piece, np.int32), expected)
    assert host.process.poll() is None


def test_doctor(served, monkeypatch):
    monkeypatch.setenv("PENSTOCK_INPUT_HOSTS", f"{served[0].address},127.0.0.1:1")
    up, down = host_checks()
    assert (up.value, up.problem) == ("2 threads", "")
    assert down.value == "not reachable"
    assert down.problem


def test_the_stall_monitor_knows_hosts(served):
    with (
        served_program.numbers(count=400, batch_size=8, input_hosts=[served[0].address]) as it,
        train.StallMonitor(it) as watch,
    ):
        for batch in watch:
            watch.step_done(batch["x"])
        if "fix" in watch.summary():  # the step is nothing, so it waits
            assert "more input hosts" in watch.summary()


def test_metrics():
    parser = pytest.importorskip("prometheus_client.parser")
    service = ChunkService(lambda _: None, ThreadExecutor(1, name="metrics"))
    service.totals.rows = 5
    port = serve_metrics(service, 0, "127.0.0.1")
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert families["penstock_host_rows"].samples[0].value == 5
    assert families["penstock_host_waiting"].type == "gauge"
