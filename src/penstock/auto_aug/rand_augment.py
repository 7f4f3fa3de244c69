"""RandAugment: n random augmentations per sample, all of one magnitude bin (https://arxiv.org/abs/1909.13719)."""

from collections.abc import Sequence
from typing import Annotated, Any

from penstock import fn, types
from penstock.auto_aug import augmentations as a
from penstock.auto_aug.core.decorator import (
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
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Range
from penstock.types import DALIInterpType

__all__ = [
    "apply_rand_augment",
    "get_rand_augment_non_monotonic_suite",
    "get_rand_augment_suite",
    "rand_augment",
]


@defining
def rand_augment(
    data: DataNode,
    n: Annotated[int, Range(0, 1 << 10)],
    m: Annotated[int, Range(0)],
    num_magnitude_bins: Bins = 31,
    shape: DataNode | tuple[int, int] | None = None,
    fill_value: int | None = 128,
    interp_type: DALIInterpType | int | None = None,
    max_translate_abs: Translation = None,
    max_translate_rel: Translation = None,
    seed: int | None = None,
    monotonic_mag: bool = True,
    excluded: Sequence[str] | None = None,
) -> DataNode:
    """Augment images with `n` random augmentations per sample.

    Args:
        data: Images or sequences, uint8 of layout HWC or FHWC.
        n: Number of augmentations per sample.
        m: Magnitude bin of all augmentations, from 0 to `num_magnitude_bins` - 1.
        num_magnitude_bins: Number of magnitude bins.
        shape: (height, width) of the images, or a node with them. Translations are then fractions of the size.
        fill_value: Value of pixels outside the image; None repeats the edge.
        interp_type: INTERP_LINEAR (the default) or INTERP_NN.
        max_translate_abs: Largest translation in pixels, without `shape`: a number or (height, width). 100 by default.
        max_translate_rel: Largest translation as a fraction of the size, with `shape`: a number or (height, width).
            100/224 by default.
        seed: Seed of the random choices; by default derived from the pipeline's seed.
        monotonic_mag: True uses ranges in which a higher bin is always a stronger augmentation; False uses
            AutoAugment's ranges.
        excluded: Names of augmentations to omit.

    Returns:
        The augmented images.

    Raises:
        DefinitionError: A name in `excluded` is unknown, `m` is out of range, or the limit of translations does not
            match `shape`.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> from penstock.auto_aug import rand_augment
        >>> pipeline = penstock.Pipeline(batch_size=2, seed=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((2, 32, 32, 3), np.uint8), layout="HWC")
        ...     pipeline.set_outputs(rand_augment.rand_augment(images, n=2, m=9))
        >>> pipeline.run()[0].as_array().shape
        (2, 32, 32, 3)
    """
    suite = get_rand_augment_suite if monotonic_mag else get_rand_augment_non_monotonic_suite
    chosen = without(suite(shape is not None, max_translate_abs, max_translate_rel), excluded)
    more = {"fill_value": fill_value, "interp_type": interp_type} | ({} if shape is None else {"shape": shape})
    return apply_rand_augment(chosen, data, n, m, num_magnitude_bins, seed, **more)


@defining
def apply_rand_augment(
    augmentations: Sequence[Augmentation],
    data: DataNode,
    n: Annotated[int, Range(0, 1 << 10)],
    m: Annotated[int, Range(0)],
    num_magnitude_bins: Bins = 31,
    seed: int | None = None,
    **kwargs: Any,
) -> DataNode:
    """Augment images with `n` random augmentations per sample from a list.

    Args:
        augmentations: Augmentations to choose from.
        data: Images or sequences, uint8 of layout HWC or FHWC.
        n: Number of augmentations per sample.
        m: Magnitude bin of all augmentations, from 0 to `num_magnitude_bins` - 1.
        num_magnitude_bins: Number of magnitude bins.
        seed: Seed of the random choices; by default derived from the pipeline's seed.
        kwargs: Arguments of the augmentations. An augmentation receives the ones in its signature.

    Returns:
        The augmented images.

    Raises:
        DefinitionError: The list is empty, `n` or `m` is out of range, or an argument is not in the signature of any
            augmentation.
    """
    if (n and not augmentations) or m >= num_magnitude_bins:
        raise DefinitionError(
            "RandAugment chooses n of some augmentations, with magnitudes of bin m",
            given=f"{len(augmentations)} augmentations, n={n}, m={m}, num_magnitude_bins={num_magnitude_bins}",
            expected="at least one augmentation, m from 0 to num_magnitude_bins - 1",
        )
    check_arguments(augmentations, kwargs, "apply_rand_augment")
    if n == 0:
        return data
    kinds = list(range(len(augmentations)))
    chosen = fn.random.uniform(values=kinds, shape=(n,), dtype=types.INT32, **seeded(seed, CHOICE))
    # The signs are drawn here, not by each augmentation: all augmentations of a step share one draw.
    signed = any(item.randomly_negate for item in augmentations)
    bins = signed_bin(m, seed=seed, shape=(n,)) if signed else None
    for number in range(n):
        options = {"magnitude_bin": bins[number] if bins else m, "num_magnitude_bins": num_magnitude_bins}
        data = select(augmentations, chosen[number], data, **options, **kwargs)
    return data


def without(augmentations: Sequence[Augmentation], excluded: Sequence[str] | None) -> list[Augmentation]:
    """Return the augmentations whose names are not excluded.

    Raises:
        DefinitionError: An excluded name is unknown.
    """
    names = [item.name for item in augmentations]
    unknown = [name for name in excluded or () if name not in names]
    if unknown:
        raise DefinitionError(f"no augmentation is named {', '.join(unknown)}", expected=", ".join(names))
    return [item for item in augmentations if item.name not in (excluded or ())]


@defining
def get_rand_augment_suite(
    use_shape: bool = False, max_translate_abs: Translation = None, max_translate_rel: Translation = None
) -> list[Augmentation]:
    """Return the augmentations of RandAugment, whose strength increases with the bin."""
    # 100 pixels, and the same fraction of a 224-pixel image.
    moves = a.translations(use_shape, 100, 100 / 224, max_translate_abs, max_translate_rel)
    return a.monotonic(moves, shear=0.3, angle=30, enhanced=(0, 0.9), bits=(8, 4))


@defining
def get_rand_augment_non_monotonic_suite(
    use_shape: bool = False, max_translate_abs: Translation = None, max_translate_rel: Translation = None
) -> list[Augmentation]:
    """Return the augmentations with AutoAugment's ranges. For some of them, the middle bins are the weakest."""
    moves = a.translations(use_shape, 100, 100 / 224, max_translate_abs, max_translate_rel)
    return [*a.learned(moves), a.identity]
