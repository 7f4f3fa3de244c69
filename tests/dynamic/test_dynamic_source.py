"""External sources of dynamic mode."""

import numpy as np
import penstock.experimental.dynamic as ndd
import pytest

from penstock import Pipeline, fn


def numbers():
    yield from (np.int32([1]), np.int32([2]))


def items(source, count):
    """The next numbers of a source, and "end" for StopIteration."""
    result = []
    for _ in range(count):
        try:
            result.append(source().item())
        except StopIteration:
            result.append("end")
    return result


@pytest.mark.parametrize("source", [numbers, [np.int32([1]), np.int32([2])]], ids=["generator function", "list"])
@pytest.mark.parametrize(
    ("cycle", "expected"),
    [
        (None, [1, 2, "end", "end", "end"]),
        (False, [1, 2, "end", "end", "end"]),
        ("quiet", [1, 2, 1, 2, 1]),
        (True, [1, 2, 1, 2, 1]),
        ("raise", [1, 2, "end", 1, 2]),
    ],
)
def test_the_end_of_a_source(source, cycle, expected):
    assert items(ndd.ExternalSource(source, cycle=cycle), 5) == expected


def test_generators_iterators_and_functions_are_sources():
    assert items(ndd.ExternalSource(numbers()), 3) == [1, 2, "end"]
    assert items(ndd.ExternalSource(iter([np.int32([5])])), 2) == [5, "end"]
    calls = iter([np.int32([7]), np.int32([8])])
    assert items(ndd.ExternalSource(lambda: next(calls)), 3) == [7, 8, "end"]


def test_outputs_layouts_and_types():
    source = ndd.ExternalSource([(np.zeros((2, 3)), [1])] * 2, 2, layout=["HW", None], dtype=[ndd.float32, "u8"])
    image, label = source()
    assert (image.layout, str(image.dtype), label.layout, str(label.dtype)) == ("HW", "f32", None, "u8")
    image, label = source(batch_size=3)
    assert (image.batch_size, image.layout, label.batch_size) == (3, "HW", 3)


def test_batches_of_a_pipeline_are_batches():
    pipeline = Pipeline(batch_size=2, num_threads=1)
    with pipeline:
        pipeline.set_outputs(fn.reshape(fn.readers.arrays(np.zeros((4, 2, 3))), layout="HW"))
    batch = ndd.ExternalSource(lambda: pipeline.run()[0])()
    assert isinstance(batch, ndd.Batch)
    assert (batch.batch_size, batch.layout, batch.shape) == (2, "HW", [(2, 3), (2, 3)])
    pipeline.close()


def test_an_error_of_the_source_passes_through():
    def broken():
        raise LookupError("no data")

    with pytest.raises(LookupError, match="no data"):
        ndd.ExternalSource(broken)()


MISTAKES = [
    (lambda: ndd.ExternalSource(3), TypeError, "a function or an iterable"),
    (lambda: ndd.ExternalSource(lambda info: info), ValueError, "takes no arguments"),
    (lambda: ndd.ExternalSource(lambda: 1, cycle="quiet"), ValueError, "does not end"),
    (lambda: ndd.ExternalSource(numbers(), cycle=True), TypeError, "generator cannot begin again"),
    (lambda: ndd.ExternalSource([], cycle="twice"), ValueError, "unknown cycle"),
    (lambda: ndd.ExternalSource([], 0), ValueError, "num_outputs"),
    (lambda: ndd.ExternalSource([], 2, layout=["H"]), ValueError, "one entry per output"),
    (lambda: ndd.ExternalSource([], device="tpu"), ValueError, "device"),
    (lambda: ndd.ExternalSource([[1, 2, 3]], 2)(), ValueError, "another number of outputs"),
    (lambda: ndd.ExternalSource([(ndd.batch([[1]]), [1])], 2)(), TypeError, "must all be batches"),
    (lambda: ndd.ExternalSource([ndd.batch([[1]])])(batch_size=3), ValueError, "another size"),
]


@pytest.mark.parametrize(("call", "kind", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_refused(call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "test_dynamic_source" in str(caught.value)
