"""Programs that an input host builds for several trainers."""

import json
import shutil

import numpy as np
import pytest

from penstock import Pipeline, data_iterator, fn
from penstock.engine.host.machine_identity import differences
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.engine.input_hosts import json_messages
from penstock.iterate.dry_run import dry_run
from penstock.iterate.host_description import describe
from penstock.iterate.hosted_definition import HostedDefinition, ProgramFactory, program_identity
from penstock.testing import write_photographs
from tests.support.memory_stores import end_event, ends


@data_iterator
def cached(folder, memory="1 MB"):
    files, labels = fn.readers.file(file_root=folder, random_shuffle=True, flat_labels=True)
    images = fn.resize(fn.decoders.image(files), size=(16, 16))
    return {"images": fn.cache(fn.python_function(images, function=np.negative), memory=memory), "labels": labels}


def test_programs_of_one_cache_share_its_memory(tmp_path, stores):
    folders = [str(write_photographs(tmp_path / name, samples_per_class=2)) for name in ("one", "other")]
    descriptions = []
    for folder, seed, rows in ((folders[0], 1, 4), (folders[0], 2, 4), (folders[0], 2, 2), (folders[1], 1, 4)):
        # Nobody listens at the address: the iterator only describes itself.
        options = {"batch_size": rows, "seed": seed, "input_hosts": ["grpc://127.0.0.1:1"]}
        with dry_run(lambda _: None), cached(folder=folder, **options) as trainer:
            descriptions.append(json.loads(json.dumps(describe(trainer))))
    ended = list(map(end_event, stores()))
    del trainer
    assert all(map(ends, ended))
    executor = ThreadExecutor(1, name="hosted")
    factory = ProgramFactory({"cached": HostedDefinition.of(cached)}, [], executor)
    programs = [factory.build(description)[0] for description in descriptions]
    assert [store.budget.limit for store in stores()] == [10**6] * 2  # one for each data set
    end, other_end = map(end_event, stores())
    del programs[:3]
    assert ends(end)
    assert not other_end.is_set()
    assert len(stores()) == 1
    executor.close()


@pytest.fixture
def differing():
    """A function that returns the differences between a trainer and a host of this process, which replaces paths."""
    executor = ThreadExecutor(1, name="hosted")

    def compare(make, *paths, **arguments):
        with dry_run(lambda _: None), make(**arguments, input_hosts=["grpc://127.0.0.1:1"]) as trainer:
            description = json.loads(json_messages.encode({"": describe(trainer)}))[""]
            mine = program_identity(trainer._executable)
        factory = ProgramFactory({make.__name__: HostedDefinition.of(make)}, paths, executor)
        return [name for name, *_ in differences(factory.build(description)[1], mine)]

    yield compare
    executor.close()


def test_definitions_see_the_trainers_arguments_and_pipeline(differing):
    @data_iterator
    def ordered(scales):
        x = fn.readers.arrays(np.arange(8.0))
        return {"x": fn.stack(*[x * scale for scale in scales.values()])}

    assert differing(ordered, scales={"b": 1.0, "a": 2.0}, batch_size=2) == []

    @data_iterator
    def current():
        pipeline = Pipeline.current()
        known = pipeline.seed, pipeline.num_threads, pipeline.max_batch_size, pipeline.prefetch_queue_depth
        return {"x": fn.readers.arrays(np.zeros((8, 4))) + np.array(known)}

    assert differing(current, batch_size=2, seed=7, num_threads=3, prefetch_queue_depth=5) == []


def test_other_content_of_equal_names_is_noticed(differing, tmp_path):
    @data_iterator
    def photographs(folder):
        return {"x": fn.decoders.image(fn.readers.file(file_root=folder, flat_labels=True)[0])}

    folder, copy = tmp_path / "one", tmp_path / "copy"
    for number in range(3):
        (folder / "class").mkdir(parents=True, exist_ok=True)
        (folder / "class" / f"{number}.ppm").write_bytes(b"P6 1 1 255 " + bytes([number] * 3))
    shutil.copytree(folder, copy)
    compare = {"folder": str(folder), "batch_size": 2}
    assert differing(photographs, (str(folder), str(copy)), **compare) == []
    (copy / "class" / "2.ppm").write_bytes(b"P6 1 1 255 " + bytes([9] * 3))
    assert differing(photographs, (str(folder), str(copy)), **compare) == ["the file of sample 2 of readers.file"]
