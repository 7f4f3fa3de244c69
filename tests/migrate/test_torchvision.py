"""What docs/how-to/migrate/pytorch.md says of PyTorch and torchvision, compared with both where they are installed."""

import subprocess
import sys

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
    programs,
    unknown_names,
)
from PIL import Image

from penstock import LastBatchPolicy, data_iterator, fn, pipeline_def
from penstock.testing import write_photographs

torch = pytest.importorskip("torch", reason="PyTorch is not installed (dependency group migration)")
torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed (dependency group migration)")

from torch.utils import data as torch_data  # noqa: E402
from torchvision import transforms  # noqa: E402
from torchvision.datasets import ImageFolder  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

PAGE = "pytorch.md"
THEIRS = {
    "DataLoader": torch_data.DataLoader,
    "ImageFolder": ImageFolder,
    "InterpolationMode": v2.InterpolationMode,
    "ToTensor": transforms.ToTensor,
    "images": torch.zeros(1),
    "loader": torch_data.DataLoader([0, 1]),
    "torch": torch,
    "v2": v2,
    **{
        name: getattr(torch_data, name)
        for name in (
            "BatchSampler", "ConcatDataset", "Dataset", "DistributedSampler", "IterableDataset", "RandomSampler",
            "SequentialSampler", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler",
            "get_worker_info", "random_split",
        )
    },
}  # fmt: skip
OF_OTHER_PACKAGES = {"StatefulDataLoader.state_dict", "dataset.transforms"}  # torchdata; an attribute of some data sets


def hwc(result):
    """Return a tensor or an image of Pillow as an array (height, width, channels)."""
    if not isinstance(result, torch.Tensor):
        return np.atleast_3d(np.asarray(result, np.float64))
    return result.numpy().astype(np.float64).transpose(1, 2, 0)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return photographs(tmp_path_factory.mktemp("pictures"))


@pytest.mark.parametrize("row", correspondences(PAGE), ids=str)
def test_every_name_exists(row):
    assert row.theirs
    for code in set(row.theirs) - OF_OTHER_PACKAGES:
        assert code.split("(")[0].split(".")[0] in THEIRS | {"len": 0, "iter": 0}
        assert unknown_names(code, THEIRS) == []


def test_transforms_without_an_operator_exist():
    for name in ("AugMix", "ElasticTransform", "LinearTransformation", "RandomAdjustSharpness", "RandomAutocontrast"):
        assert hasattr(v2, name)
    assert hasattr(v2, "RandomOrder")
    assert hasattr(v2, "RandomPhotometricDistort")


@pytest.mark.parametrize(("theirs", "ours", "documented"), differences(PAGE))
def test_the_largest_difference_is_as_documented(theirs, ours, documented, pictures):
    pairs = []
    for pixels in pictures:
        image = torch.from_numpy(pixels.transpose(2, 0, 1).copy())
        result = eval(theirs, {**THEIRS, "MEAN": MEAN, "STD": STD, "image": image})
        result = result if isinstance(result, torch.Tensor) else result(image)
        pairs.append((hwc(result), ours_on(pixels, ours)))
    # Where the aspect ratio decides on a side, it may differ by a pixel, which leaves nothing to compare.
    pairs = [tuple(side.ravel() for side in pair) for pair in pairs if pair[0].shape == pair[1].shape]
    assert len(pairs) >= 3
    check_difference(*(np.concatenate(side) for side in zip(*pairs, strict=True)), documented)


def test_the_filter_at_the_border_makes_the_difference_of_two():
    pixels = np.random.default_rng(0).integers(0, 256, (151, 137, 3), np.uint8)
    theirs = hwc(v2.Resize((48, 60))(torch.from_numpy(pixels.transpose(2, 0, 1).copy())))
    difference = np.abs(theirs - ours_on(pixels, "fn.resize(images, size=(48, 60))"))
    assert difference.max() > 1
    assert difference[2:-2, 2:-2].max() <= 1


def test_grayscale_of_pillow_is_the_same(pictures):
    for pixels in pictures:
        theirs = hwc(v2.Grayscale()(Image.fromarray(pixels)))
        ours = "fn.color_space_conversion(images, image_type=types.RGB, output_type=types.GRAY)"
        np.testing.assert_array_equal(theirs, ours_on(pixels, ours))


def test_pixels_and_classes_of_a_folder_are_the_same(tmp_path):
    write_photographs(tmp_path, samples_per_class=2)

    @data_iterator
    def one_by_one():
        files, labels = fn.readers.file(file_root=tmp_path, flat_labels=True)
        return {"images": fn.resize(fn.decoders.image(files), size=(96, 96)), "labels": labels}

    folder = ImageFolder(tmp_path)
    batch = next(one_by_one(batch_size=6))
    assert batch["labels"].tolist() == [label for _, label in folder]
    for path, (image, _) in zip(sorted(tmp_path.rglob("*.jpg")), folder, strict=True):
        np.testing.assert_array_equal(fn.decoders.image(path), np.asarray(image))


def test_image_folder_ignores_the_orientation_and_searches_subfolders(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (16, 32, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    (tmp_path / "a" / "deep").mkdir(parents=True)
    Image.fromarray(pixels).save(tmp_path / "a" / "deep" / "0.jpg", exif=exif)
    Image.fromarray(pixels).save(tmp_path / "a" / "1.jpg", exif=exif)
    folder = ImageFolder(tmp_path)
    assert len(folder) == 2
    assert [image.size for image, _ in folder] == [(32, 16)] * 2
    assert fn.decoders.image(tmp_path / "a" / "1.jpg").shape == (32, 16, 3)
    assert fn.decoders.image(tmp_path / "a" / "1.jpg", adjust_orientation=False).shape == (16, 32, 3)

    @data_iterator
    def files():
        return {"labels": fn.readers.file(file_root=tmp_path)[1]}

    assert files(batch_size=1).size == 1


@pytest.mark.parametrize(("height", "width"), [(375, 500), (100, 400), (40, 400)])
def test_areas_and_ratios_of_random_crops_have_the_same_distribution(height, width):
    torch.manual_seed(0)
    transform, image = v2.RandomResizedCrop(224), torch.zeros(3, height, width)
    drawn = [transform.make_params([image]) for _ in range(4000)]
    theirs = np.array([[window[name] for name in ("left", "height", "width")] for window in drawn])

    @pipeline_def(batch_size=4000, num_threads=1, seed=1)
    def windows():
        return fn.random_crop_generator(fn.readers.arrays(np.tile(np.int32([height, width]), (4000, 1))))

    anchor, shape = (output.as_array() for output in windows().run())
    ours = np.concatenate([anchor[:, 1:], shape], axis=1)
    shares = np.linspace(0.05, 0.95, 10)
    for measure in (lambda window: window[:, 1] * window[:, 2] / (height * width), lambda window: window[:, 1]):
        np.testing.assert_allclose(*(np.quantile(measure(each), shares) for each in (theirs, ours)), rtol=0.1)
    # Only the fallback differs: at the center, or anywhere.
    same = np.isclose(theirs[:, 0].std(), ours[:, 0].std(), rtol=0.1)
    assert same == (width < 10 * height)


def test_a_crop_that_ends_at_its_border_is_torchvisions(pictures):
    for pixels in pictures:
        image = torch.from_numpy(pixels.transpose(2, 0, 1).copy())
        theirs = hwc(v2.functional.resized_crop(image, 10, 20, 60, 50, [32, 32]))
        cut = fn.slice(pixels, start=[10, 20], shape=[60, 50], axes=[0, 1])
        assert np.abs(theirs - fn.resize(cut, size=(32, 32))).max() <= 4


def test_offsets_of_random_crops():
    torch.manual_seed(0)
    transform, image = v2.RandomCrop(32), torch.arange(40.0).expand(1, 40, 40)
    theirs = np.bincount([int(transform(image)[0, 0, 0]) for _ in range(4500)], minlength=9)

    @pipeline_def(batch_size=9000, num_threads=1, seed=1)
    def offsets():
        columns = fn.readers.arrays(np.tile(np.arange(40, dtype=np.uint8)[:, None], (9000, 1, 1, 1)), layout="HWC")
        drawn = fn.random.uniform(range=[0, 1]), fn.random.choice(9) / 8
        return tuple(fn.crop(columns, crop=(1, 32), crop_pos_x=position) for position in drawn)

    uniform, equal = (np.bincount(output.as_array()[:, 0, 0, 0], minlength=9) for output in offsets().run())
    np.testing.assert_allclose(theirs, 500, rtol=0.2)
    np.testing.assert_allclose(equal, 1000, rtol=0.15)
    np.testing.assert_allclose(uniform, [9000 / 16] + [9000 / 8] * 7 + [9000 / 16], rtol=0.15)


@pytest.mark.parametrize("extent", [63, 64, 65, 66])
@pytest.mark.parametrize("size", [31, 32])
def test_center_crops_round_an_odd_rest_differently(extent, size):
    row = np.tile(np.arange(extent, dtype=np.uint8)[:, None], (extent, 1, 1))
    theirs = hwc(v2.CenterCrop((extent, size))(torch.from_numpy(row.transpose(2, 0, 1).copy())))[0, 0, 0]
    half = (extent - size) / 2
    assert theirs == round(half)  # to the even number
    assert ours_on(row, f"fn.crop(images, crop=({extent}, {size}))")[0, 0, 0] == int(half + 0.5)
    assert ours_on(row, f'fn.crop(images, crop=({extent}, {size}), rounding="truncate")')[0, 0, 0] == int(half)


def test_each_epoch_of_the_loaders_has_each_sample_once():
    loader = torch_data.DataLoader(list(range(10)), batch_size=4, shuffle=True)

    @data_iterator(last_batch_policy=LastBatchPolicy.PARTIAL)
    def shuffled():
        return {"x": fn.readers.arrays(np.arange(10), random_shuffle=True)}

    iterator = shuffled(batch_size=4, seed=1)
    for _ in range(2):
        theirs, ours = [batch.tolist() for batch in loader], [batch["x"].tolist() for batch in iterator]
        assert [len(batch) for batch in theirs] == [len(batch) for batch in ours] == [4, 4, 2]
        assert sorted(sum(theirs, [])) == sorted(sum(ours, [])) == list(range(10))


def test_a_distributed_sampler_repeats_samples_and_needs_set_epoch():
    samplers = [torch_data.DistributedSampler(range(10), num_replicas=4, rank=rank) for rank in range(4)]
    first, again = ([list(sampler) for sampler in samplers] for _ in range(2))
    assert sum(map(len, first)) == 12
    assert first == again


DRAWS = """
import torch
from torch.utils.data import DataLoader

class Draws:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.rand(())

for workers in (1, 2):
    torch.manual_seed(1)
    print(torch.cat(list(DataLoader(Draws(), batch_size=2, num_workers=workers))).tolist())
"""


def test_random_transforms_depend_on_the_number_of_workers():
    # A process without JAX, which warns of forks.
    done = subprocess.run([sys.executable, "-c", DRAWS], capture_output=True, text=True, timeout=240, check=True)
    one, two = done.stdout.splitlines()
    assert one != two


def test_the_program_prints_what_ours_prints(tmp_path):
    (theirs,) = [code for runs, code in programs(PAGE) if not runs]
    ours = next(code for runs, code in programs(PAGE) if runs)
    outputs = []
    for code in (ours, theirs):  # ours writes the photographs
        program = [sys.executable, "-c", code]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True)
        outputs.append(done.stdout.replace("torch.", "").splitlines())
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 6
