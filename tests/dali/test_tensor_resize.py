"""tensor_resize gives DALI's numbers, along any axes."""

import numpy as np
import pytest

RNG = np.random.default_rng(31)
LINES = [RNG.random(size, np.float32) for size in (10, 7, 1)]
IMAGES = [RNG.integers(0, 256, size, np.uint8) for size in ((6, 5, 3), (9, 20, 3))]
BLOCKS = [RNG.integers(-999, 999, (2, 3, 4, 5), np.int16)]

USES = {
    "one axis": (LINES, "", {"sizes": 4.4}),
    "no layout": (IMAGES, "", {"sizes": [3, 4], "axes": [0, 2]}),
    "all axes": (IMAGES, "HWC", {"sizes": [3, 8, 2]}),
    "one size for all": (IMAGES, "HWC", {"sizes": 4}),
    "axes in another order": (IMAGES, "HWC", {"sizes": [3, 4], "axes": [1, 0]}),
    "the last axis": (IMAGES, "HWC", {"sizes": [7], "axes": -1}),
    "the first axis": (IMAGES, "HWC", {"scales": 0.6, "axes": 0}),
    "axis names": (BLOCKS, "FHWC", {"sizes": [4, 6], "axis_names": "HW"}),
    "distant axes": (BLOCKS, "FHWC", {"sizes": [4, 6], "axis_names": "FW"}),
    "three axes": (BLOCKS, "FHWC", {"scales": [1.5, 0.7, 2], "axes": [-3, -2, -1]}),
    "0 takes the average": (IMAGES, "HWC", {"sizes": [3, 0], "axes": [0, 1]}),
    "0 is stretched": (IMAGES, "HWC", {"scales": [0, 0.5], "axes": [0, 1], "mode": "stretch"}),
    "all are 0": (IMAGES, "HWC", {"sizes": [0, 0], "axes": [0, 1]}),
    "not larger": (IMAGES, "HWC", {"sizes": [3.7, 4], "axes": [0, 1], "mode": "not_larger", "alignment": 0.0}),
    "not larger, and all axes count": (IMAGES, "HWC", {"sizes": [30, 40], "axes": [0, 1], "mode": "not_larger"}),
    "not smaller": (IMAGES, "HWC", {"sizes": [30, 4], "axes": [0, 1], "mode": "not_smaller", "max_size": 20}),
    "not smaller, one axis": (IMAGES, "HWC", {"sizes": 13, "axes": 1, "mode": "not_smaller"}),
    "not larger, the first axis": (IMAGES, "HWC", {"sizes": 4, "axes": 0, "mode": "not_larger"}),
    "not larger, one axis aligned": (IMAGES, "HWC", {"sizes": 4, "axes": 0, "mode": "not_larger", "alignment": 0.5}),
    "limits": (IMAGES, "HWC", {"scales": [3, 4], "axes": [0, 1], "max_size": [12, 13]}),
    "truncated limit": (LINES, "", {"sizes": 9, "max_size": 4.6, "size_rounding": "truncate"}),
    "rounded up": (LINES, "", {"scales": 0.3, "size_rounding": "ceil"}),
    "rounded up, whole in float32": (LINES, "", {"scales": 0.1, "size_rounding": "ceil"}),
    "truncated": (LINES, "", {"scales": 0.46, "size_rounding": "truncate", "alignment": 0.25}),
    "aligned with the end": (LINES, "", {"scales": 0.44, "alignment": 1.0}),
    "aligned per axis": (IMAGES, "HWC", {"scales": [0.55, 0.7], "axes": [0, 1], "alignment": [0.0, 1.0]}),
    "mirrored and aligned": (LINES, "", {"sizes": -4.4, "alignment": 0.0}),
    "exact scale not kept": (LINES, "", {"scales": 0.44, "subpixel_scale": False, "alignment": 0.0}),
    "below the smallest size": (IMAGES, "HWC", {"sizes": [0.01, 4], "axes": [0, 1]}),
    "a part": (LINES, "", {"sizes": 4, "roi_start": [2.0], "roi_end": [8.5]}),
    "a part, mirrored": (LINES, "", {"scales": 0.46, "roi_start": [6.5], "roi_end": [2.0], "alignment": 0.0}),
    "a part, relative": (
        IMAGES,
        "HWC",
        {"scales": [0.5, 2], "axes": [0, 1], "roi_start": 0.2, "roi_end": [0.8, 0.9], "roi_relative": True},
    ),
    "cubic": (IMAGES, "HWC", {"sizes": [9, 3], "axes": [0, 1], "interp_type": 2}),
    "the bell along one axis": (IMAGES, "HWC", {"sizes": 17, "axes": 1, "interp_type": 5}),
    "the bell along the last axis": (IMAGES, "HWC", {"sizes": 7, "axes": 2, "interp_type": 5}),
    "nearest along one axis": (IMAGES, "", {"sizes": 110, "axes": 1, "interp_type": 0}),
    "the first of four axes keeps its extent": (BLOCKS, "", {"scales": [1, 1.5, 0.5, 2]}),
    "the last of four axes keeps its extent": (BLOCKS, "FHWC", {"sizes": [3, 5, 6, 5]}),
    "no axis of four changes": (BLOCKS, "", {"scales": [1, 1, 1, 1]}),
    "one of four axes is mirrored": (BLOCKS, "", {"sizes": [2, -3, 4, 5]}),
    "the bell where one axis of four changes": (BLOCKS, "", {"scales": [1, 2, 1, 1], "interp_type": 5}),
    "the bell where the first of three axes changes": (IMAGES, "HWC", {"scales": [2, 1, 1], "interp_type": 5}),
    "the bell where no axis changes": (IMAGES, "HWC", {"scales": 1, "interp_type": 5}),
    "four axes fit into a size": (BLOCKS, "FHWC", {"sizes": [8, 8], "axes": [1, 2], "mode": "not_larger"}),
    "nearest": (IMAGES, "HWC", {"sizes": [9, 3], "axes": [1, 2], "interp_type": 0}),
}


@pytest.mark.parametrize("use", USES)
def test_numbers(agree, use):
    tensors, layout, arguments = USES[use]
    for dtype in (None, "FLOAT"):

        def define(lib, x, dtype=dtype):
            wanted = {} if dtype is None else {"dtype": getattr(lib.types, dtype)}
            more = {}
            if "interp_type" in arguments:
                more["interp_type"] = lib.types.DALIInterpType(arguments["interp_type"])
            return lib.fn.tensor_resize(x, **arguments | more, **wanted)

        agree(define, tensors, layouts=(layout,), off=1, rtol=2e-3, atol=2e-3 if tensors is LINES else 0.3)


def test_numbers_for_each_sample(agree):
    sizes, alignments = np.float32([[3.4, 0], [4, 2.6]]), np.float32([0.0, 0.7])
    agree(
        lambda lib, x, s, a: lib.fn.experimental.tensor_resize(x, sizes=s, alignment=a, axes=[0, 2]),
        IMAGES,
        sizes,
        alignments,
        layouts=("HWC", "", ""),
        off=1,
    )
    agree(
        lambda lib, x, s: lib.fn.tensor_resize(x, scales=s, axes=[0, 1], roi_start=s, roi_end=[4, 5]),
        IMAGES,
        sizes / 3,
        layouts=("", ""),
        off=1,
    )


def test_scales_of_four_axes_for_each_sample(agree):
    blocks = [RNG.random(shape, np.float32) for shape in ((2, 3, 4, 5), (3, 2, 2, 4), (2, 4, 3, 3))]
    scales = np.float32([[1, 2, 1.5, 0.5], [1, 2, 2, 1], [1, 1, 1, 3]])
    agree(lambda lib, x, s: lib.fn.tensor_resize(x, scales=s), blocks, scales, atol=2e-3)
