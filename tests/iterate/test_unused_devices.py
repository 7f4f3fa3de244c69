"""Tests of the warning about devices that an iterator leaves unused."""

import logging
import subprocess
import sys

import jax
import numpy as np
import pytest

import penstock.plugin.jax as dali
from penstock import DataIterator, Pipeline, data_iterator, fn, peekable_data_iterator, pipeline_def
from penstock.iterate.iterator_options import warn_of_unused_devices
from penstock.plugin.jax import clu

PROGRAM = """
import jax
jax.config.update("jax_num_cpu_devices", {devices})
from penstock import data_iterator, fn
make = data_iterator(lambda: {{"x": fn.readers.arrays([1, 2, 3, 4])}})
for _ in range(2):
    assert len(list(make(batch_size=2{options}))) == 2
"""


@pytest.fixture
def first_use(caplog):
    """Forget an earlier warning of this process, and collect the next one."""
    warn_of_unused_devices.cache_clear()
    with caplog.at_level(logging.WARNING, "penstock"):
        yield caplog


def numbers():
    return {"x": fn.readers.arrays(np.arange(8))}


@pytest.mark.parametrize("decorator", [data_iterator, peekable_data_iterator])
def test_one_warning_that_says_what_to_write(decorator, first_use):
    make = decorator(numbers)
    for _ in range(2):
        make(batch_size=8)
    ((name, level, text),) = first_use.record_tuples
    assert (name, level) == ("penstock", logging.WARNING)
    assert f"1 of {jax.device_count()} devices" in text
    code = text[text.index("sharding=") + len("sharding=") : text.index("; for one of them")]
    iterator = decorator(numbers, sharding=eval(code))(batch_size=8)
    assert len(next(iterator)["x"].devices()) == jax.device_count()


@pytest.mark.parametrize(
    "make",
    [
        lambda: data_iterator(numbers)(batch_size=8, device_id=0),
        lambda: data_iterator(pipeline_def(numbers, device_id=0))(batch_size=8),
        lambda: data_iterator(numbers, devices=jax.devices()[:2])(batch_size=8),
        lambda: data_iterator(numbers, sharding=jax.NamedSharding(jax.make_mesh((1,), ("b",)), jax.P()))(batch_size=8),
        lambda: dali.data_iterator(numbers, ["x"])(batch_size=8),
        lambda: dali.data_iterator(output_map=["x"])(numbers)(batch_size=8),
        lambda: dali.data_iterator(numbers, ["x"], devices=jax.devices()[:2])(batch_size=8),
        lambda: clu.peekable_data_iterator(numbers, ["x"])(batch_size=8),
        lambda: DataIterator(pipeline_def(numbers)(batch_size=8), ["x"]),
        lambda: Pipeline(batch_size=8).build(lambda: numbers()["x"]),
    ],
    ids=[
        "device_id",
        "device_id of the pipeline",
        "devices",
        "sharding",
        "DALI",
        "DALI's decorator",
        "DALI's devices",
        "clu",
        "DataIterator",
        "Pipeline",
    ],
)
def test_no_warning_for_a_choice_and_for_dali(make, first_use):
    make()
    assert not first_use.records


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "options", "lines"), [(3, "", 1), (3, ", device_id=1", 0), (1, "", 0)])
def test_the_line_is_visible_without_logging_setup(devices, options, lines):
    program = PROGRAM.format(devices=devices, options=options)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.count("\n") == done.stderr.count(f"1 of {devices} devices") == lines, done.stderr
