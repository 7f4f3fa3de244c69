"""The number of fill values is that of the channels, whether these are known while tracing or only at run time."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import fn
from penstock.errors import DefinitionError, SampleError

COLOR = [10, 20, 30]
SHIFT = [1.0, 0, -9, 0, 1, -9, 0, 0, 1]
OPERATORS = {
    "crop": lambda x: fn.crop(x, crop=(8, 8), out_of_bounds_policy="pad", fill_values=COLOR),
    "slice": lambda x: fn.slice(x, start=[-1], shape=[8], axes=[0], out_of_bounds_policy="pad", fill_values=COLOR),
    "paste": lambda x: fn.paste(x, ratio=2, fill_value=COLOR),
    "warp_perspective": lambda x: fn.warp_perspective(x, matrix=SHIFT, fill_value=COLOR),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_number_of_fill_values(name):
    images = [np.zeros((4, 5, channels), np.uint8) for channels in (3, 4)]
    with pytest.raises(DefinitionError, match=rf"fn\.{name}: fill_value.* one per channel"):
        run(OPERATORS[name], images[1][None], layout="HWC")
    # Operators that are fused with it are not to blame.
    with pytest.raises(SampleError, match=f"{name} failed on sample 1.*: there are 3 fill values.* 4 channels"):
        run(lambda x: fn.contrast(OPERATORS[name](x), contrast=1.0), images, layout="HWC")
    (result,) = run(OPERATORS[name], images[:1], layout="HWC")
    assert result[0][0, 0].tolist() == COLOR


def test_fill_values_of_cut_channels():
    """As in DALI, fill values belong to the channels of the result."""
    image = np.zeros((1, 1, 1, 4), np.uint8)
    (result,) = run(
        lambda x: fn.slice(x, start=[3], shape=[3], axes=[2], out_of_bounds_policy="pad", fill_values=COLOR),
        image,
        layout="HWC",
    )
    assert result[0, 0, 0].tolist() == [0, 20, 30]
