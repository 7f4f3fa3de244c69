"""Shards in pipelines of their own, without a seed: disjoint and complete in every epoch, as in DALI."""

import numpy as np
import pytest

import penstock
from penstock import fn

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")

COUNT, SHARDS, ROWS, EPOCHS = 40, 2, 5, 3
SHUFFLES = ({"random_shuffle": True}, {"shuffle_after_epoch": True}, {"random_shuffle": True, "stick_to_shard": True})


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{number}.bin" for number in range(COUNT)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]))
    return [str(path) for path in paths]


def decorated(lib, files, shard, options):
    @lib.pipeline_def(batch_size=ROWS, num_threads=1, device_id=None)
    def definition():
        return lib.fn.readers.file(files=files, shard_id=shard, num_shards=SHARDS, **options)[0]

    return taken_by(definition())


def by_hand(lib, files, shard, options):
    with lib.Pipeline(batch_size=ROWS, num_threads=1, device_id=None) as pipeline:
        pipeline.set_outputs(lib.fn.readers.file(files=files, shard_id=shard, num_shards=SHARDS, **options)[0])
    return taken_by(pipeline)


def derived(lib, files, shard, options):
    class Loading(lib.Pipeline):
        def __init__(self):
            super().__init__(ROWS, 1, None)
            self.input = lib.ops.readers.File(files=files, shard_id=shard, num_shards=SHARDS, **options)

        def define_graph(self):
            return self.input()[0]

    return taken_by(Loading())


def taken_by(pipeline):
    pipeline.build()
    return [sample(lambda: pipeline.run()[0].as_array()) for _ in range(EPOCHS)]


def sample(batch):
    """The numbers of the files that a shard reads in an epoch."""
    return np.concatenate([np.asarray(batch()).ravel() for _ in range(COUNT // SHARDS // ROWS)]).tolist()


def iterated(_, files, shard, options):
    @penstock.data_iterator(output_map=["x"], reader_name="r")
    def definition():
        data = fn.readers.file(files=files, shard_id=shard, num_shards=SHARDS, name="r", **options)[0]
        return fn.reshape(data, shape=[1])

    iterator = definition(batch_size=ROWS, num_threads=1)
    return [np.concatenate([np.asarray(batch["x"]).ravel() for batch in iterator]).tolist() for _ in range(EPOCHS)]


@pytest.mark.parametrize("options", SHUFFLES, ids=lambda options: "+".join(options))
@pytest.mark.parametrize("program", [decorated, by_hand, derived])
@pytest.mark.parametrize("library", [dali, penstock], ids=["dali", "penstock"])
def test_shards_of_separate_pipelines_cover_every_epoch(library, program, options, files):
    check_coverage([program(library, files, shard, options) for shard in range(SHARDS)])


@pytest.mark.parametrize("program", [decorated, by_hand, derived, iterated])
@pytest.mark.parametrize(
    "options",
    [*SHUFFLES, *({"shard_mode": "contiguous", **options} for options in SHUFFLES)],
    ids=lambda options: "+".join(options),
)
def test_so_do_ours_in_either_mode_and_as_iterators(program, options, files):
    check_coverage([program(penstock, files, shard, options) for shard in range(SHARDS)])


def check_coverage(shards):
    for epoch, parts in enumerate(zip(*shards, strict=True)):
        assert sorted(sum(parts, [])) == list(range(COUNT)), epoch
    assert shards[0][0] != sorted(shards[0][0]) or shards[0][1] != sorted(shards[0][1])  # they are shuffled
