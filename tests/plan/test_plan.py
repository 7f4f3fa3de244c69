"""Placement: what runs where and why. Whole plans are kept as text; PENSTOCK_UPDATE_GOLDEN=1 writes them anew."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from pipeline_runs import build_pipeline

from penstock import fn, types
from penstock.core import ShapeKind, Spec
from penstock.engine.sample_probe import resolve_shapes
from penstock.errors import DefinitionError, InternalError
from penstock.graph import Operator, SampleKernel, apply
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.plan.explain import explain
from penstock.plan.placement import Side, TargetMachine
from penstock.plan.plan import make_plan, verify_plan
from penstock.plan.shape_demand import propagate_shapes, ragged_sources, values_needing_one_shape
from penstock.plan.shard_merge import merge_shards
from penstock.testing import ListSource

GOLDEN = Path(__file__).parent / "golden"
FILE = np.zeros(9, np.uint8)
IMAGES = np.zeros((4, 6, 5, 3), np.uint8)


def graph_of(build):
    return build_pipeline(build, batch_size=2).graph


def plan_of(build, platform="gpu", placement="auto", dense=True, wide=False):
    program = resolve_shapes(merge_shards([graph_of(build)], (0,), 1), dense_outputs=dense)
    return make_plan(program.graph, TargetMachine(platform, wide, placement), dense_outputs=dense), program


def places(plan):
    return {str(node): placement.place for node, placement in plan.placements.items()}


def mnist(path):
    def definition():
        jpegs, labels = fn.readers.caffe2(path=path, random_shuffle=True, name="reader")
        images = fn.decoders.image(jpegs, device="mixed", output_type=types.GRAY)
        images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, std=[255.0], output_layout="CHW")
        images = fn.reshape(images, shape=[784])
        return images, fn.one_hot(labels.gpu(), num_classes=10)

    return definition


def augmented():
    images = fn.readers.arrays(IMAGES, layout="HWC", name="reader")
    flag = fn.random.coin_flip()
    noise = fn.random.uniform(range=[0, 1], shape=[90])
    return fn.crop_mirror_normalize(images, mirror=flag), fn.reshape(noise, shape=[6, 5, 3])


def photographs():
    images = fn.decoders.image_random_crop(apply_reader(ListSource([[FILE] * 4]), {}, common={"name": "reader"})[0])
    images = fn.resize(images, size=[64, 80])
    small = fn.resize(images, size=[8, 8])
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), crop=(60, 60))
    return images, fn.crop_mirror_normalize(small)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("placement", ["auto", "host", "device"])
@pytest.mark.parametrize("name", ["mnist", "augmented", "photographs"])
def test_plans_are_as_they_were(name, platform, placement, digits_lmdb):
    build = {"mnist": mnist(digits_lmdb), "augmented": augmented, "photographs": photographs}[name]
    plan, program = plan_of(build, platform, placement)
    text = explain(plan, program.readers, "2 rows") + "\n"
    path = GOLDEN / f"{name}-{platform}-{placement}.txt"
    if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_bytes_cross_not_floats(digits_lmdb):
    plan, _ = plan_of(mnist(digits_lmdb), "gpu")
    assert [(value.spec.dtype.name, value.spec.shape) for value in plan.crossing] == [
        ("uint8", (28, 28, 1)),
        ("int32", (1,)),
    ]


def test_cpu_is_a_hint_that_keeps_what_follows_on_the_host():
    def definition():
        return fn.flip(fn.readers.arrays(IMAGES, layout="HWC").cpu())

    assert set(places(plan_of(definition)[0]).values()) == {Side.HOST}


def test_what_feeds_a_host_node_stays_on_the_host():
    @dataclass(frozen=True)
    class OnHost(Operator, SampleKernel):
        def infer(self, images):
            return images

        def sample(self, context, image):
            return image

    def definition():
        images = fn.readers.arrays(IMAGES, layout="HWC")
        return fn.flip(apply(OnHost(), fn.cast(images, dtype=types.FLOAT)))

    plan, _ = plan_of(definition, placement="device")
    assert [p.place for p in plan.placements.values()] == [Side.HOST, Side.HOST, Side.HOST, Side.DEVICE]
    assert "feeds" in plan.placements[plan.graph.nodes[1]].why


def test_64_bit_values_stay_on_the_host_unless_jax_keeps_them():
    def definition():
        return fn.cast(fn.readers.arrays(IMAGES), dtype=types.INT64) + 1

    narrow, wide = (places(plan_of(definition, placement="device", wide=wide)[0]) for wide in (False, True))
    assert narrow["cast"] is narrow["arithmetic.add"] is Side.HOST
    assert wide["cast"] is wide["arithmetic.add"] is Side.DEVICE


RAGGED = [np.full((n, 4, 3), n, np.uint8) for n in (3, 3, 5)]


def ragged_reader():
    return apply_reader(ListSource([RAGGED], ["HWC"], [(None, None, 3)]), {})[0]


def assumed(build, shape=(6, 5, 3)):
    """The values of which one shape is assumed when their samples have this one, and what is shown by the others."""
    graph = graph_of(build)
    values = values_needing_one_shape(graph, dense_outputs=True)
    shapes = {
        value: tuple(n or m for n, m in zip(value.spec.shape, shape, strict=True)) for value in ragged_sources(values)
    }
    return [str(value) for value in propagate_shapes(values, shapes)]


def test_a_demand_passes_to_what_the_shape_pins_down():
    assert assumed(lambda: fn.flip(ragged_reader())) == ["flip", "operator"]
    assert assumed(lambda: fn.crop_mirror_normalize(ragged_reader())) == ["crop_mirror_normalize", "operator"]
    assert assumed(lambda: fn.pad(ragged_reader(), axes=[0, 1], shape=[9, 9])) == ["pad"]
    assert assumed(lambda: ragged_reader()[1:3, 1:3]) == ["getitem"]
    assert assumed(lambda: fn.resize(ragged_reader(), resize_x=4, mode="stretch")) == ["resize"]


def test_a_demand_is_of_what_needs_one_shape():
    graph = graph_of(lambda: fn.reshape(fn.crop_mirror_normalize(ragged_reader()), shape=[36]))
    assert {str(value) for value in values_needing_one_shape(graph, dense_outputs=True)} == {"crop_mirror_normalize"}
    graph = graph_of(lambda: fn.crop_mirror_normalize(ragged_reader(), crop=(2, 2)))
    assert values_needing_one_shape(graph, dense_outputs=True) == ()
    graph = graph_of(lambda: fn.flip(ragged_reader()))
    assert values_needing_one_shape(graph, dense_outputs=False) == ()
    assert len(values_needing_one_shape(graph, dense_outputs=True)) == 1


def test_sample_zero_shows_the_shape():
    plan, _ = plan_of(lambda: fn.flip(ragged_reader()), placement="host")
    source, flipped = plan.graph.nodes
    assert source.specs[0] == Spec(np.dtype(np.uint8), (3, 4, 3), "HWC", assumed=True)
    assert source.specs[0].extent is ShapeKind.SAME
    assert flipped.specs[0].extent is ShapeKind.FIXED


def test_a_definition_that_cannot_work_on_sample_zero_is_refused_with_its_line():
    with pytest.raises(DefinitionError, match="40") as caught:
        plan_of(lambda: fn.reshape(ragged_reader(), shape=[40]))
    assert __file__ in str(caught.value)


def test_the_verifier_finds_a_plan_that_cannot_run():
    plan, _ = plan_of(augmented, placement="device")
    last = plan.graph.nodes[-1]
    broken = dict(plan.placements)
    broken[last] = replace(broken[last], place=Side.HOST)
    with pytest.raises(InternalError, match="from the device"):
        verify_plan(replace(plan, placements=broken))


@pytest.mark.parametrize(
    "add",
    [
        lambda x: x * float("nan"),
        lambda x: x * np.float32([1, 2, float("nan")]),
        lambda x: x * types.Constant(float("nan"), dtype=types.BFLOAT16),
    ],
    ids=["number", "array", "bfloat16"],
)
def test_nan_is_the_same_constant_for_all_shards(add):
    graphs = [graph_of(lambda k=k: add(fn.readers.arrays(IMAGES, shard_id=k, num_shards=2))) for k in (0, 1)]
    merge_shards(graphs, (0, 1), 2)


def test_shards_must_compute_the_same():
    graphs = [graph_of(lambda k=k: fn.readers.arrays(IMAGES, shard_id=k, num_shards=2) + k) for k in (0, 1)]
    with pytest.raises(DefinitionError, match="different pipelines for different shards"):
        merge_shards(graphs, (0, 1), 2)
    graphs = [
        graph_of(lambda k=k: fn.readers.arrays(IMAGES) if k else fn.flip(fn.readers.arrays(IMAGES))) for k in (0, 1)
    ]
    with pytest.raises(DefinitionError, match="different pipelines"):
        merge_shards(graphs, (0, 1), 2)


def test_readers_of_all_shards_become_one():
    graphs = [graph_of(lambda k=k: fn.readers.arrays(IMAGES, shard_id=k, num_shards=2)) for k in (0, 1)]
    program = merge_shards(graphs, (0, 1), 2)
    ((reader,),) = program.readers.values()
    assert (reader.shard_id, reader.num_shards) == (0, 1)
    same = merge_shards([graph_of(lambda: fn.readers.arrays(IMAGES))] * 2, (0, 1), 2)
    assert [len(readers) for readers in same.readers.values()] == [1]
    local = [graph_of(lambda k=k: fn.readers.arrays(IMAGES + k)) for k in (0, 1)]
    assert [len(readers) for readers in merge_shards(local, (0, 1), 2).readers.values()] == [2]
