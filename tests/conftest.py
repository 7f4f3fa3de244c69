"""Data that tests make for themselves, and a look at the threads that they leave behind."""

from __future__ import annotations

import gc
import io
import logging
import sys
import threading
import traceback
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from penstock.core import slow_waits
from penstock.core.warn_once import forget_warnings
from penstock.engine.host import memory_caches
from penstock.engine.host.worker_threads import _SharedThreads
from penstock.native.compiled import Compiled
from penstock.sources.formats.caffe.caffe2_source import write_caffe2


def _jpeg(pixels, **options):
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, "JPEG", **{"quality": 95, **options})
    return file.getvalue()


@pytest.fixture(scope="session")
def jpeg():
    """A function from pixels to the bytes of a JPEG."""
    return _jpeg


@pytest.fixture(scope="session")
def digits():
    """61 grey images of 28x28, different from each other, with labels 0 to 9."""
    rng = np.random.default_rng(7)
    coarse = rng.integers(0, 256, (61, 7, 7), np.uint8)
    return np.kron(coarse, np.ones((1, 4, 4), np.uint8)), np.arange(61, dtype=np.int32) % 10


@pytest.fixture(scope="session")
def digits_lmdb(digits, tmp_path_factory):
    """The digits as a Caffe2 LMDB of JPEGs."""
    path = tmp_path_factory.mktemp("lmdb") / "digits"
    write_caffe2(path, ((_jpeg(image), int(label)) for image, label in zip(*digits, strict=True)))
    return path


@pytest.fixture(scope="session", autouse=True)
def loops_from_the_first_call():
    """Loops run from their first call on, also where the code that they replace would do with an empty cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiled, "pays_off", lambda *_: True)
        yield


@pytest.fixture(autouse=True)
def the_same_numbers(request, monkeypatch):
    """A module's generator RNG begins anew for each test, so that what a test draws does not depend on those before."""
    if hasattr(request.module, "RNG"):
        monkeypatch.setattr(request.module, "RNG", np.random.default_rng(1))


@pytest.fixture(autouse=True)
def warnings_appear_again():
    """A warning that appears once in a process appears in each test."""
    forget_warnings()


@pytest.fixture
def told(monkeypatch):
    """Report slow waits soon: an event that the first message sets, and the messages."""
    monkeypatch.setattr(slow_waits, "PATIENCE_SECONDS", 0.05)
    event, messages = threading.Event(), []

    class Handler(logging.Handler):
        def emit(self, record):
            messages.append(record.getMessage())
            event.set()

    handler = Handler()
    logging.getLogger("penstock").addHandler(handler)
    yield SimpleNamespace(event=event, messages=messages)
    logging.getLogger("penstock").removeHandler(handler)


@pytest.fixture
def stores():
    """List the stores in memory of this test's caches, the oldest first. Earlier tests may have left some."""
    before = weakref.WeakSet(memory_caches._contents)
    return lambda: [store for store in memory_caches._contents if store not in before]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    """After every test, the threads of the iterators and pipelines that it made and dropped are gone."""
    before = set(threading.enumerate())  # a failed test before this one may hold some
    yield
    if not _threads_beside(before):
        return
    gc.collect()  # slow beside most tests, so only where a thread may be held by a cycle
    left = _threads_beside(before)
    # A thread ends after its current task, which may wait for a loop to be compiled.
    for thread in left * 100:
        thread.join(timeout=60 / 100)
        if thread.is_alive():
            gc.collect()  # JAX's threads may have held a part of the cycle until now
    running = [thread for thread in left if thread.is_alive()]
    assert not running, "\n".join(map(_reason_to_live, running))
    # What is left is in caches, mostly of JAX and numba. They grow by thousands of objects per test. If each collection
    # visited all of them, that would take a quarter of the time of the tests. Collect once more, so that nothing is
    # frozen that an ended thread has held.
    gc.collect()
    gc.freeze()


def _threads_beside(known):
    return [thread for thread in threading.enumerate() if thread.name.startswith("penstock") and thread not in known]


def _reason_to_live(thread):
    """Describe where a thread is, and the chain of objects that keeps its executor alive."""
    stack = "".join(traceback.format_stack(sys._current_frames().get(thread.ident)))
    holders = [one for one in gc.get_objects() if type(one) is _SharedThreads and thread in one.threads]
    chain, seen = [], {id(holders), id(sys._getframe())}
    while holders and len(chain) < 30:
        holder = holders[0]
        try:
            text = repr(holder)[:120]
        except Exception:  # noqa: BLE001  # of a half-dead object, such as a weak proxy
            text = ""
        chain.append(f"{type(holder).__name__} {text}")
        seen |= {id(holders), id(holder)}
        if isinstance(holder, weakref.finalize._Info):  # held as long as the object whose end it waits for
            holders = [holder.weakref()]
        else:
            holders = [one for one in gc.get_referrers(holder) if id(one) not in seen]
    return f"{thread} at\n{stack}is held by\n  " + "\n  ".join(chain)
