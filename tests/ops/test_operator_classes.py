"""The class API has an object for each operator of `fn`, and does with it what `fn` does."""

import operator

import numpy as np
import pytest
from pipeline_runs import run

import penstock
from penstock import DataIterator, Pipeline, fn, ops, types
from penstock.errors import ArgumentTypeError, ContextError, DefinitionError, PenstockError, UnknownNameError
from penstock.graph.identity.fingerprint import fingerprint
from penstock.graph.tracing import registry

IMAGES = np.random.default_rng(3).integers(0, 256, (12, 8, 10, 3), np.uint8)


def numbered(*cases):
    """Cases that begin with a function, which has no name to tell them apart by."""
    return [pytest.param(*case, id=str(number)) for number, case in enumerate(cases)]


class Training(Pipeline):
    def __init__(self, batch_size, num_threads, device_id):
        super().__init__(batch_size, num_threads, device_id, seed=7)
        self.input = ops.readers.Arrays(random_shuffle=True, layout=("HWC", ""))
        self.resize = ops.Resize(device="gpu", resize_x=6, resize_y=6)
        self.normalize = ops.CropMirrorNormalize(
            device="gpu", dtype=types.FLOAT, output_layout=types.NCHW, crop=(4, 4), mean=[1.0, 2.0, 3.0]
        )
        self.coin = ops.CoinFlip(probability=0.5)
        self.uniform = ops.Uniform(range=(0.0, 1.0))

    def define_graph(self):
        images, labels = self.input((IMAGES, np.arange(12)), name="Reader")
        images = self.resize(images.gpu())
        return [self.normalize(images, mirror=self.coin(), crop_pos_x=self.uniform()), labels]


def same_with_fn():
    with Pipeline(5, 2, seed=7) as pipeline:
        images, labels = fn.readers.arrays(
            (IMAGES, np.arange(12)), random_shuffle=True, layout=("HWC", ""), name="Reader"
        )
        images = fn.resize(images.gpu(), device="gpu", resize_x=6, resize_y=6)
        coin, uniform = fn.random.coin_flip(probability=0.5), fn.random.uniform(range=(0.0, 1.0))
        images = fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT,
            output_layout="CHW",
            crop=(4, 4),
            mean=[1.0, 2.0, 3.0],
            mirror=coin,
            crop_pos_x=uniform,
        )
        pipeline.set_outputs(images, labels)
    return pipeline


def test_a_class_with_define_graph_is_the_same_definition():
    mine, plain = Training(5, 2, None), same_with_fn()
    mine.build()
    assert fingerprint(mine.graph) == fingerprint(plain.graph)
    for _ in range(4):
        for one, other in zip(mine.run(), plain.run(), strict=True):
            np.testing.assert_array_equal(one.as_array(), other.as_array())
    assert mine.name == "Training"
    assert mine.epoch_size("Reader") == 12


def test_an_iterator_takes_such_a_class():
    iterator = DataIterator(Training(5, 2, None), ["images", "labels"], reader_name="Reader")
    labels = [int(label) for batch in iterator for label in batch["labels"]]
    assert len(labels) == 15
    assert sorted(set(labels)) == list(range(12))


def test_a_definition_is_traced_once():
    calls = []

    class Counted(Pipeline):
        def define_graph(self):
            calls.append(1)
            return fn.readers.arrays(np.arange(4))

    pipeline = Counted(2, 1)
    pipeline.build()
    pipeline.run()
    assert pipeline.num_outputs == len(calls) == 1


def test_without_a_definition_there_is_nothing_to_run():
    with pytest.raises(ContextError, match=r"no outputs(.|\n)*define_graph"):
        Pipeline(2, 1).run()


def test_lists_of_nodes_are_several_uses():
    def define(x):
        nodes = ops.Cast(dtype=types.FLOAT)([x, x + 1])
        assert isinstance(nodes, list)
        return nodes

    assert [output.tolist() for output in run(define, np.arange(2))] == [[0.0, 1.0], [1.0, 2.0]]


@pytest.mark.slow
def test_every_operator_of_fn_has_a_class_and_a_new_one_at_once(monkeypatch):
    def found(part):
        names = [name for name in dir(part) if name not in ("Compose", "experimental")]
        classes = {getattr(part, name).kind for name in names if name[0].isupper()}
        return classes.union(*(found(getattr(part, name)) for name in names if name.islower()))

    others = ("arithmetic.", "getitem", "test.")
    assert found(ops) == {name for name in registry.registered() if not name.startswith(others)}

    monkeypatch.setattr(registry, "_operators", dict(registry._operators))

    @registry.operator("noise.of_a_test")
    def of_a_test(x):
        return x + 1

    assert "noise" in dir(ops)
    assert run(ops.noise.OfATest(), np.array([1, 2]))[0].tolist() == [2, 3]


@pytest.mark.parametrize(
    ("older", "kind"),
    [
        ("FileReader", "readers.file"),
        ("ImageDecoderRandomCrop", "decoders.image_random_crop"),
        ("NormalDistribution", "random.normal"),
        ("experimental.Resize", "resize"),
        ("experimental.readers.File", "readers.file"),
    ],
)
def test_older_names_are_the_same_operators(older, kind):
    find = operator.attrgetter(older)
    assert find(ops).kind == kind
    assert find(ops) is find(ops)


def test_older_names_of_functions_are_the_same_functions():
    assert fn.coin_flip is fn.random.coin_flip is fn.experimental.coin_flip
    assert fn.image_decoder is fn.decoders.image is fn.experimental.decoders.image
    assert fn.experimental.resize is fn.resize
    assert penstock.pipeline.pipeline_def is penstock.pipeline_def


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    numbered(
        (lambda: ops.Resize(resize_w=3), ArgumentTypeError, "no argument 'resize_w'(.|\n)*'resize_x'"),
        (lambda: ops.Resize(3), ArgumentTypeError, "ops.Resize takes its arguments by name"),
        (lambda: ops.Rezise, UnknownNameError, "no operator ops.Rezise(.|\n)*'Resize'"),
        (lambda: ops.resize, UnknownNameError, "no operator ops.resize(.|\n)*'Resize'"),
        (lambda: ops.readers.Fil, UnknownNameError, "no operator ops.readers.Fil(.|\n)*'File'"),
        (lambda: ops.Cast(dtype=types.FLOAT)(3, dtype=types.INT8), DefinitionError, "ops.Cast: dtype was given"),
        (lambda: ops.Compose([]), ArgumentTypeError, "at least one"),
        (lambda: fn.constant(idata=1, fdata=2.0), DefinitionError, "set twice"),
    ),
)
def test_mistakes_name_the_line(mistake, error, message):
    with pytest.raises(error, match=message) as caught:
        mistake()
    assert isinstance(caught.value, PenstockError)
    assert __file__ in str(caught.value)


def test_what_was_given_as_none_is_given_once_by_the_other():
    def define(image):
        from_class = ops.Resize(size=4, resize_x=None)(image, resize_x=None, size=None)
        from_call = ops.Resize(size=None, resize_x=None)(image, size=5)
        return from_class, from_call

    outputs = run(define, np.zeros((2, 8, 8, 3), np.uint8))
    assert [output.shape for output in outputs] == [(2, 4, 4, 3), (2, 5, 5, 3)]


def test_what_was_given_by_position_is_given():
    with Pipeline(2, 1) as pipeline:
        double = ops.PythonFunction(lambda x: x * 2, 1)
        assert (double.device, double.preserve) == ("cpu", False)
        pipeline.set_outputs(double(fn.readers.arrays([1, 2])))
    assert pipeline.run()[0].as_array().tolist() == [2, 4]


@pytest.mark.parametrize(
    ("constant", "expected"),
    numbered(
        (types.Constant(3).uint8(), np.uint8(3)),
        (types.Constant(2.5, types.UINT8), np.uint8(2)),
        (types.Constant(2.5, types.UINT8, device="cpu"), np.uint8(3)),
        (types.Constant([1.5, 300.0], types.UINT8), np.uint8([2, 255])),
        (types.Constant(-7, dtype=types.UINT16), np.uint16(0)),
        (types.Constant(3, shape=[2, 2]), np.full((2, 2), 3, np.int32)),
        (types.Constant([1, 2, 3, 4], shape=(2, 2)).float16(), np.float16([[1, 2], [3, 4]])),
        (types.ScalarConstant(1).bool(), np.bool_(True)),
    ),
)
def test_constants_have_types_and_shapes(constant, expected):
    array = constant.array()
    assert (array.dtype, array.shape, array.tolist()) == (expected.dtype, expected.shape, expected.tolist())


def test_a_constant_is_true_as_its_number_is():
    assert (bool(types.Constant(0)), int(types.Constant(3)), float(types.Constant(1.5))) == (False, 3, 1.5)


def test_a_constant_of_another_count_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"2 numbers(.|\n)*shape 3"):
        types.Constant([1, 2], shape=3).array()


def test_a_class_that_feeds_its_input_before_each_batch():
    class Fed(Pipeline):
        def __init__(self):
            super().__init__(2, 1, None, seed=1)
            self.input = ops.ExternalSource()
            self.double = ops.PythonFunction(lambda x: x * 2, 1)
            self.batches = iter(np.arange(8, dtype=np.int32).reshape(2, 2, 2))

        def define_graph(self):
            self.data = self.input()
            return self.double(self.data)

        def iter_setup(self):
            self.feed_input(self.data, next(self.batches))

    pipeline = Fed()
    pipeline.build()
    assert [pipeline.run()[0].as_array().tolist() for _ in range(2)] == [[[0, 2], [4, 6]], [[8, 10], [12, 14]]]
    with pytest.raises(StopIteration):
        pipeline.run()
