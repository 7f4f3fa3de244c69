"""Worker processes: the same batches as threads, also when workers are killed; refusals; and how workers end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import psutil
import pytest
from taken_batches import same, taken

from penstock import Pipeline, data_iterator, errors, fn
from penstock.engine.host import chunk_scheduler
from penstock.engine.host.process_executor import ProcessExecutor
from penstock.sources.external.processes.task_pickling import pickled
from penstock.sources.external.processes.worker_processes import WorkerPool
from penstock.testing import write_photographs

MESH = jax.make_mesh((8,), ("batch",)) if jax.device_count() >= 8 else None


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return str(write_photographs(tmp_path_factory.mktemp("photographs"), samples_per_class=12))


def definition(folder):
    """Shuffled photographs of several sizes, a mixture, random numbers, and samples that fail."""
    files, labels = fn.readers.file(file_root=folder, random_shuffle=True, flat_labels=True)
    images = fn.resize(fn.decoders.image_random_crop(files), size=[8, 8])

    def fails(image, label, rng):
        if label == 1 and rng.integers(4) == 0:
            raise ValueError("unlucky")
        return image + rng.integers(0, 3, image.shape, np.uint8)

    images = fn.python_function(images, labels, function=fails)
    return {"images": fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip()), "labels": labels}


def iterator(folder, **options):
    how = {"sharding": jax.NamedSharding(MESH, jax.P("batch"))} if MESH else {}
    make = data_iterator(
        definition, ["images", "labels", "valid"], on_error="skip", max_bad_rate=(1.0, 100), auto_reset=True, **how
    )
    return make(folder=folder, batch_size=16, seed=7, **options)


@pytest.mark.slow
def test_batches_and_states_do_not_depend_on_the_workers(photographs):
    with iterator(photographs, num_threads=2) as threads:
        expected = taken(threads, 9)
    assert not all(batch["valid"].all() for batch in expected), "some samples fail"
    state, done = None, 0
    # Each arrangement resumes in mid-epoch where the one before stopped.
    for processes in (1, 2, 4, 0):
        with iterator(photographs, num_processes=processes) as it:
            if state is not None:
                it.set_state(state)
            count = min(2, 9 - done) if processes else 9 - done
            assert same(taken(it, count), expected[done : done + count])
            state, done = it.get_state(), done + count
            assert (f"{processes} worker process" in it.explain()) == (processes > 0)
            assert (f"{processes} worker process" in repr(it.stats())) == (processes > 0)


def numbers(processes, function, values=64, **options):
    pipeline = Pipeline(batch_size=8, seed=3, num_processes=processes, **options)
    with pipeline:
        read = fn.readers.arrays(np.arange(values, dtype=np.int64), random_shuffle=True)
        pipeline.set_outputs(fn.python_function(read, function=function, dtype=np.int64, ndim=0))
    return pipeline


@pytest.mark.slow
def test_killed_workers_lose_no_batch():
    plain, pipeline = numbers(0, lambda x: x * 3), numbers(2, lambda x: x * 3)
    executor = pipeline._start().cursor.run._context.executor
    for batch in range(40):
        if batch % 8 == 4:
            os.kill(executor.pids[batch // 8 % len(executor.pids)], signal.SIGKILL)
        assert pipeline.run()[0].as_array().tolist() == plain.run()[0].as_array().tolist()
    assert "replaced after they ended" in pipeline.explain()
    pipeline.close()
    assert executor.pids == ()


@pytest.mark.parametrize("processes", [0, 2])
def test_processes_share_cheap_batches_that_a_thread_computes_in_pairs(processes, monkeypatch):
    monkeypatch.setattr(chunk_scheduler, "_LIGHT_BATCH_SECONDS", 0)
    with Pipeline(batch_size=4, num_threads=2, num_processes=processes, seed=3) as pipeline:
        pipeline.set_outputs(fn.readers.arrays(np.arange(64)) * 3)
    positions = set()
    for _ in range(16):
        pipeline.run()
        positions |= {batch.slice_index for batch in pipeline._start().cursor.run._loader._ahead}
    pipeline.close()
    # How many batches begin before the first cost is known, and are therefore alone, depends on the threads.
    assert positions - {None} == (set() if processes else {0, 1})


@pytest.mark.slow
def test_rows_that_end_every_worker():
    def ends(number):
        if number == 40:
            os._exit(7)
        return number

    pipeline = numbers(1, ends)
    ended = None
    try:
        for _ in range(8):
            pipeline.run()
    except errors.SourceError as error:
        ended = str(error)
    assert ended is not None
    assert "of the batch at row" in ended
    assert "exit code 7" in ended
    pipeline.close()


@pytest.mark.slow
def test_dropped_iterators_end_their_workers():
    pipeline = numbers(1, lambda x: x)
    pipeline.run()
    (worker,) = map(psutil.Process, pipeline._start().cursor.run._context.executor.pids)
    del pipeline
    assert not psutil.wait_procs([worker], 20)[1]


PROGRAM = """
import os, numpy as np
from penstock import Pipeline, fn

pipeline = Pipeline(batch_size=8, num_processes=2)
with pipeline:
    pipeline.set_outputs(fn.readers.arrays(np.arange(64)))
pipeline.run()
print(*pipeline._start().cursor.run._context.executor.pids, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_workers_end_with_a_killed_program():
    program = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert program.returncode == -signal.SIGKILL, program.stderr
    workers = []
    for pid in map(int, program.stdout.split()):
        try:
            workers.append(psutil.Process(pid))
        except psutil.NoSuchProcess:  # it has ended already
            continue
    assert not psutil.wait_procs(workers, 20)[1]


@pytest.mark.slow
def test_definitions_that_only_this_process_can_compute():
    fed = Pipeline(batch_size=2, num_processes=1)
    with fed:
        fed.set_outputs(fn.external_source(lambda: np.zeros((2, 3))))
    with pytest.raises(errors.DefinitionError, match=r"gets its batches in this process(.|\n)*readers.items"):
        fed.build()
    generator = np.random.default_rng(1)
    with pytest.raises(errors.ArgumentTypeError, match=r"random generator of its own(.|\n)*test_process_executor.py"):
        numbers(1, lambda x: x + generator.integers(2)).build()
    with pytest.raises(errors.UsageError, match="prepare batches ahead"):
        numbers(1, int, exec_async=False)

    class Unsendable:
        def __call__(self, number):
            return number

        def __reduce__(self):
            raise TypeError("it holds a connection")

    with pytest.raises(errors.ArgumentTypeError, match=r"it holds a connection(.|\n)*test_process_executor.py"):
        numbers(1, Unsendable()).build()


@pytest.mark.slow
def test_large_and_mapped_arrays_are_not_copied_for_each_worker(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(1 << 20))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    task = pickled({"mapped": mapped[::-2], "large": np.arange(1 << 16), "small": np.arange(4)}, "it")
    assert len(task.payload) < 4096
    assert [place.shape for place in task.arrays] == [(8 << 16,)]
    pipelines = [Pipeline(batch_size=8, num_processes=processes) for processes in (0, 1)]
    for pipeline in pipelines:
        with pipeline:
            pipeline.set_outputs(fn.readers.arrays(mapped, random_shuffle=True), fn.readers.arrays(np.arange(1 << 20)))
    plain, other = ([column.as_array().tolist() for column in pipeline.run()] for pipeline in pipelines)
    assert plain == other
    pipelines[1].close()


@pytest.mark.slow
def test_changes_of_a_private_map_reach_the_workers(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(1 << 16))
    private = np.load(tmp_path / "rows.npy", mmap_mode="c")
    private *= 10
    assert np.array_equal(pickled({"private": private[::2]}, "it").load()["private"], 10 * np.arange(1 << 16)[::2])


def test_functions_that_are_sent_keep_their_file():
    outer = pickled(lambda: lambda x: x / 0, "it").load()
    with pytest.raises(ZeroDivisionError) as caught:
        outer()(1)
    assert [Path(entry.path) for entry in caught.traceback] == [Path(__file__)] * 2


@pytest.mark.parametrize("mode", ["r", "c"])
@pytest.mark.parametrize("rows", [64, 1 << 16])
def test_a_mapped_file_that_is_cut_before_it_is_sent_to_workers(mode, rows, tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(rows))
    array = np.load(tmp_path / "rows.npy", mmap_mode=mode)
    os.truncate(tmp_path / "rows.npy", 0)  # touching the memory would now kill the process
    with pytest.raises(errors.SourceError, match=r"rows.npy' became shorter while it was mapped"):
        pickled({"array": array}, "it")


@pytest.mark.parametrize("keep", [0, 200])
def test_a_mapped_file_that_is_cut_before_a_worker_maps_it(keep, tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(64))
    task = pickled(np.load(tmp_path / "rows.npy", mmap_mode="r"), "it")
    os.truncate(tmp_path / "rows.npy", keep)
    with pytest.raises(errors.SourceError, match=r"rows.npy', which the program has mapped"):
        task.load()


@pytest.mark.slow
def test_workers_that_end_while_nobody_uses_them_are_replaced():
    pool = WorkerPool(2)
    first, second = pool.borrow(0), pool.borrow(0)
    for process in (first, second):
        pool.give_back(process)
        os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(process.pid)])
    third = pool.borrow(0)
    assert third.running
    assert (pool.pids, pool.replaced) == ((third.pid,), 2)
    pool.close()


@pytest.mark.slow
def test_a_worker_that_comes_back_after_the_end_is_not_used_again():
    pool = WorkerPool(1)
    process = pool.borrow(0)
    pool.close()
    process.closed = False  # as for a thread that is faster than the end of the workers
    pool.give_back(process)
    assert pool.borrow(1) is not process
    pool.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"])
def test_signals_to_the_job_do_not_end_workers(name, monkeypatch):
    # Python ignores a path of another type than str, and so must workers.
    monkeypatch.setattr(sys, "path", [*sys.path, Path("/nowhere")])
    pipeline = numbers(1, lambda x: x * 3)
    executor = pipeline._start().cursor.run._context.executor
    first = pipeline.run()[0].as_array().tolist()
    (pid,) = executor.pids
    os.kill(pid, getattr(signal, name))
    assert pipeline.run()[0].as_array().tolist() != first
    assert executor.pids == (pid,)
    assert "replaced" not in pipeline.explain()
    pipeline.close()


@pytest.mark.slow
def test_one_executor_computes_one_program():
    executor = ProcessExecutor(1)
    first, second = numbers(0, int)._start().cursor.run, numbers(0, int)._start().cursor.run
    executor.prepare(first._loader._program)
    with pytest.raises(errors.InternalError, match="one program"):
        executor.prepare(second._loader._program)
