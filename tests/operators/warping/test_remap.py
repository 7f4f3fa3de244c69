"""`fn.remap` gives what SciPy and OpenCV interpolate."""

import numpy as np
import pytest
from pipeline_runs import run
from scipy.ndimage import map_coordinates

from penstock import fn, types
from penstock.errors import DefinitionError

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed (dependency group test-all)")

RNG = np.random.default_rng(3)
IMAGES = RNG.integers(0, 256, (2, 7, 9, 3), np.uint8)
X, Y = RNG.uniform(-2, 11, (2, 2, 5, 8)).astype(np.float32)


def remap(*columns, layout="HWC", **arguments):
    return run(lambda *nodes: fn.experimental.remap(*nodes, **arguments), *columns, layout=(layout, "", ""))[0]


def expected(image, x, y, order):
    at = [y.astype(np.float64), x.astype(np.float64)]
    channels = [
        map_coordinates(image[..., c].astype(np.float64), at, order=order, mode="grid-constant") for c in range(3)
    ]
    return np.stack(channels, axis=-1)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int16])
@pytest.mark.parametrize("nearest", [False, True])
@pytest.mark.parametrize("origin", ["corner", "center"])
def test_values(dtype, nearest, origin):
    arguments = {"interp": types.INTERP_NN} if nearest else {}
    made = remap(IMAGES.astype(dtype), X, Y, pixel_origin=origin, **arguments)
    assert made.dtype == dtype
    back = 0.5 if origin == "corner" else 0
    for image, x, y, result in zip(IMAGES, X, Y, made, strict=True):
        reference = expected(image, x - back, y - back, 0 if nearest else 1)
        assert abs(result - reference).max() <= (1e-3 if dtype == np.float32 else 0.51)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.uint16])
def test_cubic(dtype):
    made = remap(IMAGES.astype(dtype), X, Y, pixel_origin="center", interp=types.INTERP_CUBIC)
    for image, x, y, result in zip(IMAGES, X, Y, made, strict=True):
        reference = cv2.remap(image.astype(dtype), x, y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_CONSTANT)
        assert abs(result.astype(float) - reference).max() <= (1e-3 if dtype == np.float32 else 1)


def test_frames_share_maps_or_have_their_own():
    videos = np.stack([IMAGES, IMAGES[::-1]], axis=1)
    shared = remap(videos, X[..., None], Y[..., None], layout="FHWC")
    assert (shared[:, 0] == remap(IMAGES, X, Y)).all()
    assert (shared[:, 1] == remap(IMAGES[::-1].copy(), X, Y)).all()
    own = remap(videos, np.stack([X, Y], axis=1), np.stack([Y, X], axis=1), layout="FHWC")
    assert (own[:, 0] == shared[:, 0]).all()
    assert (own[:, 1] == remap(IMAGES[::-1].copy(), Y, X)).all()


def test_mistakes():
    with pytest.raises(DefinitionError, match="differ in size"):
        remap(IMAGES, X, Y[:, :4])
    with pytest.raises(DefinitionError, match="mapx has an unsupported dtype"):
        remap(IMAGES, X.astype(int), Y)
    with pytest.raises(DefinitionError, match="interp_type is not supported"):
        remap(IMAGES, X, Y, interp=types.INTERP_LANCZOS3)
