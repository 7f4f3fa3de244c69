"""Tests of cached masks of complete batches."""

import jax
import numpy as np

from penstock.engine.transfer.row_masks import RowMasks

NONE = np.array([], np.int64)


def test_mask_is_owned_by_its_holder():
    masks = RowMasks(jax.device_put)
    held = [masks.put(4, NONE) for _ in range(6)]
    assert len({id(mask) for mask in held}) == 6
    donated = masks.put(4, NONE)
    donated.delete()
    assert masks.put(4, NONE).tolist() == [True] * 4
    assert [mask.tolist() for mask in held] == [[True] * 4] * 6


def test_mask_is_reused_only_for_same_rows_and_device():
    masks = RowMasks(jax.device_put)
    number = id(masks.put(4, NONE))
    assert id(masks.put(4, NONE)) == number
    assert masks.put(4, np.array([1])).tolist() == [True, False, True, True]
    second = jax.devices()[1]
    with jax.default_device(second):
        assert masks.put(4, NONE).devices() == {second}
    assert masks.put(3, NONE).tolist() == [True] * 3
