"""Programs that an input host builds for several trainers."""

import json

import numpy as np

from penstock import data_iterator, fn
from penstock.engine.host.worker_threads import ThreadExecutor
from penstock.iterate.dry_run import dry_run
from penstock.iterate.host_description import describe
from penstock.iterate.hosted_definition import HostedDefinition, ProgramFactory
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
