"""Tests of branches: other rows cost no work, cannot fail, and do not depend on chunks."""
# ruff: noqa: SIM102, SIM108  # the statements are what is tested

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import fn, pipeline_def, types
from penstock.errors import DefinitionError, SampleError
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.testing import ListSource

try:
    import nvidia.dali as dali
except ImportError:
    dali = None

NUMBERS = np.arange(8, dtype=np.int32)


def made(define, batch_size=8, **options):
    return pipeline_def(define, enable_conditionals=True, batch_size=batch_size, seed=3, num_threads=2, **options)()


def values(output):
    return [np.asarray(sample).tolist() for sample in output.as_cpu()]


def test_branch_computes_only_its_rows():
    seen = []

    def note(sample):
        seen.append(int(sample))
        return sample

    def define():
        x = fn.readers.arrays(NUMBERS)
        if x % 3 == 0:
            x = fn.python_function(x, function=note)
        return x

    pipeline = made(define, exec_async=False)
    seen.clear()  # of what the function gives when it is tried
    assert values(pipeline.run()[0]) == NUMBERS.tolist()
    assert seen == [0, 3, 6]


def test_branch_without_rows_is_not_computed():
    def fail(sample):
        raise ValueError("never")

    def define():
        x = fn.readers.arrays(NUMBERS)
        y = x
        if x > 100:
            if x > 200:
                y = fn.python_function(x, function=fail, dtype=types.INT32, ndim=0)
        return y

    assert values(made(define).run()[0]) == NUMBERS.tolist()


def test_rows_cannot_fail_in_other_branches(jpeg):
    good = np.frombuffer(jpeg(np.zeros((8, 8, 3), np.uint8)), np.uint8)
    files = [good, good[:9], good, good[:5]]

    def define(wanted):
        data, ok = apply_reader(ListSource([files, np.array([1, 0, 1, 0], np.bool_)], ("", "")), {})
        if ok == wanted:
            images = fn.decoders.image(data)
        else:
            images = fn.constant(np.ones((2, 2, 3), np.uint8), layout="HWC")
        return fn.resize(images, size=[4, 4])

    pipeline = pipeline_def(define, enable_conditionals=True, batch_size=4)
    assert [sample.max() for sample in pipeline(wanted=True).run()[0]] == [0, 1, 0, 1]
    with pytest.raises(SampleError, match=r"decoders.image failed on sample 1") as caught:
        pipeline(wanted=False).run()
    assert "images = fn.decoders.image(data)" in str(caught.value)


def test_reader_in_branch_reads_its_rows():
    read = []

    class Noted(ListSource):
        def read(self, indices, out):
            read.extend(indices.tolist())
            return super().read(indices, out)

    def define():
        x = fn.readers.arrays(NUMBERS)
        if x > 5:
            (x,) = apply_reader(Noted([NUMBERS * 10], ("",)), {})
        return x

    assert values(made(define, exec_async=False).run()[0]) == [0, 1, 2, 3, 4, 5, 60, 70]
    assert read == [6, 7]


def test_shape_is_inferred_from_first_sample_in_branch():
    images = [np.full((2, 3) if n > 4 else (1, n + 1), n, np.uint8) for n in range(8)]

    def define(limit):
        data, x = apply_reader(ListSource([images, NUMBERS], ("", "")), {})
        if x >= limit:
            y = fn.reshape(data, shape=[6])
        else:
            y = fn.constant(np.zeros(6, np.uint8))
        return y

    build = pipeline_def(define, enable_conditionals=True, batch_size=8)
    assert [sample.max() for sample in build(limit=5).run()[0]] == [0] * 5 + [5, 6, 7]
    with pytest.raises(DefinitionError, match="none of the first"):
        build(limit=100).run()


SOURCES = {"x": NUMBERS, "y": np.array([3, -1, 4, 1, -5, 9, 2, -6], np.int32)}
CONDITIONS = {
    "x > 3": lambda x, y: x > 3,
    "y": lambda x, y: y,
    "x > y and y > 0": lambda x, y: x > y and y > 0,
    "not x or y < 2": lambda x, y: not x or y < 2,
    "-2 < y <= x": lambda x, y: -2 < y <= x,
    "True": lambda x, y: True,
}
WORK = {
    "x = x + y": lambda x, y: (x + y, y),
    "y = y * 2 - x": lambda x, y: (x, y * 2 - x),
    "x, y = y, x": lambda x, y: (y, x),
    "pass": lambda x, y: (x, y),
}


@st.composite
def trees(draw, depth=2):
    """Draw programs: work by name, and conditions with two bodies that may return."""
    body = []
    for _ in range(draw(st.integers(1, 2))):
        if depth and draw(st.booleans()):
            then, other = draw(trees(depth=depth - 1)), draw(trees(depth=depth - 1))
            body.append((draw(st.sampled_from(sorted(CONDITIONS))), then, other))
        else:
            body.append(draw(st.sampled_from(sorted(WORK))))
    if depth < 2 and draw(st.integers(0, 4)) == 0:
        body.append("return x, y")
    return body


def text(body, indent=1):
    lines = []
    for statement in body:
        pad = "    " * indent
        if isinstance(statement, str):
            lines.append(pad + statement)
        else:
            condition, then, other = statement
            lines += [f"{pad}if {condition}:", *text(then, indent + 1), f"{pad}else:", *text(other, indent + 1)]
    return lines


def plain(source, x, y):
    """Run the program on Python numbers, one row at a time."""
    scope = {}
    exec(source, scope)
    return scope["program"](x, y)


@settings(max_examples=25, deadline=None)
@given(body=trees(), rows=st.sampled_from([1, 3, 8]))
def test_random_programs_match_python(tmp_path_factory, body, rows):
    check(tmp_path_factory, body, rows, "host")


@settings(max_examples=4, deadline=None)
@given(body=trees())
def test_random_programs_match_python_in_device_program(tmp_path_factory, body):
    check(tmp_path_factory, body, 8, "device")


def check(tmp_path_factory, body, rows, placement):
    source = "\n".join(["def program(x, y):", *text(body), "    return x, y", ""])
    file = tmp_path_factory.mktemp("programs") / "program.py"
    file.write_text(source)
    scope = {}
    exec(compile(source, str(file), "exec"), scope)
    program = scope["program"]

    def define():
        return program(*(fn.readers.arrays(column) for column in SOURCES.values()))

    pipeline = made(define, rows, placement=placement)
    batches = [[values(output) for output in pipeline.run()] for _ in range(-(-8 // rows))]
    pipeline.close()
    actual = list(zip(*(sum((batch[n] for batch in batches), [])[:8] for n in range(2)), strict=True))
    assert actual == [plain(source, int(x), int(y)) for x, y in zip(*SOURCES.values(), strict=True)]
    if dali is not None and source.count("return") == 1:  # DALI returns at the end only
        assert actual == of_dali(program)


def of_dali(program):
    @dali.pipeline_def(enable_conditionals=True, batch_size=8, num_threads=1, device_id=None)
    def define():
        return program(*(dali.fn.external_source([column]) for column in SOURCES.values()))

    return list(zip(*([sample.item() for sample in map(np.array, output)] for output in define().run()), strict=True))
