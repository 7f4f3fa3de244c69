"""Trace of one batch, compared with the table of calls in docs/explanation/how-a-batch-is-made.md."""

import importlib
import inspect
import io
import re
import sys
import threading
from pathlib import Path
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import pytest
from PIL import Image

import penstock
from penstock import DataIterator, Pipeline, fn
from penstock.engine.host import chunk_scheduler, worker_threads
from penstock.native import compiled

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "how-a-batch-is-made.md"
PACKAGE = str(Path(penstock.__file__).parent)
CONSUMER, WORKER = "consumer", "worker"


class Call(NamedTuple):
    """Row of the table: number of the call, number of its caller, name, thread."""

    number: int
    caller: int | None
    name: str
    thread: str


def section():
    return PAGE.read_text().partition("\n## The calls of one batch\n")[2].partition("\n## ")[0]


def rows():
    thread = CONSUMER
    for line in section().splitlines():
        if "thread boundary" in line:
            thread = WORKER if "worker" in line else CONSUMER
        elif match := re.match(r"\| (\d+) \| (\d*) ?\| `([\w.]+)` \| `([\w.]+)` \|", line):
            number, caller, module, function = match.groups()
            yield Call(int(number), int(caller) if caller else None, f"{module}.{function}", thread)


def code_of(name):
    """Return the code object of a function of the package, so that frames are recognized by identity."""
    module, _, function = re.fullmatch(r"([a-z_.]+?)\.((?:[A-Z]\w*\.)?(\w+))", name).group(1, 3, 2)
    target = importlib.import_module(f"penstock.{module}")
    for part in function.split("."):
        target = getattr(target, part)
    return inspect.unwrap(target).__code__


def stack_of(frame):
    """Return the package's functions on the stack, outermost first.

    Comprehensions and generator expressions are left out: they have a frame of their own only in some versions of
    Python.
    """
    codes = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            codes.append(code)
        frame = frame.f_back
    return tuple(reversed(codes))


def jpeg(number):
    file = io.BytesIO()
    pixels = np.random.default_rng(number).integers(0, 255, (600, 600, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "JPEG")
    return np.frombuffer(file.getvalue(), np.uint8)


def photographs():
    files = [jpeg(number) for number in range(8)]
    length = max(map(len, files))
    pipeline = Pipeline(batch_size=4, num_threads=2, seed=1)
    with pipeline:
        data = fn.readers.arrays(np.stack([np.pad(file, (0, length - len(file))) for file in files]), name="reader")
        # Small parts, so that the rows below them are not decoded.
        images = fn.resize(fn.decoders.image_random_crop(data, random_area=[0.1, 0.2]), size=[16, 16])
        pipeline.set_outputs(fn.crop_mirror_normalize(images, mean=128.0, mirror=fn.random.coin_flip()))
    return DataIterator(pipeline, ["images"], reader_name="reader", prepare_first_batch=False)


@pytest.fixture
def stacks(monkeypatch):
    """Stacks of all calls for the first batch, in order: of the consumer's thread, and of one worker thread."""
    if compiled._AS_PYTHON:
        pytest.skip("compiled loops run as Python")
    # A profile function is only set in threads that start later, so the iterator may not use threads of other tests.
    monkeypatch.setattr(worker_threads, "_all_shared", WeakValueDictionary())
    # Otherwise the following batch is begun ahead only if the chunks of the first one are slow.
    monkeypatch.setattr(chunk_scheduler, "_LIGHT_BATCH_SECONDS", -1.0)
    by_thread = {}
    iterator = photographs()

    def profile(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            by_thread.setdefault(threading.current_thread(), []).append(stack_of(frame))

    before = sys.getprofile(), threading.getprofile()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        next(iterator)
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])
        iterator.close()  # waits for the chunks of batches that were begun ahead
    first, run_rows = code_of(next(rows()).name), code_of("engine.host.host_program.HostProgram.run_rows")
    consumer = [stack[stack.index(first) :] for stack in by_thread.pop(threading.current_thread()) if first in stack]
    worker = next(stacks for stacks in by_thread.values() if any(run_rows in stack for stack in stacks))
    return {CONSUMER: consumer, WORKER: worker}


def depth(stacks, thread, name):
    """Return the length of the longest stack that ends with a call."""
    return max(len(stack) for stack in stacks[thread] if stack[-1] is code_of(name))


def test_every_call_of_the_page_happens_in_this_order(stacks):
    table = {call.number: call for call in rows()}
    assert list(table) == list(range(1, len(table) + 1))
    assert len(table) > 25
    latest = {CONSUMER: -1, WORKER: -1}
    for call in table.values():
        caller, code = () if call.caller is None else (code_of(table[call.caller].name),), code_of(call.name)
        positions = [
            position
            for position, stack in enumerate(stacks[call.thread])
            if stack[-1] is code and stack[-1 - len(caller) : -1] == caller and (caller or len(stack) == 1)
        ]
        assert positions, f"call {call.number} of the page does not happen: {call.name} from call {call.caller}"
        assert positions[0] > latest[call.thread], f"call {call.number} of the page is in the wrong place: {call.name}"
        latest[call.thread] = positions[0]


@pytest.mark.parametrize(
    ("thread", "last"),
    [
        (CONSUMER, "engine.host.worker_threads.ThreadExecutor.compute"),
        (WORKER, "image.describe.pass_builder.PassBuilder.add"),
        (WORKER, "image.codecs.libjpeg_turbo.RowDecoding.__call__"),
        (WORKER, "native.compiled.BoundCode.__call__"),
    ],
)
def test_no_call_on_the_way_is_missing_from_the_page(stacks, thread, last):
    named, end = {code_of(call.name) for call in rows()}, code_of(last)
    ways = [stack for stack in stacks[thread] if stack[-1] is end]
    assert ways
    assert {code.co_qualname for stack in ways for code in stack if code not in named} == set()


def test_the_page_states_how_many_calls_are_on_the_stack(stacks):
    match = re.search(
        r"(\d+) calls are on the stack: (\d+) on the consumer's thread \((\d+) .*? and (\d+) on\s+the worker thread\. "
        r"(\d+) calls",
        section(),
        re.DOTALL,
    )
    total, consumer, ahead, worker, decoder = map(int, match.groups())
    submit = "engine.host.worker_threads.ThreadExecutor.compute"
    submitted = {len(stack) for stack in stacks[CONSUMER] if stack[-1] is code_of(submit)}
    assert submitted == {ahead, consumer}
    assert depth(stacks, WORKER, "native.compiled.BoundCode.__call__") == worker
    assert depth(stacks, WORKER, "image.codecs.libjpeg_turbo.RowDecoding.__call__") == decoder
    assert total == consumer + worker
    assert total <= 16  # a call that only passes on to the next one makes the engine harder to follow
