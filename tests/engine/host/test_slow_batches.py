"""Messages about a wait that takes long: they name the process and the line of the user's program, once."""

import jax
import numpy as np
import pytest

from penstock import Pipeline, fn
from penstock.core import slow_waits
from penstock.launch import initialize


@pytest.mark.parametrize("threads", [True, False])
def test_line_of_a_function_that_does_not_return(told, threads, monkeypatch):
    event, messages = told.event, told.messages
    monkeypatch.setattr(slow_waits, "process_name", "process 1 of 2: ")

    def stuck(sample):
        if sample == 3:
            event.wait(30)  # stuck here
        return sample

    with Pipeline(2, 1, exec_async=threads) as pipeline:
        pipeline.set_outputs(fn.python_function(fn.readers.arrays(np.arange(8)), function=stuck))
    assert [pipeline.run()[0].as_array().tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    pipeline.close()
    (message,) = messages
    assert message.startswith("process 1 of 2: no batch for 10 s; it waits for File")
    assert "in stuck\n    event.wait(30)  # stuck here" in message


def test_line_of_a_function_that_does_not_return_while_it_is_traced(told):
    event, messages = told.event, told.messages

    def stuck(sample):
        event.wait(30)  # stuck here
        return sample

    with Pipeline(2, 1) as pipeline:
        pipeline.set_outputs(fn.python_function(fn.readers.arrays(np.arange(8)), function=stuck))
    (message,) = messages
    assert "stuck has not returned for zeros in " in message
    assert "declare its outputs with dtype= and ndim=" in message
    assert "in stuck\n    event.wait(30)  # stuck here" in message


def test_processes_that_do_not_join(told, monkeypatch):
    event, messages = told.event, told.messages
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "127.0.0.1:9")
    monkeypatch.setenv("PENSTOCK_NUM_PROCESSES", "2")
    monkeypatch.setenv("PENSTOCK_PROCESS_ID", "1")
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **__: event.wait(30))
    initialize()
    (message,) = messages
    assert message.startswith("process 1 of 2 has waited 10 s in initialize() for the others at 127.0.0.1:9")


def test_nested_waits_are_reported_once(told):
    event, messages = told.event, told.messages
    with slow_waits.SlowWait(lambda: "outer"), slow_waits.SlowWait(lambda: "inner"):
        assert event.wait(30)
    with slow_waits.SlowWait(lambda: "short"):
        pass
    assert messages == ["outer"]
