"""`fn.external_source` in all its forms against DALI on the CPU: DALI's tutorials on external input, in our words."""

import itertools

import numpy as np
import pytest

import penstock
import penstock.fn
import penstock.types

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")

BATCH = 4


class Samples:
    """A data set as DALI's tutorials have one: an iterator over batches that shuffles nothing."""

    def __init__(self, samples=10):
        self.samples = samples

    def __iter__(self):
        self.at = 0
        return self

    def __len__(self):
        return self.samples

    def __next__(self):
        if self.at >= self.samples:
            self.__iter__()
            raise StopIteration
        batch = [np.arange(self.at + row + 1, dtype=np.uint8) for row in range(BATCH)]
        self.at += BATCH
        return batch, [np.array([len(sample)], np.int32) for sample in batch]


def one_by_one(info):
    if info.idx_in_epoch >= 10:
        raise StopIteration
    return np.array([info.idx_in_epoch, info.idx_in_batch, info.iteration, info.epoch_idx], np.int64)


def pairs(info):
    return one_by_one(info), np.float32(info.iteration)


def by_number(iteration):
    if iteration == 3:
        raise StopIteration
    return np.full((BATCH, 2), iteration, np.uint16)


def by_info(info):
    if info.iteration == 2:
        raise StopIteration
    return [np.array([info.iteration, info.epoch_idx], np.float64)] * BATCH


def smaller(iteration):
    return np.full((max(1, BATCH - iteration), 2), iteration, np.uint8)


def generator():
    for number in range(3):
        yield [np.full((number + 1, 2), number, np.float32)] * BATCH


def scalars():
    yield np.arange(BATCH)


class Counting:
    def __init__(self):
        self.calls = itertools.count()

    def __call__(self):
        return np.full((BATCH, 1), next(self.calls))


LISTED = [np.full((BATCH, 3), number, np.uint8) for number in range(3)]

CASES = {
    "iterable object": (Samples, {"num_outputs": 2}),
    "iterable object, raise": (Samples, {"num_outputs": 2, "cycle": "raise"}),
    "iterable object, quiet": (Samples, {"num_outputs": 2, "cycle": "quiet"}),
    "sample": (lambda: one_by_one, {"batch": False}),
    "samples of two outputs": (lambda: pairs, {"batch": False, "num_outputs": 2}),
    "batch by number": (lambda: by_number, {}),
    "batch by info": (lambda: by_info, {"batch_info": True}),
    "sample by info": (lambda: one_by_one, {"batch": False, "batch_info": True}),
    "batches get smaller": (lambda: smaller, {}),
    "no argument": (Counting, {}),
    "generator function": (lambda: generator, {}),
    "generator function, True": (lambda: generator, {"cycle": True}),
    "generator function, raise": (lambda: generator, {"cycle": "raise", "layout": "XY"}),
    "generator": (generator, {"layout": "AB"}),
    "numbers": (lambda: scalars, {"cycle": "quiet"}),
    "list": (lambda: LISTED, {}),
    "list, quiet": (lambda: LISTED, {"cycle": "quiet"}),
    "list, raise": (lambda: LISTED, {"cycle": "raise", "dtype": "UINT8", "ndim": 1}),
    "iterator": (lambda: iter(LISTED), {"dtype": "UINT8"}),
    "tuples of samples": (lambda: iter([tuple(LISTED[0]), tuple(LISTED[1])]), {}),
    "one output in a tuple": (lambda: [(batch,) for batch in LISTED], {"num_outputs": 1}),
    "samples of an iterator": (lambda: iter(np.arange(9)[:, None]), {"batch": False}),
    "samples of a generator, raise": (lambda: lambda: iter(np.arange(9)), {"batch": False}),
}


def log(library, source, options, runs=9):
    """What a pipeline gives, batch by batch; ends are answered with `reset`."""
    options = dict(options)
    if "dtype" in options:
        options["dtype"] = getattr(library.types, options["dtype"])
    with library.Pipeline(BATCH, 2, None, seed=0, prefetch_queue_depth=1) as pipeline:
        nodes = library.fn.external_source(source(), **options)
        pipeline.set_outputs(*(nodes if isinstance(nodes, list) else [nodes]))
    seen = []
    for _ in range(runs):
        try:
            outputs = pipeline.run()
            seen.append([(o.layout(), [(str(np.array(s).dtype), np.array(s).tolist()) for s in o]) for o in outputs])
        except StopIteration:
            seen.append("end")
            pipeline.reset()
    return seen


@pytest.mark.parametrize("case", [name for name in CASES if name != "samples of a generator, raise"])
def test_sources_give_what_they_give_in_dali(case):
    source, options = CASES[case]
    assert log(penstock, source, options) == log(dali, source, options)


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (lambda one, two: 1, {}),
        (lambda *many: 1, {}),
        (3, {}),
        (generator(), {"cycle": True}),
        (by_number, {"cycle": "raise"}),
        (LISTED, {"cycle": "sometimes"}),
        (None, {"num_outputs": 2}),
    ],
)
def test_both_refuse(source, options):
    for library in (penstock, dali):
        with pytest.raises((TypeError, ValueError, RuntimeError)), library.Pipeline(BATCH, 2, None):
            library.fn.external_source(source, **options)


def fed(library):
    """Data that are fed by hand, with nothing said of them: the tutorial on the input of a serving pipeline."""

    @library.pipeline_def(batch_size=3, num_threads=2, device_id=None, prefetch_queue_depth=1)
    def serving():
        images = library.fn.external_source(device="cpu", name="images")
        labels = library.fn.external_source(name="labels")
        images = library.fn.crop_mirror_normalize(images, crop=(4, 5), mean=[1.0, 2.0, 3.0], output_layout="HWC")
        return library.fn.flip(images), labels + 1

    pipeline = serving()
    pipeline.build()
    seen = []
    for turn in range(3):
        sizes = [(6 + row + turn, 7, 3) for row in range(3)]
        batch = [np.arange(np.prod(size), dtype=np.uint8).reshape(size) for size in sizes]
        pipeline.feed_input("images", batch, layout="HWC")
        pipeline.feed_input("labels", np.full((3, 1), turn, np.int64))
        seen.append([(str(np.array(s).dtype), np.array(s).tolist()) for output in pipeline.run() for s in output])
    return seen


def test_fed_data_give_what_they_give_in_dali():
    assert fed(penstock) == fed(dali)


WHAT_LETTERS_TELL = {
    "frames": ("FHWC", lambda fn, x: fn.slice(x, start=[1], shape=[2], axis_names="F")),
    "padded": ("FHWC", lambda fn, x: fn.pad(x, axis_names="F", shape=[7])),
    "volumes": ("DHWC", lambda fn, x: fn.flip(x, depthwise=1)),
    "planes": ("FCHW", lambda fn, x: fn.reductions.max(x, axis_names="FC")),
}


@pytest.mark.parametrize("name", WHAT_LETTERS_TELL)
def test_letters_that_only_what_is_fed_has(name):
    layout, define = WHAT_LETTERS_TELL[name]
    batch = [np.random.default_rng(7).integers(0, 256, (3, 4, 5, 2), np.uint8) for _ in range(2)]
    results = []
    for lib, device in ((penstock, 0), (dali, None)):
        with lib.Pipeline(2, 1, device) as pipeline:
            pipeline.set_outputs(define(lib.fn, lib.fn.external_source(name="x")))
        pipeline.build()
        pipeline.feed_input("x", batch, layout=layout)
        results.append(pipeline.run()[0].as_array())
    np.testing.assert_array_equal(*results)


def named(library, layout="XY"):
    """A pipeline whose batches have a layout."""
    with library.Pipeline(BATCH, 1, None) as pipeline:
        pipeline.set_outputs(library.fn.external_source(LISTED, cycle=True, layout=layout))
    return pipeline


PASSED_ON = {
    "tensor lists": (lambda batch: batch, {}),
    "tensor lists, renamed": (lambda batch: batch, {"layout": "A"}),
    "tensors": (list, {}),
    "samples": (lambda batch: batch[0], {"batch": False}),
    "dense": (lambda batch: batch.as_tensor(), {}),
}


@pytest.mark.parametrize("name", PASSED_ON)
def test_batches_of_a_pipeline_bring_their_layout(name):
    taken, options = PASSED_ON[name]

    def source(library):
        first = named(library, "X")
        return lambda: taken(first.run()[0])

    assert log(penstock, lambda: source(penstock), options, 3) == log(dali, lambda: source(dali), options, 3)


FED = {
    "tensor list": ({}, lambda batch: [(batch, None)]),
    "tensors": ({}, lambda batch: [(list(batch), None)]),
    "dense": ({}, lambda batch: [(batch.as_tensor(), None)]),
    "renamed": ({}, lambda batch: [(batch, "A")]),
    "said": ({"layout": "A"}, lambda batch: [(batch, "A")]),
    "said, with a kind": ({"ndim": 1}, lambda batch: [(batch, "A")]),
    "another one than said": ({"layout": "A"}, lambda batch: [(batch, None)]),
    "another one than before": ({}, lambda batch: [(batch, None), (batch, "A")]),
    "of another rank": ({}, lambda batch: [(np.array(batch), "AB")]),
}


@pytest.mark.parametrize("name", FED)
def test_layouts_of_what_is_fed(name):
    options, feeds = FED[name]

    def seen(library):
        with library.Pipeline(BATCH, 1, None, prefetch_queue_depth=1) as pipeline:
            kind = {"dtype": library.types.UINT8} if "ndim" in options else {}
            pipeline.set_outputs(library.fn.external_source(name="x", **kind, **options))
        pipeline.build()
        layouts = []
        try:
            for data, layout in feeds(named(library, "X").run()[0]):
                pipeline.feed_input("x", data, **({"layout": layout} if layout else {}))
                layouts.append(pipeline.run()[0].layout())
        except RuntimeError:
            layouts.append("refused")
        return layouts

    assert seen(penstock) == seen(dali)


def test_the_class_has_several_outputs_that_are_fed():
    def seen(library):
        class Fed(library.Pipeline):
            def __init__(self):
                super().__init__(BATCH, 1, None, prefetch_queue_depth=1)
                self.input = library.ops.ExternalSource(num_outputs=3, layout=["X", "AB"])

            def define_graph(self):
                self.first, _, self.last = self.input()
                return self.first, self.last

            def iter_setup(self):
                self.feed_input(self.first, list(LISTED[1]))
                self.feed_input(self.last, [np.ones((2, 2), np.float32)] * BATCH)

        pipeline = Fed()
        pipeline.build()
        return [(np.array(output.as_tensor()).tolist(), output.layout()) for output in pipeline.run()]

    assert seen(penstock) == seen(dali)


def test_a_function_whose_result_is_empty_for_zeros():
    with penstock.Pipeline(2, 1) as pipeline:
        images, ends = penstock.fn.external_source(name="x"), penstock.fn.external_source(name="end")
        cut = penstock.fn.python_function(images, ends, function=lambda image, end: image[: int(end[0])])
        pipeline.set_outputs(penstock.fn.cast(cut, dtype=penstock.types.FLOAT))
    pipeline.feed_input("x", [np.ones((5, 4, 3), np.uint8)] * 2)
    pipeline.feed_input("end", [np.int32([2]), np.int32([3])])
    assert pipeline.run()[0].shape() == [(2, 4, 3), (3, 4, 3)]


class Needy(dict):
    """Programs that are only valid for the kind that `iter_setup` feeds, which their definition does not tell."""

    def pipeline(self, library, name):
        """A pipeline of two inputs, fed after it is built."""
        define = self[name]

        class Fed(library.Pipeline):
            def __init__(self):
                super().__init__(BATCH, 1, None, prefetch_queue_depth=1)
                self.inputs = library.ops.ExternalSource(), library.ops.ExternalSource()

            def define_graph(self):
                self.images, self.numbers = (make() for make in self.inputs)
                return define(library, self.images, self.numbers)

            def iter_setup(self):
                self.feed_input(self.images, [np.full((6, 7, 2, 1), row, np.int16) for row in range(BATCH)], "XYZC")
                self.feed_input(self.numbers, np.arange(BATCH, dtype=np.float32))

        return Fed()


def corner(image, number):
    return image[:2, 0, 1, 0] + number * (image.shape[1] == 7 and image[5, 6, 1, 0] >= 0)


NEEDY = Needy(
    {
        "a layout": lambda lib, x, n: (lib.fn.erase(x, anchor=[1], shape=[3], axis_names="Y", fill_value=7), n),
        "a function": lambda lib, x, n: lib.fn.python_function(x, n, function=corner),
        "a function of batches": lambda lib, x, n: lib.fn.python_function(
            n, x, function=lambda n, x: list(map(corner, x, n)), batch_processing=True
        ),
    }
)


@pytest.mark.parametrize("name", NEEDY)
def test_what_only_accepts_the_kind_that_is_fed(name):
    def seen(library):
        pipeline = NEEDY.pipeline(library, name)
        pipeline.build()
        return [[np.array(sample).tolist() for sample in pipeline.run()[0]] for _ in range(2)]

    assert seen(penstock) == seen(dali)


def test_a_mistake_that_no_kind_cures_is_found_while_tracing():
    mistaken = Needy(mistake=lambda lib, x, n: lib.fn.flip(x, horizontal="x"))
    with pytest.raises(TypeError, match="horizontal"):
        mistaken.pipeline(penstock, "mistake").build()


STRANGERS = {
    "node": lambda theirs: penstock.fn.flip(theirs),
    "operand": lambda theirs: penstock.fn.readers.arrays([1, 2]) + theirs,
    "constant": lambda theirs: penstock.fn.readers.arrays([1, 2]) * dali.types.Constant(2),
    "dtype": lambda theirs: penstock.fn.cast(penstock.fn.readers.arrays([1, 2]), dtype=dali.types.FLOAT),
    "filter": lambda theirs: penstock.fn.resize(penstock.fn.constant(LISTED[0]), interp_type=dali.types.INTERP_NN),
    "definition": lambda theirs: penstock.data_iterator(dali.pipeline_def(lambda: theirs), ["x"])(batch_size=2),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_an_object_of_dalis_is_told_from_penstocks(name):
    with dali.Pipeline(2, 1, None):
        theirs = dali.fn.external_source(LISTED)
    with penstock.Pipeline(2), pytest.raises((TypeError, ValueError), match=r"it is DALI's(.|\n)*test_external"):
        STRANGERS[name](theirs)


def test_a_layout_is_told_for_each_row_of_a_batch_of_any_size():
    sizes, results = (2, 3, 1), []
    for lib in (dali, penstock):
        batches = [[np.zeros((2, 3), np.uint8)] * rows for rows in sizes]
        with lib.Pipeline(3, 1, None) as pipeline:
            images = lib.fn.external_source(batches, layout="HW")
            pipeline.set_outputs(lib.fn.get_property(images, key="layout"))
        pipeline.build()
        results.append([[bytes(np.array(row)) for row in pipeline.run()[0]] for _ in sizes])
    assert results[1] == results[0] == [[b"HW"] * rows for rows in sizes]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("ran", [1, 2, 3])
def test_a_reset_after_the_last_batch_begins_the_next_epoch(ran, depth):
    def source(info):
        if info.idx_in_epoch >= 6:
            raise StopIteration
        return np.int32([info.epoch_idx, info.idx_in_epoch])

    results = []
    for lib in (dali, penstock):
        with lib.Pipeline(2, 1, None, prefetch_queue_depth=depth) as pipeline:
            pipeline.set_outputs(lib.fn.external_source(source, batch=False))
        pipeline.build()
        for _ in range(ran):
            pipeline.run()
        pipeline.reset()
        try:
            results.append(np.array(pipeline.run()[0][0]).tolist())
        except StopIteration:
            results.append("the end")
    assert results[0] == results[1]
