"""A pipeline as an object: scheduled, serialized, asked for what it is."""

import copy
import json
import pickle

import numpy as np
import pytest

from penstock import DataIterator, Pipeline, backend, fn, pipeline_def, types
from penstock.errors import ArgumentTypeError, SourceError, StateError, UnknownNameError, UsageError
from penstock.graph.identity.fingerprint import fingerprint


def rich():
    with Pipeline(3, 2, seed=5) as pipeline:
        data = {"x": np.arange(24, dtype=np.uint8).reshape(4, 3, 2), "y": [1, 2, 3, 4]}
        read = fn.readers.arrays(data, layout={"x": "HW", "y": ""}, random_shuffle=True, name="r")
        part = fn.cast(read["x"][1:, 0] * types.Constant(2.5), dtype=types.INT16)
        pipeline.set_outputs(read["x"], part, fn.random.uniform(range=(0.0, 1.0)), -read["y"])
    return pipeline


def test_workers_and_checks_need_no_start():
    pipeline = Pipeline(batch_size=1)
    pipeline.start_py_workers()
    pipeline.enable_api_check(False)


def test_iterators_of_programs_own_schedule_batches():
    pipeline = rich()
    taken = []
    for _ in range(2):
        with pipeline._check_api_type_scope(types.PipelineAPIType.ITERATOR):
            pipeline._run()
        taken += [pipeline._share_outputs()[0].as_array()]
        pipeline._release_outputs()
    expected = rich()
    np.testing.assert_array_equal(taken, [expected.run()[0].as_array() for _ in range(2)])


def test_a_pipeline_is_let_go_of_by_hand():
    pipeline = rich()
    pipeline.run()
    pipeline.__del__()
    backend.ReleaseUnusedMemory()
    backend.PreallocateDeviceMemory(2**20, device_id=0)
    backend.SetHostBufferGrowthFactor(1.5)


def test_a_serialized_pipeline_is_the_same_one(tmp_path):
    text = rich().serialize(filename=tmp_path / "pipeline.json")
    for second in (Pipeline.deserialize(text), Pipeline.deserialize(filename=tmp_path / "pipeline.json")):
        first = rich()
        assert fingerprint(first.graph) == fingerprint(second.graph)
        for _ in range(3):
            for one, other in zip(first.run(), second.run(), strict=True):
                np.testing.assert_array_equal(one.as_array(), other.as_array())
    assert Pipeline.deserialize(text, batch_size=2).max_batch_size == 2


def test_conditions_are_serialized():
    @pipeline_def(batch_size=4, enable_conditionals=True)
    def define():
        x = fn.readers.arrays(np.arange(4, dtype=np.int32))
        if x > 1:
            y = x * 2.0
            if x > 2:
                y = y + fn.random.uniform(range=[1.0, 2.0])
        else:
            y = x - 7.0
        return y, 5 if x > 2 else x, x > 0 and x < 3, not x

    first = define()
    second = Pipeline.deserialize(first.serialize())
    assert fingerprint(first.graph) == fingerprint(second.graph)
    for one, other in zip(first.run(), second.run(), strict=True):
        np.testing.assert_array_equal(one.as_array(), other.as_array())


def test_what_was_not_given_is_taken_from_the_serialized_pipeline():
    text, first = rich().serialize(), [output.as_array() for output in rich().run()]
    for given in ({}, {"batch_size": 3}, {"batch_size": 2}):
        pipeline = Pipeline(**given)
        pipeline.deserialize_and_build(text)
        for one, other in zip(first, pipeline.run(), strict=True):
            np.testing.assert_array_equal(one[: given.get("batch_size", 3)], other.as_array())
    other = Pipeline(3, seed=6)
    other.deserialize_and_build(text)
    assert not np.array_equal(first[2], other.run()[2].as_array())
    with pytest.raises(UsageError, match="needs a batch size"), Pipeline():
        pass
    with pytest.raises(UsageError, match="needs a batch size"):
        Pipeline().set_outputs(fn.random.uniform())


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy], ids=["pickled", "copied"])
def test_what_is_neither_pickled_nor_copied_names_its_definition(copied):
    with Pipeline(2) as pipeline:
        pipeline.set_outputs(fn.readers.arrays([1, 2, 3]))
    for made in (pipeline, DataIterator(pipeline, ["x"])):
        with pytest.raises(ArgumentTypeError, match=r"cannot be pickled or copied(.|\n)*fn.readers.arrays\(\[1, 2"):
            copied(made)


def test_no_code_is_serialized():
    with Pipeline(2, 1) as pipeline:
        pipeline.set_outputs(fn.python_function(fn.readers.arrays([1, 2]), function=lambda x: x))
    with pytest.raises(UsageError, match=r"python_function is given something that is no data") as caught:
        pipeline.serialize()
    assert __file__ in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda read: b"nothing", "no pipeline"),
        (lambda read: json.dumps({**read, "version": 9}), "another version"),
        (lambda read: json.dumps(read).replace("DALIDataType.INT16", "np.os"), "unknown constant"),
        (lambda read: json.dumps(read).replace('"slice"', '"eval"'), "a value of an unknown kind"),
        (lambda read: json.dumps({**read, "pipeline": []}), "no pipeline"),
        (lambda read: json.dumps({**read, "calls": [{}]}), "is damaged"),
        (lambda read: json.dumps({**read, "outputs": [{"node": [99, 0]}]}), "is damaged"),
        (lambda read: json.dumps({**read, "outputs": [{"array": ["<i4", [2], "AAA"]}]}), "is damaged"),
    ],
    ids=["text", "version", "word", "kind", "options", "call", "node", "array"],
)
def test_other_texts_are_refused(change, message):
    with pytest.raises(StateError, match=message):
        Pipeline.deserialize(change(json.loads(rich().serialize())))


def test_batches_are_scheduled_and_shared():
    mine, plain = rich(), rich()
    with pytest.raises(StopIteration):
        mine.share_outputs()
    mine.schedule_run()
    mine.schedule_run()
    shared = [mine.share_outputs(stream) for stream in (None, 1)]
    mine.release_outputs()
    assert mine.empty()
    for outputs in shared:
        for one, other in zip(outputs, plain.run(None), strict=True):
            np.testing.assert_array_equal(one.as_array(), other.as_array())
    mine.schedule_run()
    mine.schedule_run()
    for _ in range(2):
        assert not mine.empty()
        mine.outputs()
    assert mine.empty()
    mine.outputs()  # without a request, `outputs` is `run`
    assert mine.empty()


def test_a_batch_that_fails_stays_scheduled():
    failures = iter([False, True, False])

    def load(index):
        if next(failures):
            raise OSError("a transient failure")
        return np.full(2, index, np.int32)

    with Pipeline(batch_size=2, prefetch_queue_depth=0) as pipeline:
        pipeline.set_outputs(fn.external_source(load, dtype=np.int32, ndim=0))
    pipeline.schedule_run()
    pipeline.schedule_run()
    pipeline.share_outputs()
    with pytest.raises(SourceError, match="transient"):
        pipeline.share_outputs()
    assert not pipeline.empty()
    assert pipeline.share_outputs()[0].as_array().tolist() == [1, 1]
    assert pipeline.empty()


@pytest.mark.parametrize("depth", [0, 2])
@pytest.mark.parametrize("scheduled", [1, 2])
def test_a_loop_over_scheduled_batches_ends_with_the_source(depth, scheduled):
    with Pipeline(batch_size=2, prefetch_queue_depth=depth) as pipeline:
        source = [np.full(2, number, np.int32) for number in range(3)]
        pipeline.set_outputs(fn.external_source(source, cycle="raise"))
    for _ in range(2):
        for _ in range(scheduled):
            pipeline.schedule_run()
        batches = []
        while not pipeline.empty():
            batches.append(int(pipeline.share_outputs()[0][0]))
            pipeline.schedule_run()
        assert batches == [0, 1, 2]
        pipeline.reset()


def of_items(data):
    return fn.readers.items(data)


def of_source(data):
    return fn.external_source(lambda: data)


def of_cycled_source(data):
    return fn.external_source([data], cycle="quiet")


@pytest.mark.parametrize("read", [of_items, of_source, of_cycled_source])
def test_samples_of_different_shapes_share_no_memory(read):
    data = [np.zeros((2, 1), np.float32), np.zeros((3, 1), np.float32)]
    with Pipeline(batch_size=2) as pipeline:
        x = read(data)
        views = fn.copy(x), x[::-1], fn.reshape(x, shape=[-1]), fn.squeeze(x, axes=[1]), fn.copy(x[::-1])
        new = x + 0
        pipeline.set_outputs(x, *views, fn.copy(new), new, new[::-1])
    for _ in range(3):
        outputs = pipeline.run()
        for output in outputs:
            for sample in output:
                array = np.asarray(sample)
                assert not array.any()
                array += 1
    assert not any(sample.any() for sample in data)


class Doubling(Pipeline):
    """A program's own `run` makes of a batch what it likes, and its `batch_size` is what it says."""

    @property
    def batch_size(self):
        return f"{self._max_batch_size} rows"

    def define_graph(self):
        return fn.readers.arrays([1, 2, 3, 4])

    def run(self):
        (shared,) = super().share_outputs()
        super().schedule_run()
        return shared.as_array() * 2


def test_run_may_be_a_programs_own():
    pipeline = Doubling(batch_size=2)
    pipeline.schedule_run()
    assert [pipeline.run().tolist() for _ in range(2)] == [[2, 4], [6, 8]]
    assert pipeline.outputs()[0].as_array().tolist() == [1, 2]
    assert pipeline.batch_size == "2 rows"
    pipeline._max_batch_size = 2  # what programs set that deserialize pipelines
    with pytest.raises(UsageError, match="batch size of a pipeline cannot change"):
        pipeline._max_batch_size = 3


def test_what_a_pipeline_tells_of_itself():
    pipeline = Pipeline(3, 2, seed=5, set_affinity=True, experimental_exec_dynamic=True)
    assert (pipeline.batch_size, pipeline.exec_pipelined, pipeline.cpu_queue_size) == (3, True, 2)
    assert (pipeline.set_affinity, pipeline.exec_separated, pipeline.max_streams) == (True, False, -1)
    assert pipeline.executor_statistics() == {}
    assert Pipeline.current() is None
    with pipeline:
        assert Pipeline.current() is pipeline
        pipeline.set_outputs(fn.readers.arrays(np.arange(4)))
    pipeline.run()
    assert pipeline.executor_statistics()["readers.arrays"].samples >= 3


def test_what_is_not_offered_says_what_to_do():
    with pytest.raises(UnknownNameError, match=r"Pipeline.add_sink is not offered(.|\n)*preserve=True"):
        rich().add_sink  # noqa: B018  # asking is enough
    with pytest.raises(AttributeError, match="'nothing'"):
        rich().nothing  # noqa: B018  # likewise


def test_an_error_in_define_graph_is_the_one_that_is_shown():
    class Wrong(Pipeline):
        def define_graph(self):
            return fn.no_such_operator()

    with pytest.raises(UnknownNameError, match="no_such_operator"):
        Wrong(2, 1).build()
