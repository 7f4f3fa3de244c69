"""TrivialAugment: one random augmentation with a random magnitude per sample (https://arxiv.org/abs/2103.10158)."""

from collections.abc import Sequence
from typing import Any

from penstock import fn, types
from penstock.auto_aug import augmentations as a
from penstock.auto_aug.core.decorator import (
    BIN,
    CHOICE,
    Augmentation,
    Bins,
    Translation,
    check_arguments,
    defining,
    seeded,
    signed_bin,
)
from penstock.auto_aug.core.selection import select
from penstock.auto_aug.rand_augment import without
from penstock.errors import DefinitionError
from penstock.graph import DataNode
from penstock.types import DALIInterpType

__all__ = [
    "apply_trivial_augment",
    "get_trivial_augment_wide_suite",
    "trivial_augment_wide",
]


@defining
def trivial_augment_wide(
    data: DataNode,
    num_magnitude_bins: Bins = 31,
    shape: DataNode | tuple[int, int] | None = None,
    fill_value: int | None = 128,
    interp_type: DALIInterpType | int | None = None,
    max_translate_abs: Translation = None,
    max_translate_rel: Translation = None,
    seed: int | None = None,
    excluded: Sequence[str] | None = None,
) -> DataNode:
    """Augment images with one random augmentation per sample, at a random magnitude.

    Args:
        data: Images or sequences, uint8 of layout HWC or FHWC.
        num_magnitude_bins: Number of magnitude bins.
        shape: (height, width) of the images, or a node with them. Translations are then fractions of the size.
        fill_value: Value of pixels outside the image; None repeats the edge.
        interp_type: INTERP_LINEAR (the default) or INTERP_NN.
        max_translate_abs: Largest translation in pixels, without `shape`: a number or (height, width). 32 by default.
        max_translate_rel: Largest translation as a fraction of the size, with `shape`: a number or (height, width).
            1 by default.
        seed: Seed of the random choices; by default derived from the pipeline's seed.
        excluded: Names of augmentations to omit.

    Returns:
        The augmented images.

    Raises:
        DefinitionError: A name in `excluded` is unknown, or the limit of translations does not match `shape`.
    """
    chosen = without(get_trivial_augment_wide_suite(shape is not None, max_translate_abs, max_translate_rel), excluded)
    more = {"fill_value": fill_value, "interp_type": interp_type} | ({} if shape is None else {"shape": shape})
    return apply_trivial_augment(chosen, data, num_magnitude_bins, seed, **more)


@defining
def apply_trivial_augment(
    augmentations: Sequence[Augmentation],
    data: DataNode,
    num_magnitude_bins: Bins = 31,
    seed: int | None = None,
    **kwargs: Any,
) -> DataNode:
    """Augment images with one random augmentation per sample from a list, at a random magnitude.

    Args:
        augmentations: Augmentations to choose from.
        data: Images or sequences, uint8 of layout HWC or FHWC.
        num_magnitude_bins: Number of magnitude bins.
        seed: Seed of the random choices; by default derived from the pipeline's seed.
        kwargs: Arguments of the augmentations. An augmentation receives the ones in its signature.

    Returns:
        The augmented images.

    Raises:
        DefinitionError: The list is empty, or an argument is not in the signature of any augmentation.
    """
    if not augmentations:
        raise DefinitionError("TrivialAugment chooses one of some augmentations", expected="at least one augmentation")
    check_arguments(augmentations, kwargs, "apply_trivial_augment")
    number: Any = fn.random.uniform(values=list(range(num_magnitude_bins)), dtype=types.INT32, **seeded(seed, BIN))
    if any(item.randomly_negate for item in augmentations):
        number = signed_bin(number, seed=seed)
    chosen = fn.random.uniform(values=list(range(len(augmentations))), dtype=types.INT32, **seeded(seed, CHOICE))
    return select(augmentations, chosen, data, magnitude_bin=number, num_magnitude_bins=num_magnitude_bins, **kwargs)


@defining
def get_trivial_augment_wide_suite(
    use_shape: bool = False, max_translate_abs: Translation = None, max_translate_rel: Translation = None
) -> list[Augmentation]:
    """Return the augmentations of the paper's wide search space."""
    # Wider than RandAugment's ranges, except for translations in pixels.
    moves = a.translations(use_shape, 32, 1.0, max_translate_abs, max_translate_rel)
    return a.monotonic(moves, shear=0.99, angle=135, enhanced=(0.01, 0.99), bits=(8, 2))
