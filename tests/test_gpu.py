"""What only an accelerator can show. Skipped where there is none."""

import jax
import numpy as np
import pytest
from cases import CASES
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import data_iterator, fn, types
from penstock.testing import check_operator

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(jax.default_backend() == "cpu", reason="there is no accelerator"),
]


def definition(path):
    jpegs, labels = fn.readers.caffe2(path=path, random_shuffle=True, name="r")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.GRAY)
    images = fn.crop_mirror_normalize(images, std=255.0, mirror=fn.random.coin_flip())
    return fn.reshape(images, shape=[784]), fn.one_hot(labels.gpu(), num_classes=10)


def batches(path, placement):
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("batch",)), P("batch"))
    make = data_iterator(definition, ["x", "y"], reader_name="r", sharding=sharding)
    return make(path=path, batch_size=8 * jax.device_count(), seed=3, placement=placement)


def test_bytes_cross_and_the_accelerator_computes(digits_lmdb):
    text = batches(digits_lmdb, "auto").explain()
    assert "crosses to the device: decoders.image uint8[28, 28, 1] HWC" in text
    assert "float32[784] from the device" in text


def test_accelerator_and_host_agree(digits_lmdb):
    for one, other in zip(batches(digits_lmdb, "auto"), batches(digits_lmdb, "host"), strict=True):
        assert one["x"].devices() == set(jax.devices())
        np.testing.assert_allclose(one["x"], other["x"], rtol=0, atol=4 * np.finfo(np.float32).eps)
        assert np.array_equal(one["y"], other["y"])


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{name}-{n}") for name, cases in CASES.items() for n, case in enumerate(cases)],
)
def test_operator_keeps_the_contract_on_the_accelerator(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_operator(case)
