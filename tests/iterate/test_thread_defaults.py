"""Tests of the default number of threads: the CPUs of the process, or DALI's default on DALI's paths."""

import numpy as np
import pytest

import penstock.plugin.jax as dali
from penstock import data_iterator, fn, peekable_data_iterator, pipeline_def
from penstock.core.cpu_limits import CpuLimits, cpu_limits
from penstock.iterate import iterator_factory
from penstock.plugin.jax import clu

DATA = np.arange(24 * 40 * 30 * 3, dtype=np.uint32).astype(np.uint8).reshape(24, 40, 30, 3)


def definition():
    images = fn.readers.arrays(DATA, layout="HWC", random_shuffle=True, name="r")
    images = fn.python_function(images, function=np.flipud)
    return fn.random_resized_crop(images, size=(8, 8))


def threads_of(iterator):
    return iterator._pipeline.num_threads


@pytest.fixture
def five_cpus(monkeypatch):
    monkeypatch.setattr(iterator_factory, "cpu_limits", lambda: CpuLimits(cores=8, affinity=6, quota=4.5))


@pytest.mark.parametrize("decorator", [data_iterator, peekable_data_iterator])
def test_default_is_the_cpus_of_the_process(five_cpus, decorator):
    make = decorator(definition, ["x"], reader_name="r", prepare_first_batch=False)
    assert threads_of(make(batch_size=8)) == 5
    assert threads_of(make(batch_size=8, num_threads=None)) == 5
    assert threads_of(make(batch_size=8, num_threads=3)) == 3


@pytest.mark.parametrize("decorator", [dali.data_iterator, clu.peekable_data_iterator])
def test_dali_paths_keep_their_default(five_cpus, decorator):
    make = decorator(definition, ["x"], reader_name="r", prepare_first_batch=False)
    assert threads_of(make(batch_size=8)) == 4
    assert threads_of(make(batch_size=8, num_threads=3)) == 3
    later = decorator(output_map=["x"], reader_name="r", prepare_first_batch=False)(definition)
    assert threads_of(later(batch_size=8)) == 4
    assert later.__name__ == "definition"


def test_option_of_pipeline_def_wins(five_cpus):
    decorated = pipeline_def(num_threads=7, batch_size=8)(definition)
    for decorator in (data_iterator, dali.data_iterator):
        assert threads_of(decorator(decorated, ["x"], reader_name="r", prepare_first_batch=False)()) == 7


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_batches_do_not_depend_on_threads(threads):
    make = data_iterator(definition, ["x"], reader_name="r")
    expected = [np.asarray(batch["x"]) for batch in make(batch_size=8, seed=3)]
    actual = [np.asarray(batch["x"]) for batch in make(batch_size=8, seed=3, num_threads=threads)]
    np.testing.assert_array_equal(actual, expected)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("limit", "quota"), [("max 100000\n", None), ("150000 100000\n", 1.5), ("50000 100000\n", 0.5), ("", None)]
)
def test_quota_of_version_2(tmp_path, limit, quota):
    write(tmp_path / "membership", "0::/jobs/mine\n")
    write(tmp_path / "cgroup/jobs/mine/cpu.max", limit)
    limits = cpu_limits(tmp_path / "cgroup", tmp_path / "membership")
    assert limits.quota == quota
    assert 1 <= limits.usable <= limits.affinity


def test_quota_of_a_parent_counts(tmp_path):
    write(tmp_path / "membership", "0::/jobs/mine\n")
    write(tmp_path / "cgroup/jobs/mine/cpu.max", "400000 100000")
    write(tmp_path / "cgroup/jobs/cpu.max", "200000 100000")
    assert cpu_limits(tmp_path / "cgroup", tmp_path / "membership").quota == 2.0


@pytest.mark.parametrize(("limit", "quota"), [("-1", None), ("250000", 2.5)])
def test_quota_of_version_1(tmp_path, limit, quota):
    # The path of the host, which does not exist in the container: the root of the mount counts.
    write(tmp_path / "membership", "4:memory:/m\n3:cpu,cpuacct:/docker/abc\n2:cpuset:/\n")
    write(tmp_path / "cgroup/cpu/cpu.cfs_quota_us", limit)
    write(tmp_path / "cgroup/cpu/cpu.cfs_period_us", "100000")
    assert cpu_limits(tmp_path / "cgroup", tmp_path / "membership").quota == quota


def test_system_without_control_groups(tmp_path):
    assert cpu_limits(tmp_path / "cgroup", tmp_path / "membership").quota is None
