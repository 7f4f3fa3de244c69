"""Parallel external source: functions and generators of a module, called by worker processes that are spawned."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
import worker_sources as sources
from nvidia.dali import pipeline_def


@pipeline_def(batch_size=4, num_threads=2, device_id=None, py_num_workers=2, py_start_method="spawn")
def samples():
    images = fn.external_source(sources.numbered, parallel=True, batch=False)
    pair = fn.external_source(sources.pairs, num_outputs=2, parallel=True, batch=False, prefetch_queue_depth=3)
    return fn.pad(images, fill_value=-1), *pair


@pipeline_def(batch_size=4, num_threads=2, device_id=None, py_num_workers=2, py_start_method="spawn")
def batches():
    return (
        fn.external_source(sources.listed, parallel=True, dtype=types.UINT16),
        fn.external_source(sources.told, parallel=True, batch=True, batch_info=True, prefetch_queue_depth=2),
        fn.external_source(sources.generated, parallel=True, batch=True, cycle="raise", prefetch_queue_depth=2),
        fn.external_source(sources.Batches(1), parallel=True, batch=True, cycle="quiet"),
        fn.external_source(sources.Batches(3), parallel=True, batch=True, cycle="raise"),
    )


def main(folder):
    for pipe in (samples(), batches()):
        pipe.build()
        for _ in range(9):
            try:
                yield pipe.run()
            except StopIteration:
                pipe.reset()
                yield "reset"
