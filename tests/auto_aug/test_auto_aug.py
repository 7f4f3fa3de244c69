"""Automatic augmentations are chosen for each sample, the same wherever they run, and refuse what cannot be right."""

import numpy as np
import pytest

from penstock import Pipeline, fn, types
from penstock.auto_aug import auto_augment, rand_augment, trivial_augment
from penstock.auto_aug.core import Policy, augmentation, select
from penstock.errors import DefinitionError

IMAGES = np.random.default_rng(0).integers(0, 256, (16, 20, 24, 3), np.uint8)
WAYS = {
    "auto": lambda images: auto_augment.auto_augment_image_net(images, shape=images.shape()),
    "svhn": lambda images: auto_augment.auto_augment(images, "svhn"),
    "random": lambda images: rand_augment.rand_augment(images, n=2, m=9),
    "trivial": lambda images: trivial_augment.trivial_augment_wide(images, excluded=["rotate"]),
}


def augmented(way, batch_size=16, placement="host", seed=3):
    with Pipeline(batch_size=batch_size, seed=seed, placement=placement) as pipeline:
        pipeline.set_outputs(way(fn.readers.arrays(IMAGES, layout="HWC")))
    return np.concatenate([np.asarray(pipeline.run()[0].as_array()) for _ in range(16 // batch_size)])


@pytest.mark.parametrize("way", WAYS)
def test_the_same_in_any_batches(way):
    whole = augmented(WAYS[way])
    np.testing.assert_array_equal(whole, augmented(WAYS[way], batch_size=4))
    changed = (whole != IMAGES).any(axis=(1, 2, 3))
    assert changed.sum() > 4
    assert (whole != augmented(WAYS[way], seed=4)).any()


@pytest.mark.slow
def test_the_same_on_the_device():
    host, device = (augmented(WAYS["trivial"], placement=place) for place in ("host", "device"))
    assert (abs(host.astype(int) - device) > 1).mean() < 1e-3


def drawn(number):
    # The result tells what was drawn: the augmentation, the bin and the sign.
    return augmentation(
        lambda data, magnitude: fn.stack(fn.cast(magnitude, dtype=types.FLOAT), np.float32(number)),
        mag_range=(1, 4),
        randomly_negate=True,
        name=f"drawn {number}",
    )


DRAWN = [drawn(number) for number in range(4)]
SUB_POLICIES = Policy("mine", 4, [[(item, 0.5, number)] for number, item in enumerate(DRAWN)])


@pytest.mark.parametrize(
    ("way", "most"),
    [
        (lambda data, seed: auto_augment.apply_auto_augment(SUB_POLICIES, data, seed), 4 * 2 + 1),
        (lambda data, seed: rand_augment.apply_rand_augment(DRAWN, data, 1, 2, 4, seed), 4 * 2),
        (lambda data, seed: trivial_augment.apply_trivial_augment(DRAWN, data, 4, seed), 4 * 4 * 2),
    ],
    ids=["auto", "rand", "trivial"],
)
def test_choices_with_a_seed_are_independent(way, most):
    def outcomes(seed):
        with Pipeline(batch_size=500, seed=1) as pipeline:
            pipeline.set_outputs(way(fn.readers.arrays(np.zeros((500, 2), np.float32)), seed))
        return pipeline.run()[0].as_array()

    assert len(np.unique(outcomes(5), axis=0)) == len(np.unique(outcomes(None), axis=0)) == most
    np.testing.assert_array_equal(outcomes(5), outcomes(5))
    np.testing.assert_array_equal(outcomes(-1), outcomes(None))


def test_select_computes_the_rows_that_chose():
    seen = {0: 0, 1: 0}

    def counted(number):
        def count(row):
            seen[number] += 1
            return row + np.uint8(number)

        return lambda data: fn.python_function(data, function=count, output_layouts="HWC")

    def chosen(images):
        numbers = fn.readers.arrays(np.arange(16, dtype=np.int32) % 4 // 3)
        return select([counted(0), counted(1)], numbers, images)

    whole = augmented(chosen)
    np.testing.assert_array_equal(whole[3::4], IMAGES[3::4] + np.uint8(1))
    np.testing.assert_array_equal(whole[:3], IMAGES[:3])
    assert seen[1] < seen[0]


@augmentation
def inverted(images, _):
    return 255 - images


@augmentation
def needy(images, _, factor):
    return images * factor


@augmentation(mag_range=(0, 30), mag_to_param=lambda magnitude: np.float64(1) if magnitude else magnitude)
def uneven(images, _):
    return images


@augmentation(mag_range=(0, 30))
def turned(images, angle):
    return fn.rotate(images, angle=angle, keep_size=True)


@pytest.mark.parametrize("function", [lambda: 0, lambda images: images, lambda images, *, factor: images], ids=range(3))
def test_a_function_without_a_parameter_is_no_augmentation(function):
    with pytest.raises(TypeError, match="two positional arguments"):
        augmentation(function)


def test_no_augmentation_may_be_chosen_of_none():
    assert (augmented(lambda images: rand_augment.apply_rand_augment([], images, 0, 3)) == IMAGES).all()


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (lambda x: auto_augment.auto_augment(x, "cifar"), "unknown policy"),
        (lambda x: auto_augment.auto_augment(x, "reduced_image_net", shape=(3, 4)), "no translations"),
        (lambda x: rand_augment.rand_augment(x, n=1, m=31), "bin m"),
        (lambda x: rand_augment.rand_augment(x, n=1, m=3, excluded=["turn"]), "turn"),
        (lambda x: rand_augment.rand_augment(x, n=1, m=3, max_translate_rel=0.5), "max_translate_rel"),
        (lambda x: rand_augment.apply_rand_augment([], x, 1, 3), "0 augmentations"),
        (lambda x: rand_augment.apply_rand_augment([inverted], x, 1, 3, fill=3), "no augmentation takes fill"),
        (lambda x: trivial_augment.apply_trivial_augment([needy], x), "needs more arguments"),
        (lambda x: turned(x, magnitude_bin=3), "how many bins"),
        (lambda x: uneven(x, magnitude_bin=fn.random.coin_flip(), num_magnitude_bins=2), "float32.. and float64.."),
        (lambda x: turned(x, magnitude_bin=9, num_magnitude_bins=9), "number of a bin"),
        (lambda _: Policy("mine", 3, [[(inverted, 1.5, None)]]), "has a probability beyond"),
        (lambda _: Policy("mine", 3, [[(turned, 1.0, 3)]]), "does not exist"),
        (lambda _: Policy("mine", 3, [[(turned, 1.0, None)]]), "has no bin"),
        (lambda x: auto_augment.apply_auto_augment(Policy("mine", 3, []), x), "empty"),
    ],
)
def test_misuse(way, words):
    with pytest.raises(DefinitionError, match=words), Pipeline(batch_size=2):
        way(fn.readers.arrays(IMAGES, layout="HWC"))
