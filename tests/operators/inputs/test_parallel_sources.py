"""Sources in worker processes: the same batches as in one, errors, processes that die or hang, nothing left over."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import worker_sources as sources

from penstock import DataIterator, Pipeline, data_iterator, errors, fn
from penstock.engine.host import chunk_scheduler

psutil = pytest.importorskip("psutil", reason="psutil is not installed (dependency group test)")


def pipeline(source, workers=2, batch_size=4, pickler=None, **options):
    with Pipeline(batch_size, 2, seed=0, py_num_workers=workers, py_callback_pickler=pickler) as made:
        nodes = fn.external_source(source, **{"parallel": True, "batch": False, **options})
        made.set_outputs(*(nodes if isinstance(nodes, list) else [nodes]))
    return made


def log(made, runs=9):
    """What a pipeline gives, batch by batch; ends are answered with `reset`."""
    seen = []
    for _ in range(runs):
        try:
            seen.append([np.asarray(s).tolist() for output in made.run() for s in output])
        except StopIteration:
            seen.append("end")
            made.reset()
    made.close()
    return seen


others = []
"""Processes that are there before a test: servers of other tests."""


def children():
    return [child for child in psutil.Process().children() if child not in others]


def descriptors():
    """How many descriptors this process has, but for those of the network, which servers of other tests open."""
    process = psutil.Process()
    return process.num_fds() - len(process.net_connections("inet"))


def running_threads():
    """Return all threads but the one that reports slow waits, which ends when nothing waits for a while."""
    return {thread for thread in threading.enumerate() if thread.name != "slow waits of penstock"}


@pytest.fixture(autouse=True)
def nothing_left():
    """No process, thread, descriptor or shared memory is left by a test."""
    others[:] = psutil.Process().children()
    before, threads = descriptors(), running_threads()
    yield
    gc.collect()
    for thread in running_threads() - threads:  # those of what was dropped end by themselves
        thread.join(timeout=10)
    left = children()
    for child in left:  # so that the next test does not find them
        child.kill()
    assert not left
    assert descriptors() <= before  # fewer where another test's connection has ended meanwhile
    assert running_threads() <= threads
    assert "penstock" not in "".join(region.path for region in psutil.Process().memory_maps() if "memfd" in region.path)


CASES = {
    "samples": (sources.numbered, {}),
    "samples of two outputs, far ahead": (sources.pairs, {"num_outputs": 2, "prefetch_queue_depth": 5}),
    "samples of a known kind": (sources.numbered, {"dtype": np.int32, "ndim": 1}),
    "batches by number": (sources.by_number, {"batch": True, "prefetch_queue_depth": 2}),
    "batches by info": (sources.by_info, {"batch": True, "batch_info": True}),
    "batches get smaller": (sources.fewer, {"batch": True}),
    "generator function": (sources.generated, {"batch": True}),
    "generator function, quiet": (sources.generated, {"batch": True, "cycle": "quiet", "prefetch_queue_depth": 4}),
    "generator function, raise": (sources.generated, {"batch": True, "cycle": "raise", "prefetch_queue_depth": 4}),
    "list, raise": (sources.LISTED, {"batch": True, "cycle": "raise"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_same_batches_as_in_one_process(case):
    source, options = CASES[case]
    assert log(pipeline(source, **options)) == log(pipeline(source, workers=0, **options))


@pytest.mark.parametrize("lengths", [(3, 2), (2, 3)])
def test_sources_that_end_apart_lose_nothing(lengths):
    def ends(workers):
        with Pipeline(4, 2, py_num_workers=workers) as made:
            options = {"parallel": True, "cycle": "raise", "prefetch_queue_depth": 3}
            made.set_outputs(*(fn.external_source(sources.Batches(length), **options) for length in lengths))
        return [batch if batch == "end" else (batch[0][0], batch[4][0]) for batch in log(made, 12)]

    seen = ends(workers=2)
    assert seen == ends(workers=0)
    for column, length in enumerate(lengths):
        given = [batch[column] for batch in seen if batch != "end"]
        assert given == [number % length for number in range(len(given))]


def test_other_processes_call_it_and_never_import_jax():
    made = pipeline(sources.whereabouts, workers=3)
    rows = np.concatenate([made.run()[0].as_array() for _ in range(2)])
    assert set(rows[:, 0].tolist()) == {child.pid for child in children()}
    assert len(children()) == 3
    assert not rows[:, 1].any()
    made.close()
    assert not children()
    assert made.run()[0].as_array()[0, 0] not in rows[:, 0]  # it may be run again
    del made
    gc.collect()
    assert not children()


@pytest.mark.parametrize("start", ["fork", "forkserver", "spawn"])
def test_workers_are_new_processes_however_dali_would_start_them(start):
    with Pipeline(4, 1, py_num_workers=1, py_start_method=start) as made:
        made.set_outputs(fn.external_source(sources.whereabouts, parallel=True, batch=False))
    number, jax_is_there = made.run()[0].as_array()[0, :2].tolist()
    assert (number, jax_is_there) == (children()[0].pid, 0)
    made.close()


def test_no_workers_means_this_process():
    made = pipeline(sources.whereabouts, workers=0)
    assert (made.run()[0].as_array()[:, 0] == os.getpid()).all()


def test_sources_share_the_workers_and_states_go_on():
    def define():
        a = fn.external_source(sources.numbered, parallel=True, batch=False)
        b = fn.external_source(sources.by_number, parallel=True)
        return fn.pad(a, fill_value=-1, shape=[3]), b

    make = data_iterator(output_map=["a", "b"])(define)
    run = make(batch_size=4, py_num_workers=2)
    first = [np.asarray(batch["a"]).tolist() for batch in run]
    assert (len(first), len(children())) == (3, 2)
    next(iter(run))
    state = run.get_state()
    assert np.asarray(next(run)["a"])[:, 0].tolist() == [104, 105, 106, 107]
    run.set_state(state)
    assert np.asarray(next(run)["a"])[:, 0].tolist() == [104, 105, 106, 107]
    run.close()


@pytest.mark.parametrize("error", [(KeyError, "nothing there"), (sources.TwoArgumentsError, 1, 2)])
def test_the_users_error_with_its_line_and_sample(error):
    made = pipeline(sources.Fails(6, *error))
    made.run()
    for _ in range(2):  # the workers live on
        with pytest.raises(errors.SourceError, match="sample 6 of epoch 0") as caught:
            made.run()
        assert error[0].__name__ in str(caught.value)
        assert "worker_sources.py" in str(caught.value)
        assert "test_parallel_sources.py" in str(caught.value)  # the line of the definition
        assert "the line of the user's" in "".join(caught.value.__notes__)
    assert len(children()) == 2
    made.close()


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_worker_that_dies_loses_no_batch(how, tmp_path):
    made = pipeline(sources.Dies(str(tmp_path / "mark"), how=how), prefetch_queue_depth=2)
    run = DataIterator(made, ["x"])
    rows = np.concatenate([next(run)["x"] for _ in range(4)])
    assert rows[:, 0].tolist() == list(range(16))
    assert len(children()) == 2
    assert len(np.unique(rows[:, 1])) == 3, "only the worker that died is replaced"
    assert run.stats().replaced_source_workers == 1
    assert "replaced after they ended: 1" in str(run.stats())
    run.close()


def test_an_error_without_arguments_whose_cause_was_not_raised():
    made = pipeline(sources.fails_without_arguments)
    made.run()
    with pytest.raises(errors.UsageError, match=r"UsageError\n  raised at: .*worker_sources\.py"):
        made.run()
    assert len(children()) == 2
    made.close()


def test_samples_of_several_dtypes():
    made = pipeline(sources.mixed)
    made.run()
    with pytest.raises(errors.SourceError, match="differs in kind"):
        made.run()
    made.close()


@pytest.mark.parametrize(("how", "message"), [("kill", "ended by SIGKILL"), ("exit", "exit code 3")])
def test_a_sample_that_ends_every_worker(how, message):
    made = pipeline(sources.Dies(None, how=how))
    made.run()
    with pytest.raises(
        errors.SourceError, match=f"batch 1 of epoch 0: worker process .* {message}(.|\n)*out of memory"
    ):
        made.run()
    made.close()


def test_the_position_of_a_generator_is_lost_with_its_worker():
    made = pipeline(sources.killed_generator, batch=True)
    assert [made.run()[0].as_array()[0, 0] for _ in range(2)] == [0, 1]
    with pytest.raises(errors.SourceError, match=r"ended by SIGKILL(.|\n)*out of memory"):
        made.run()
    assert made.run()[0].as_array()[0, 0] == 0, "it has restarted"
    made.close()


@pytest.mark.parametrize("depth", [1, 3])
def test_a_generator_does_not_restart_silently_when_another_source_ends_its_worker(depth, tmp_path):
    with Pipeline(4, 2, py_num_workers=1) as made:
        dies = sources.Dies(str(tmp_path / "mark"), how="kill")
        generated = fn.external_source(sources.Batches(9), parallel=True, prefetch_queue_depth=depth)
        made.set_outputs(generated, fn.external_source(dies, parallel=True, batch=False))
    taken = []
    with pytest.raises(errors.SourceError, match="ended by SIGKILL"):
        taken.extend(made.run()[0].at(0)[0] for _ in range(5))
    assert taken == list(range(len(taken)))
    made.close()


@pytest.fixture
def light_batches(monkeypatch):
    """Let batches count as light on a busy machine, too: for others, `run` also waits for the batch after the next."""
    monkeypatch.setattr(chunk_scheduler, "_LIGHT_BATCH_SECONDS", 100.0)


@pytest.mark.usefixtures("light_batches")
def test_closing_while_a_worker_hangs():
    made = pipeline(sources.hangs)
    made.run()
    made.run()  # the third batch has been asked for
    made.close()
    assert not children()


@pytest.mark.usefixtures("light_batches")
def test_closing_by_another_thread_while_one_waits():
    made = pipeline(sources.hangs)
    made.run()
    made.run()
    caught, waits = [], threading.Event()

    def consume():
        waits.set()
        try:
            made.run()
        except errors.ContextError as error:
            caught.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    waits.wait()
    while thread.is_alive():  # it may not wait yet when it is closed for the first time
        made.close()
        thread.join(0.1)
    assert "closed while" in str(caught[0])
    made.close()


PROGRAM = """
import os, psutil, worker_sources
from penstock.sources.external.external_stream import FunctionStream
from penstock.sources.external.array_conversion import SampleKind
from penstock.sources.external.processes.task_pickling import pickled
from penstock.sources.external.processes.worker_processes import WorkerPool
from penstock.sources.external.processes.process_stream import ParallelStream
from penstock.sources.stream import BatchRequest

function, kinds = worker_sources.{source}, [SampleKind()]
source = FunctionStream(function, informed=True, batch_info=False, kinds=kinds, batch=False, name="it")
stream = ParallelStream(source, pickled(source, "it"), WorkerPool(2), ahead=1, alone=False)
stream.batch(BatchRequest(0, 0, 4, 4))
stream.prefetch(BatchRequest(0, 8, 4, 4))
print(*[child.pid for child in psutil.Process().children()], flush=True)
{then}
"""


@pytest.mark.parametrize(
    ("source", "then"),
    [("hangs", "os.kill(os.getpid(), 9)"), ("numbered", "raise SystemExit")],
    ids=["killed", "exits"],
)
def test_workers_end_with_their_program(source, then):
    program = PROGRAM.format(source=source, then=then)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    workers = [psutil.Process(int(pid)) for pid in done.stdout.split() if psutil.pid_exists(int(pid))]
    assert not psutil.wait_procs(workers, timeout=30)[1]
    assert len(done.stdout.split()) == 2


def test_what_pickle_cannot_send(monkeypatch):
    factor, lock = 3, threading.Lock()

    def local(info):
        return np.int32([info.idx_in_epoch * factor])

    with pytest.raises(errors.ArgumentTypeError, match=r"cannot be sent to a worker(.|\n)*test_parallel"):
        pipeline(lambda info: lock)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(errors.MissingExtraError, match=r"penstock\[parallel\]"):
        pipeline(local)
    ((first, *_),) = log(pipeline(local, pickler=(sources.ByValue, {"added": b"."}, {"skipped": 1})), runs=1)
    assert first == [42]
