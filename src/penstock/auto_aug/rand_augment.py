"""RandAugment: a few augmentations for each sample, all of one strength (https://arxiv.org/abs/1909.13719)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from penstock import fn, types
from penstock.auto_aug import augmentations as a
from penstock.auto_aug.core.decorator import (
    Augmentation,
    Bins,
    Translation,
    check_arguments,
    defining,
    seeded,
    signed_bin,
)
from penstock.auto_aug.core.selection import select
from penstock.core.call_site import user_call_site
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import Range
from penstock.graph.tracing.trace import DataNode
from penstock.types import DALIInterpType


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
    """Augment images by a few augmentations that each sample chooses.

    Args:
        data: images or sequences, uint8, of layout HWC or FHWC.
        n: how many augmentations each sample gets.
        m: the bin of their magnitudes, from 0 to `num_magnitude_bins` - 1.
        num_magnitude_bins: how many bins there are.
        shape: height and width of the images, or a node with them: then translations are parts of these.
        fill_value: what becomes visible beyond the edge; None repeats the edge.
        interp_type: INTERP_LINEAR, the default, or INTERP_NN.
        max_translate_abs: the greatest translation in pixels, without `shape`; one number, or one for the height and
            one for the width. 100 by default.
        max_translate_rel: the greatest translation as a part of the size, with `shape`, likewise. 100/224 by default.
        seed: of the choices.
        monotonic_mag: whether a higher bin is always the stronger augmentation.
        excluded: names of augmentations that are left out.

    Returns:
        The augmented images.

    Raises:
        DefinitionError: a name to exclude that does not exist, a bin that does not exist, the limit of translations
            that does not apply.

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
    """Augment images by a few of the given augmentations, that each sample chooses.

    Args:
        augmentations: to choose from.
        data: the images.
        n: how many augmentations each sample gets.
        m: the bin of their magnitudes.
        num_magnitude_bins: how many bins there are.
        seed: of the choices.
        kwargs: arguments for the augmentations; each gets those that it takes.

    Returns:
        The augmented images.

    Raises:
        DefinitionError: no augmentation, a negative `n`, a bin that does not exist, an argument that none takes.
    """
    if (n and not augmentations) or n < 0 or not 0 <= m < num_magnitude_bins:
        raise DefinitionError(
            "RandAugment chooses n of some augmentations, with magnitudes of bin m",
            given=f"{len(augmentations)} augmentations, n={n}, m={m}, num_magnitude_bins={num_magnitude_bins}",
            expected="at least one augmentation, n from 0 on, m from 0 to num_magnitude_bins - 1",
            where=user_call_site(),
        )
    check_arguments(augmentations, kwargs, "apply_rand_augment")
    if n == 0:
        return data
    chosen = fn.random.uniform(values=list(range(len(augmentations))), shape=(n,), dtype=types.INT32, **seeded(seed))
    signed = any(item.randomly_negate for item in augmentations)
    bins = signed_bin(m, seed=seed, shape=(n,)) if signed else None
    for number in range(n):
        magnitude = m if bins is None else bins[number]
        data = select(
            augmentations,
            chosen[number],
            data,
            magnitude_bin=magnitude,
            num_magnitude_bins=num_magnitude_bins,
            **kwargs,
        )
    return data


def without(augmentations: Sequence[Augmentation], excluded: Sequence[str] | None) -> list[Augmentation]:
    """Return the augmentations without the excluded names.

    Raises:
        DefinitionError: a name that none has.
    """
    names = [item.name for item in augmentations]
    unknown = [name for name in excluded or () if name not in names]
    if unknown:
        raise DefinitionError(
            f"no augmentation is named {', '.join(unknown)}", expected=", ".join(names), where=user_call_site()
        )
    return [item for item in augmentations if item.name not in (excluded or ())]


@defining
def get_rand_augment_suite(
    use_shape: bool = False, max_translate_abs: Translation = None, max_translate_rel: Translation = None
) -> list[Augmentation]:
    """Return the augmentations of RandAugment, whose strength increases with the bin."""
    moves = a.translations(use_shape, 100, 100 / 224, max_translate_abs, max_translate_rel)
    return a.monotonic(moves, shear=0.3, angle=30, enhanced=(0, 0.9), bits=(8, 4))


@defining
def get_rand_augment_non_monotonic_suite(
    use_shape: bool = False, max_translate_abs: Translation = None, max_translate_rel: Translation = None
) -> list[Augmentation]:
    """Return the augmentations with AutoAugment's ranges, in which the middle bins of some are the weakest."""
    moves = a.translations(use_shape, 100, 100 / 224, max_translate_abs, max_translate_rel)
    return [*a.learned(moves), a.identity]
