"""The operators for which neighbours count give DALI's numbers."""

import numpy as np
import pytest

RNG = np.random.default_rng(10)
SIZES = ((20, 33, 3), (7, 4, 3), (1, 1, 3), (1, 9, 3))
BYTES = [RNG.integers(0, 256, size, np.uint8) for size in SIZES]
FLOATS = [RNG.random(size, np.float32) for size in SIZES]
WORDS = [RNG.integers(-900, 900, size, np.int16) for size in SIZES]


@pytest.mark.parametrize("images", [BYTES, FLOATS], ids=["uint8", "float32"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"sigma": 0.4},
        {"sigma": 3.0},
        {"window_size": 5},
        {"window_size": [3, 11]},
        {"sigma": [0.7, 2.0]},
        {"sigma": 1.0, "window_size": 15},
        {"window_size": 1},
    ],
)
def test_gaussian_blur(agree, images, arguments):
    agree(lambda lib, x: lib.fn.gaussian_blur(x, **arguments), images, layouts=("HWC",), off=1, rtol=2e-3, atol=1e-5)


def test_gaussian_blur_with_a_sigma_for_each_sample(agree):
    sigmas = np.float32([0.3, 1.5, 2.0, 4.0])
    agree(
        lambda lib, x, s: lib.fn.gaussian_blur(x, sigma=s, dtype=lib.types.FLOAT),
        BYTES,
        sigmas,
        layouts=("HWC", ""),
        rtol=2e-3,
        atol=1e-2,
    )


@pytest.mark.parametrize("layout", ["FHWC", "CHW", "DHW", "DHWC", "CDHW", "FCDHW"])
def test_gaussian_blur_of_layouts(agree, layout):
    image = RNG.integers(0, 256, [dict(F=2, D=5, H=9, W=8, C=3)[letter] for letter in layout], np.uint8)
    axes = 3 if "D" in layout else 2
    agree(
        lambda lib, x: (
            lib.fn.gaussian_blur(x, sigma=1.0),
            lib.fn.gaussian_blur(x, sigma=[0.7, 2.0, 0.4][:axes], window_size=[3, 0, 7][:axes], dtype=lib.types.FLOAT),
        ),
        [image],
        layouts=(layout,),
        off=1,
        rtol=2e-3,
        atol=1e-2,
    )


def test_gaussian_blur_of_volumes_with_a_sigma_for_each_sample(agree):
    volumes = [RNG.normal(size=size).astype(np.float32) for size in ((2, 4, 7, 5), (2, 1, 3, 9), (1, 8, 2, 1))]
    agree(
        lambda lib, x, s: lib.fn.gaussian_blur(x, sigma=s),
        volumes,
        np.float32([[0.5, 1, 2], [3, 0.3, 1], [1, 1, 1]]),
        layouts=("CDHW", ""),
        rtol=2e-3,
        atol=1e-5,
    )


KERNELS = {
    "edges": np.float32([[-1, 0, 1], [-2, 0.5, 2], [-1, 0, 1]]),
    "wide": RNG.normal(size=(2, 7)).astype(np.float32),
    "one": np.float32([[1.5]]),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("border", ["reflect_101", "reflect_1001", "wrap", "clamp", "constant"])
@pytest.mark.parametrize("images", [BYTES[:2], FLOATS[:2]], ids=["uint8", "float32"])
def test_filter(agree, kernel, border, images):
    kernels = [KERNELS[kernel]] * len(images)
    for arguments in ({}, {"anchor": 0}):
        agree(
            lambda lib, x, k, arguments=arguments: lib.fn.filter(x, k, border=border, **arguments),
            images,
            kernels,
            layouts=("HWC", ""),
            off=1,
            rtol=2e-3,
            atol=1e-5,
        )


def test_filter_valid(agree):
    agree(lambda lib, x, k: lib.fn.filter(x, k, mode="valid"), BYTES[:1], [KERNELS["wide"]], layouts=("HWC", ""), off=1)


@pytest.mark.parametrize("images", [BYTES[:2], FLOATS[:2], WORDS[:2]], ids=["uint8", "float32", "int16"])
@pytest.mark.parametrize("mode", ["same", "valid"])
def test_filters_of_several_sizes(agree, images, mode):
    kernels = [KERNELS["edges"], RNG.normal(size=(2, 3)).astype(np.float32)]
    others = [KERNELS["one"], RNG.normal(size=(5, 4)).astype(np.float32)]
    anchors = np.int32([[-1, -1], [0, 2]]) if mode == "same" else -np.ones((2, 2), np.int32)
    agree(
        lambda lib, x, first, second, anchor: (
            *(lib.fn.filter(x, first, border=border, mode=mode) for border in ("reflect_101", "wrap", "clamp")),
            lib.fn.filter(x, first, anchor=anchor, mode=mode),
            lib.fn.filter(x, second, mode=mode),
        ),
        *(images, kernels, others, anchors),
        layouts=("HWC", "", "", ""),
        off=1,
        rtol=2e-3,
        atol=1e-5,
    )


def test_equalize(agree):
    images = [*BYTES, np.full((5, 6, 3), 9, np.uint8), RNG.integers(100, 140, (30, 20, 3), np.uint8)]
    agree(lambda lib, x: lib.fn.equalize(x), images, layouts=("HWC",), off=1)


@pytest.mark.parametrize("images", [BYTES, FLOATS, WORDS], ids=["uint8", "float32", "int16"])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"window_size": [3, 7], "scale": [0.5, -1.5]},
        {"window_size": 5, "smoothing_size": 1},
        {"window_size": [3, 9], "smoothing_size": [5, 1], "normalized_kernel": True},
        {"normalized_kernel": True, "window_size": 31},
    ],
)
def test_laplacian(agree, images, arguments):
    for dtype in (None, "FLOAT"):

        def define(lib, x, dtype=dtype):
            wanted = {} if dtype is None else {"dtype": getattr(lib.types, dtype)}
            return lib.fn.laplacian(x, **arguments, **wanted)

        agree(define, images, layouts=("HWC",), off=1, rtol=2e-3, atol=2e-2 if images is not FLOATS else 1e-4)


def test_laplacian_with_numbers_for_each_sample(agree):
    columns = np.int32([3, 5, 7, 3]), np.int32([1, 3, 5, 3]), np.float32([1, 0.5, 0.1, 2])
    agree(
        lambda lib, x, w, s, f: lib.fn.laplacian(x, window_size=w, smoothing_size=s, scale=f),
        BYTES,
        *columns,
        layouts=("HWC", "", "", ""),
        off=1,
    )


def test_laplacian_of_volumes_with_numbers_for_each_sample(agree):
    volumes = [RNG.integers(-900, 900, size, np.int16) for size in ((4, 7, 5, 2), (1, 3, 9, 1))]
    windows, smoothings = np.int32([[3, 5, 7], [5, 3, 3]]), np.int32([[1, 3, 5], [7, 3, 1]])
    scales = np.float32([[1, 0.5, 2], [0.1, 2, 1]])
    agree(
        lambda lib, x, w, s, f: (
            lib.fn.laplacian(x, window_size=w, smoothing_size=s, scale=f, dtype=lib.types.FLOAT),
            lib.fn.laplacian(x, window_size=w, scale=0.01),
        ),
        volumes,
        windows,
        smoothings,
        scales,
        layouts=("DHWC", "", "", ""),
        off=1,
        rtol=2e-3,
        atol=1.0,
    )


@pytest.mark.parametrize("layout", ["FHWC", "CHW", "HW", "FCHW", "DHWC", "FDHWC", "CDHW", "DHW"])
def test_laplacian_of_layouts(agree, layout):
    image = RNG.integers(0, 256, [dict(F=2, D=5, H=9, W=8, C=3)[letter] for letter in layout], np.uint8)
    agree(lambda lib, x: lib.fn.laplacian(x, normalized_kernel=True), [image], layouts=(layout,), off=1)


ORDERS = ["WH", "CWH", "WHC", "FCWH", "FWHC", "CWHD", "WHDC", "HDWC", "FWHDC", "DWH"]


@pytest.mark.parametrize("layout", ORDERS)
def test_numbers_per_axis_are_in_the_order_of_the_layout(agree, layout):
    image = RNG.integers(0, 256, [dict(F=2, D=5, H=9, W=8, C=3)[letter] for letter in layout], np.uint8)
    axes = 3 if "D" in layout else 2
    sizes, factors = [3, 7, 5][:axes], [0.7, 2.0, 0.4][:axes]
    agree(
        lambda lib, x, s: (
            lib.fn.gaussian_blur(x, sigma=factors),
            lib.fn.gaussian_blur(x, sigma=s),
            lib.fn.gaussian_blur(x, window_size=sizes),
            lib.fn.laplacian(x, scale=factors, dtype=lib.types.FLOAT),
            lib.fn.laplacian(x, scale=s, dtype=lib.types.FLOAT),
            lib.fn.laplacian(x, window_size=sizes, smoothing_size=sizes[::-1], normalized_kernel=True),
        ),
        [image],
        np.float32([factors]),
        layouts=(layout, ""),
        off=1,
        rtol=2e-3,
        atol=1e-2,
    )


@pytest.mark.parametrize("layout", ["WH", "CWH", "WHC", "FWHC"])
@pytest.mark.parametrize("mode", ["same", "valid"])
def test_a_filter_has_its_axes_in_the_order_of_the_layout(agree, layout, mode):
    image = RNG.integers(0, 256, [dict(F=2, H=9, W=8, C=3)[letter] for letter in layout], np.uint8)
    agree(
        lambda lib, x, k: (lib.fn.filter(x, k, mode=mode), lib.fn.filter(x, k, anchor=[0, 5], border="clamp")),
        [image],
        [KERNELS["wide"]],
        layouts=(layout, ""),
        off=1,
    )


def test_signals(agree):
    signals = [np.float32(np.sin(np.arange(count) ** 2)) for count in (20, 31)]
    pairs = [np.stack([signal, -signal]) for signal in signals]
    agree(
        lambda lib, x, y, z, sigma, size: (
            lib.fn.gaussian_blur(x, window_size=5),
            lib.fn.gaussian_blur(y, sigma=1.2),
            lib.fn.gaussian_blur(x, sigma=sigma),
            lib.fn.gaussian_blur(z, window_size=size),
            lib.fn.laplacian(x, window_size=7, smoothing_size=3, normalized_kernel=True),
            lib.fn.laplacian(z, window_size=5, scale=sigma),
        ),
        *(signals, signals, pairs, np.float32([1, 2]), np.int32([3, 7])),
        layouts=("", "W", "FW", "", ""),
        rtol=1e-6,
        atol=1e-6,
    )


def test_other_names_of_borders(agree):
    image, weights = np.arange(60, dtype=np.uint8).reshape(1, 4, 5, 3), np.float32([[[1, 0, 2], [0, 3, 0]]]) / 6
    agree(
        lambda lib, x, w: tuple(lib.fn.filter(x, w, border=border) for border in ("101", "1001", "fill")),
        *(image, weights),
        layouts=("HWC", ""),
        off=1,
    )
