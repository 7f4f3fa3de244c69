"""What docs/how-to/migrate/albumentations.md says of albumentations, compared with it."""

import inspect
import os

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # otherwise the import asks PyPI for the newest version

import numpy as np
import pytest
from migration_tables import (
    MEAN,
    STD,
    check_difference,
    correspondences,
    differences,
    ours_on,
    photographs,
    unknown_names,
)

from penstock import fn, pipeline_def

A = pytest.importorskip("albumentations", reason="albumentations is not installed (dependency group test-all)")
cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed (dependency group test-all)")

PAGE = "albumentations.md"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return photographs(tmp_path_factory.mktemp("pictures"))


@pytest.mark.filterwarnings("ignore:ShiftScaleRotate is a special case", "ignore:Using lambda is incompatible")
@pytest.mark.parametrize("row", correspondences(PAGE), ids=str)
def test_every_name_exists(row):
    assert row.theirs
    for code in set(row.theirs) - {"A.pytorch.ToTensorV2()"}:  # which imports PyTorch
        assert code.startswith("A.")
        assert unknown_names(code, {"A": A}) == []
        eval(code, {"A": A, "f": lambda image, **_: image})  # its arguments are checked


@pytest.mark.parametrize(("theirs", "ours", "documented"), differences(PAGE))
def test_the_largest_difference_is_as_documented(theirs, ours, documented, pictures):
    transform = eval(theirs, {"A": A, "cv2": cv2})
    transform.p = 1.0
    pairs = []
    for pixels in pictures:
        result = np.atleast_3d(transform(image=pixels)["image"]).astype(np.float64)
        pairs.append((result.ravel(), ours_on(pixels, ours).ravel()))
    check_difference(*(np.concatenate(side) for side in zip(*pairs, strict=True)), documented)


def test_the_mean_difference_of_compression(pictures):
    transform = A.ImageCompression(quality_range=(50, 50), p=1.0)
    for pixels in pictures:
        theirs = transform(image=pixels)["image"].astype(np.float64)
        assert np.abs(theirs - ours_on(pixels, "fn.jpeg_compression_distortion(images, quality=50)")).mean() < 3


def test_normalize_is_that_of_imagenet_by_default():
    defaults = {name: each.default for name, each in inspect.signature(A.Normalize).parameters.items()}
    np.testing.assert_array_equal(defaults["mean"], MEAN)
    np.testing.assert_array_equal(defaults["std"], STD)
    assert inspect.signature(A.HorizontalFlip).parameters["p"].default == 0.5


@pytest.mark.parametrize("turns", range(4))
def test_rotations_by_right_angles_are_exact(turns, pictures):
    for pixels in pictures:
        np.testing.assert_array_equal(fn.rotate(pixels, angle=90.0 * turns), np.rot90(pixels, turns))


@pytest.mark.parametrize(("height", "width"), [(375, 500), (100, 400)])
def test_areas_and_ratios_of_random_crops_have_the_same_distribution(height, width):
    transform = A.RandomResizedCrop((224, 224))
    transform.set_random_seed(1)
    drawn = [transform.get_params_dependent_on_data({"shape": (height, width, 3)}, {}) for _ in range(4000)]
    left, top, right, bottom = np.array([each["crop_coords"] for each in drawn]).T

    @pipeline_def(batch_size=4000, num_threads=1, seed=1)
    def windows():
        return fn.random_crop_generator(fn.readers.arrays(np.tile(np.int32([height, width]), (4000, 1))))

    _, shape = (output.as_array() for output in windows().run())
    shares = np.linspace(0.05, 0.95, 10)
    for theirs, ours in (((bottom - top) * (right - left), shape.prod(axis=1)), (bottom - top, shape[:, 0])):
        np.testing.assert_allclose(np.quantile(theirs, shares), np.quantile(ours, shares), rtol=0.1)


def test_noise_has_the_same_deviation():
    gray = np.full((200, 200, 3), 128, np.uint8)
    theirs = A.GaussNoise(std_range=(0.1, 0.1), p=1.0)(image=gray)["image"]
    ours = fn.noise.gaussian(gray, stddev=0.1 * 255, seed=1)
    for noisy in (theirs, ours):
        assert abs(noisy.std() - 25.5) < 0.6
        assert abs(np.corrcoef(noisy[..., 0].ravel(), noisy[..., 1].ravel())[0, 1]) < 0.05


@pytest.mark.parametrize("exact", [False, True])
def test_masks_and_boxes_follow(exact, pictures):
    pixels = pictures[0]
    height, width = pixels.shape[:2]
    boxes = np.float32([[10, 20, 60, 80], [5, 5, 30, 30]])
    mask = (np.arange(height)[:, None] // 7 + np.arange(width) // 5).astype(np.uint8)
    of_masks = {"mask_interpolation": cv2.INTER_NEAREST_EXACT} if exact else {}
    transforms = [A.Resize(48, 60, **of_masks), A.HorizontalFlip(p=1.0)]
    params = A.BboxParams(format="pascal_voc", label_fields=["labels"])
    theirs = A.Compose(transforms, bbox_params=params)(image=pixels, mask=mask, bboxes=boxes, labels=[1, 2])

    @pipeline_def(batch_size=1, num_threads=1)
    def ours():
        images = fn.flip(fn.resize(fn.readers.arrays(pixels[None], layout="HWC"), size=(48, 60), antialias=False))
        followed, _ = fn.follow.boxes(fn.readers.arrays(boxes[None]), images, ltrb=True)
        return followed, fn.follow.masks(fn.readers.arrays(mask[None], layout="HW"), images)

    followed, masks = (output.as_array()[0] for output in ours().run())
    np.testing.assert_allclose(followed, theirs["bboxes"], atol=1e-4)
    assert (masks == theirs["mask"]).all() == exact
