"""What programs for DALI write that no operator's own test says: the same program, run by both."""

import numpy as np
import pytest

import penstock.fn
import penstock.types
from penstock import Pipeline

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

RNG = np.random.default_rng(9)
IMAGES = [RNG.integers(0, 256, (size, 5, 3), np.uint8) for size in (4, 6, 5)]
TEXTS = [np.frombuffer(text, np.uint8) for text in (b"12", b"7", b"130")]


def number(text):
    """A number that is written as text, which zeros are not."""
    return np.array([int(bytes(text).decode())])


def row_after_row(info):
    """The one output as the only row of an array."""
    return np.full((1, 5), info.idx_in_epoch, np.int32)


def label_of(image):
    """One number with an axis, and as many axes for zeros."""
    return image.reshape(-1)[:1].astype(np.int32)


def changed_list(lib, x):
    """What an operator with several outputs returns is a list of the program's own."""
    outputs = lib.fn.python_function(x, function=lambda text: (text, text[:1]), num_outputs=2)
    outputs[0] = lib.fn.cast(outputs[0], dtype=lib.types.INT32)
    outputs += lib.fn.python_function(x, function=lambda _: None, num_outputs=0)
    outputs.append(lib.fn.shapes(x))
    return tuple(outputs)


CASES = {
    "a list of outputs": (changed_list, TEXTS),
    "a function of texts": (lambda lib, x: lib.fn.python_function(x, function=number, num_outputs=1), TEXTS),
    "a function of texts, by batch": (
        lambda lib, x: lib.fn.python_function(
            x, function=lambda texts: [number(text) for text in texts], batch_processing=True
        ),
        TEXTS,
    ),
    "a function of what others made of texts": (
        lambda lib, x: lib.fn.python_function(lib.fn.cat(x, x), function=number) + lib.fn.shapes(x),
        TEXTS,
    ),
    "a seed without random numbers": (
        lambda lib, x: lib.fn.stack(lib.fn.crop(x, crop=(2, 3), seed=4), lib.fn.crop(x, crop=(2, 3)), axis=0, seed=-1),
        IMAGES,
    ),
    "a part of a constant": (
        lambda lib, x: x * lib.types.Constant(value=np.arange(6).reshape(2, 3), dtype=lib.types.INT64, device="cpu")[1],
        IMAGES,
    ),
    "a new axis of a constant": (
        lambda lib, x: lib.types.Constant(np.int32([1, 2, 3]), layout="C")[lib.newaxis("F")],
        IMAGES,
    ),
    "a window by a column of numbers": (
        lambda lib, x: lib.fn.slice(x, lib.fn.constant(idata=[1, 2], shape=[2, 1]), [3, 2], axes=[0, 1]),
        IMAGES,
    ),
    "a number in a matrix": (
        lambda lib, x: lib.fn.crop(x, crop=(3, 3), crop_pos_y=lib.fn.constant(fdata=0.9, shape=[1, 1])),
        IMAGES,
    ),
    "numbers of 64 bits": (
        lambda lib, x: (
            lib.fn.cat(lib.types.Constant(np.arange(3)), np.arange(2)),
            lib.types.Constant(np.array([0.1, 2.0]), device="cpu"),
            x * lib.types.Constant(np.arange(3)),
            lib.fn.stack(lib.types.Constant(np.arange(3), dtype=lib.types.INT64, device="cpu")),
        ),
        IMAGES,
    ),
    "a number of 64 bits": (
        lambda lib, x: (
            np.array(3),
            np.array([4], np.uint64),
            lib.fn.stack(np.int64(5), np.array(6)),
            lib.fn.copy(lib.types.Constant(np.int64(7))),
            lib.fn.copy(lib.types.Constant(np.array(8), device="cpu")),
            lib.fn.constant(idata=1) + np.array(9),
        ),
        IMAGES,
    ),
    "shifted truth values": (lambda lib, x: (((x > 9) << (x > 3)), ((x > 9) >> (x > 3))), IMAGES),
    "parts by constants and by steps of each sample": (
        lambda lib, x: (
            x[lib.types.Constant(1)],
            x[lib.types.Constant(np.int32(0), device="cpu"), 1:],
            x[:: lib.fn.cast(x[0, 0, 0] % 2 + 1, dtype=lib.types.INT32), :: x[0, 1, 0] % 2 - 2],
        ),
        IMAGES,
    ),
    "vectors of classes that a function made": (
        lambda lib, x: (
            lib.fn.one_hot(lib.fn.python_function(x, function=label_of), num_classes=300),
            lib.fn.one_hot(lib.fn.python_function(x, function=label_of), num_classes=300, axis=-1),
            lib.fn.one_hot(lib.fn.python_function(x, function=lambda image: image[0, :, 0]), num_classes=300),
        ),
        IMAGES,
    ),
    "shapes that a function made": (
        lambda lib, x: (
            lib.fn.reshape(x, shape=lib.fn.python_function(x, function=lambda image: np.int32(image.shape)[[1, 0, 2]])),
            lib.fn.zeros(shape=lib.fn.python_function(x, function=lambda image: np.int32(image.shape)[:2])),
            lib.fn.random.uniform(shape=lib.fn.python_function(x, function=lambda image: np.int32(image.shape)[1:]))
            * 0,
        ),
        IMAGES,
    ),
    "a filter for each image": (
        lambda lib, x: lib.fn.resize(
            x,
            size=[9, 7],  # the filter's number is 0, INTERP_NN
            interp_type=lib.fn.reinterpret(
                lib.fn.cast(lib.fn.reductions.max(x) / 300 - 0.5, dtype=lib.types.INT32), dtype=lib.types.INTERP_TYPE
            ),
        ),
        IMAGES,
    ),
    "one number for all axes, or for both limits": (
        lambda lib, x: (
            lib.fn.resize(x, size=[3, 3], roi_start=1, roi_end=4),
            lib.fn.resize(x, size=[3, 3], roi_start=[4], roi_end=1),
            lib.fn.transforms.rotation(angle=30.0, center=5.0),
            lib.fn.transforms.rotation(angle=30.0, center=5.0, axis=[0.0, 0.0, 1.0]),
            lib.fn.transforms.shear(shear=[1.0, 2.0], center=3.0),
            lib.fn.shapes(lib.fn.random_resized_crop(x, size=4, random_area=0.5, random_aspect_ratio=1.0)),
        ),
        IMAGES,
    ),
    "shapes of a type": (lambda lib, x: lib.fn.shapes(x, type=lib.types.INT32), IMAGES),
}


BLOCKS = [np.arange(24, dtype=np.int32).reshape(2, 3, 4) * n for n in (1, -3)]
OTHERS = [np.arange(1, 25, dtype=np.int32).reshape(2, 3, 4)] * 2


def joins(lib, x, y):
    given = lib.types.Constant(BLOCKS[0])
    return (
        *(lib.fn.cat(x, y, given, axis=axis) for axis in (0, 1, 2, -1)),
        *(lib.fn.stack(x, y, given, axis=axis) for axis in (0, 1, 2, 3, -1)),
        lib.fn.stack(lib.fn.reshape(x, layout="HWC"), y, axis=1, axis_name="N"),
        lib.fn.cat(x, axis=1),
    )


def reductions(lib, x, _):
    r, mean = lib.fn.reductions, lib.fn.reductions.mean
    return (
        *(r.max(x, axes=axes) for axes in (None, 0, [0, 2], (1,), -1)),
        r.min(lib.fn.reshape(x, layout="HWC"), axis_names="HC"),
        r.sum(x, dtype=lib.types.INT64),
        mean(x, axes=(0, 1), keep_dims=True),
        r.mean_square(x, dtype=lib.types.FLOAT),
        r.rms(x, axes=[1]),
        r.std_dev(x, mean(x), ddof=1),
        r.variance(x, mean(x, axes=[1]), axes=[1]),
    )


def views(lib, x, _):
    flat = lib.fn.reshape(x, shape=[-1])
    return (
        lib.fn.reshape(flat, shape=[6, -1], layout="HW"),
        lib.fn.reshape(x, src_dims=[1, 2, 0]),
        lib.fn.reshape(x, src_dims=[2, 0, 1, -1], layout="HWCF"),
        lib.fn.reshape(x, rel_shape=[2, 1, 0.5]),
        lib.fn.reshape(x, shape=lib.fn.cat(x.shape()[2:], x.shape()[:2])),
        lib.fn.expand_dims(x, axes=[0, 4], new_axis_names=None),
        lib.fn.squeeze(lib.fn.expand_dims(x, axes=[1]), axes=[1]),
        lib.fn.reinterpret(x, dtype=lib.types.UINT8, shape=[2, -1]),
        lib.fn.reinterpret(lib.fn.cast(x, dtype=lib.types.INT16), dtype=lib.types.UINT32),
    )


def expressions(lib, x, y):
    constant, small = lib.types.Constant, lib.fn.cast(y, dtype=lib.types.UINT8)
    return (
        *(x + y, x * y, x // y, x / y, -x, +x, x + 200, x * 0.75, constant(15).float32() - y),
        *(small * constant(3).uint8(), small + constant(100).int8(), small - 300, small * 1.0, small / small),
        *(x > y, (x == y) | (y < 4), (x != 0) & (x <= y), (x > y) ^ True, small ^ small, small | constant(1).uint8()),
        small * (small >= 8) * (small <= 16) + 255 * (small > 16),
        lib.fn.cast(small * 0.5 + small * 0.7, dtype=lib.types.UINT8),
        x * constant(1).bool(),
    )


@pytest.mark.parametrize("tutorial", [joins, reductions, views, expressions], ids=lambda each: each.__name__)
def test_a_tutorial_gives_the_same(agree, tutorial):
    agree(tutorial, BLOCKS, OTHERS, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_program_does_the_same(agree, name):
    define, inputs = CASES[name]
    layout = "HWC" if inputs is IMAGES else ""
    agree(define, inputs, layouts=(layout,), rtol=1e-6)


def test_operators_may_be_called_before_there_is_a_pipeline():
    results = []
    for library in (dali, penstock):
        numbers = library.fn.external_source(lambda: np.int32([3, 4]))
        doubled = [numbers * 2]
        outside = library.Pipeline(batch_size=2, num_threads=1, device_id=None)
        outside.set_outputs(numbers, *doubled)
        defined = library.pipeline_def(lambda: doubled[0] + numbers)(batch_size=2, num_threads=1, device_id=None)
        results.append([np.array(batch.as_array()).tolist() for pipe in (outside, defined) for batch in pipe.run()])
    assert results[0] == results[1]


def test_a_source_may_give_its_outputs_as_rows_of_an_array():
    results = []
    for library in (dali, penstock):
        with library.Pipeline(batch_size=3, num_threads=1, device_id=None) as pipeline:
            outputs = library.fn.external_source(
                source=row_after_row, num_outputs=1, batch=False, dtype=library.types.INT32
            )
            pipeline.set_outputs(*outputs)
        results.append(np.array(pipeline.run()[0].as_array()))
    assert results[0].tolist() == results[1].tolist()


def test_what_a_decorator_is_given_is_the_pipelines(caplog):
    results = []
    for library in (dali, penstock):

        @library.pipeline_def(batch_size=3, num_threads=1, device_id=None)
        def numbers(lib, first, batch_size, seed=1):
            return lib.fn.external_source(lambda: np.full((3, 1), first * batch_size + seed))

        pipelines = numbers(library, 10, 2), numbers(library, 10, batch_size=2, seed=5)
        results.append([(pipe.max_batch_size, np.array(pipe.run()[0].as_array()).tolist()) for pipe in pipelines])
    assert results[0] == results[1]
    assert "takes batch_size itself" in caplog.text


def test_readers_without_a_name_tell_their_length(tmp_path, jpeg):
    results = []
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(np.zeros((2, 2, 3), np.uint8)))
    for library in (dali, penstock):
        with library.Pipeline(2, 1, None) as pipeline:
            pipeline.set_outputs(library.fn.readers.file(files=[str(path) for path in tmp_path.iterdir()])[0])
        pipeline.build()
        ((name, size),) = pipeline.epoch_size().items()
        results.append((name, size, pipeline.epoch_size(name), pipeline.reader_meta(name)))
    assert results[0] == results[1]


def test_a_pipeline_for_hosts_alone():
    with Pipeline(batch_size=2, device_id=penstock.types.CPU_ONLY_DEVICE_ID) as pipeline:
        pipeline.set_outputs(penstock.fn.readers.arrays([1, 2], layout=""))
    assert np.asarray(pipeline.run()[0].asCPU()).tolist() == [1, 2]
    with pytest.raises(ValueError, match="device_id is out of range"):
        Pipeline(batch_size=2, device_id=-1)


def test_a_function_that_fails_on_the_first_sample_is_refused():
    pipeline = Pipeline(batch_size=1)
    with pipeline, pytest.raises(ValueError, match="fails on the first sample"):
        penstock.fn.python_function(penstock.fn.readers.arrays([[1, 2]]), function=lambda x: 1 // 0)


def test_samples_tell_where_they_were_read(tmp_path, jpeg):
    for number in range(5):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(IMAGES[number % 3]))
    results = []
    for library in (dali, penstock):
        with library.Pipeline(3, 1, None) as pipeline:
            files, labels = library.fn.readers.file(files=[str(path) for path in sorted(tmp_path.iterdir())])
            pipeline.set_outputs(library.fn.decoders.image(files), library.fn.cat(labels, [1]))
        pipeline.build()
        batches = [pipeline.run() for _ in range(2)]
        results.append([[sample.source_info() for sample in images] for images, _ in batches])
        assert not batches[0][1][0].source_info()
    assert results[0] == results[1]


@pytest.mark.parametrize("shape", [(4, 5, 3), (6,)])
def test_what_is_fed_may_be_unknown_where_there_are_branches(shape):
    def served(library):
        images = library.fn.external_source(name="images")
        first = library.fn.reductions.max(images)
        if first > 100:  # noqa: SIM108  # a program as users write it
            images = library.fn.cast(images, dtype=library.types.FLOAT) / 2
        else:
            images = images * 1.5
        return library.fn.crop(images, crop=(2, 2)) if len(shape) > 1 else images

    results = []
    for library in (dali, penstock):
        pipe = library.pipeline_def(enable_conditionals=True, prefetch_queue_depth=1)(served)(
            library, batch_size=2, num_threads=1, device_id=None
        )
        pipe.build()
        pipe.feed_input("images", [np.full(shape, number, np.uint8) for number in (90, 210)])
        results.append([np.array(sample) for sample in pipe.run()[0]])
    assert all(map(np.array_equal, *results))


@pytest.mark.parametrize("library", [dali, penstock], ids=["dali", "penstock"])
def test_what_is_fed_may_be_unknown_where_it_decides(library):
    @library.pipeline_def(batch_size=2, num_threads=1, device_id=None, enable_conditionals=True)
    def definition():
        flags = [library.fn.external_source(name=f"flag{number}") for number in range(4)]
        x, y = (library.fn.external_source(name=name) for name in "xy")
        if flags[0]:
            if flags[1] > 2:  # noqa: SIM114  # branches are meant
                z = x
            elif flags[2] and flags[3]:
                z = x
            else:
                z = y
        else:
            z = y
        return z

    pipeline = definition()
    pipeline.build()
    for number, kind in enumerate((np.float32, np.int64, np.bool_, np.bool_)):
        pipeline.feed_input(f"flag{number}", [kind(1), kind(number)])
    for name, value in (("x", 1), ("y", 2)):
        pipeline.feed_input(name, [np.float32([[value]])] * 2)
    assert np.ravel(pipeline.run()[0].as_array()).tolist() == [1, 2]


@pytest.mark.parametrize("library", [dali, penstock], ids=["dali", "penstock"])
def test_an_index_may_lie_outside_in_a_branch_that_no_sample_takes(library):
    @library.pipeline_def(batch_size=2, num_threads=1, device_id=None, enable_conditionals=True)
    def definition():
        values = library.types.Constant(np.arange(4, dtype=np.int32), device="cpu")
        total = library.fn.constant(idata=0, shape=[])
        for number in range(7):
            if number < library.fn.shapes(values)[0]:
                total += values[number]
        return total

    pipeline = definition()
    pipeline.build()
    assert [int(np.array(pipeline.run()[0].at(row))) for row in range(2)] == [6, 6]


@pytest.mark.parametrize("library", [dali, penstock], ids=["dali", "penstock"])
def test_shapes_may_be_fed(library):
    @library.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def definition():
        x, shape = (library.fn.external_source(name=name) for name in ("x", "shape"))
        return library.fn.reshape(x, shape=shape), library.fn.zeros(shape=shape)

    pipeline = definition()
    pipeline.build()
    pipeline.feed_input("x", np.arange(12, dtype=np.int16).reshape(2, 6))
    pipeline.feed_input("shape", np.int32([[2, 3], [6, 1]]))
    for output in pipeline.run():
        assert [np.array(output[row]).shape for row in range(2)] == [(2, 3), (6, 1)]


@pytest.mark.parametrize("outputs", [0, 1])
def test_functions_run_though_nothing_is_made_of_them(outputs):
    runs: dict[str, list[int]] = {"dali": [], "penstock": []}
    for library in (dali, penstock):
        seen = runs[library.__name__.rpartition(".")[2]]

        @library.pipeline_def(
            batch_size=3, num_threads=1, device_id=None, enable_conditionals=True, prefetch_queue_depth=1
        )
        def definition(seen=seen):
            number = library.fn.external_source([[np.array([n]) for n in (4, 5, 6)]], cycle=True)
            watch = lambda value: (seen.append(int(value[0])), value if outputs else None)[1]  # noqa: E731  # likewise
            if number[0] > 4:
                library.fn.python_function(number, function=watch, num_outputs=outputs)
            return number

        pipeline = definition()
        pipeline.build()
        seen.clear()
        pipeline.run()
    assert {name: sorted(set(seen)) for name, seen in runs.items()} == {"dali": [5, 6], "penstock": [5, 6]}


def test_a_pipeline_is_written_before_anything_is_fed():
    results = []
    for library in (dali, penstock):
        with library.Pipeline(2, 1, None, prefetch_queue_depth=1) as pipeline:
            images = library.fn.external_source(name="images")
            pipeline.set_outputs(library.fn.crop(images, crop=(2, 3))[1:] * 2)
        made = library.Pipeline.deserialize(pipeline.serialize())
        made.build()
        made.feed_input("images", IMAGES[:2], layout="HWC")
        results.append([np.array(sample) for sample in made.run()[0]])
    assert all(map(np.array_equal, *results))
