"""Masks of whole batches, which are used again."""

import jax
import numpy as np

from penstock.engine.transfer.row_masks import Masks

NONE = np.array([], np.int64)


def test_a_mask_belongs_to_whoever_holds_it():
    masks = Masks(jax.device_put)
    held = [masks.without(4, NONE) for _ in range(6)]
    assert len({id(mask) for mask in held}) == 6
    donated = masks.without(4, NONE)
    donated.delete()
    assert masks.without(4, NONE).tolist() == [True] * 4
    assert [mask.tolist() for mask in held] == [[True] * 4] * 6


def test_a_mask_is_used_again_for_the_same_rows_and_device_alone():
    masks = Masks(jax.device_put)
    number = id(masks.without(4, NONE))
    assert id(masks.without(4, NONE)) == number
    assert masks.without(4, np.array([1])).tolist() == [True, False, True, True]
    second = jax.devices()[1]
    with jax.default_device(second):
        assert masks.without(4, NONE).devices() == {second}
    assert masks.without(3, NONE).tolist() == [True] * 3
