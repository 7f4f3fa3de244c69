"""TrivialAugment: one augmentation of any strength for each sample (https://arxiv.org/abs/2103.10158)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from penstock.auto_aug.rand_augment import without
from penstock.core.call_site import user_call_site
from penstock.errors import DefinitionError
from penstock.graph.tracing.trace import DataNode
from penstock.types import DALIInterpType


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
    """Augment images by one augmentation that each sample chooses, with a magnitude that it chooses.

    Args:
        data: images or sequences, uint8, of layout HWC or FHWC.
        num_magnitude_bins: how many bins magnitudes have.
        shape: height and width of the images, or a node with them: then translations are parts of these.
        fill_value: what becomes visible beyond the edge; None repeats the edge.
        interp_type: INTERP_LINEAR, the default, or INTERP_NN.
        max_translate_abs: the greatest translation in pixels, without `shape`; one number, or one for the height and
            one for the width. 32 by default.
        max_translate_rel: the greatest translation as a part of the size, with `shape`, likewise. 1 by default.
        seed: of the choices.
        excluded: names of augmentations that are left out.

    Returns:
        The augmented images.

    Raises:
        DefinitionError: a name to exclude that does not exist, the limit of translations that does not apply.
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
    """Augment images by one of the given augmentations, that each sample chooses together with its magnitude.

    Args:
        augmentations: to choose from.
        data: the images.
        num_magnitude_bins: how many bins magnitudes have.
        seed: of the choices.
        kwargs: arguments for the augmentations; each gets those that it takes.

    Returns:
        The augmented images.

    Raises:
        DefinitionError: no augmentation, no bin, an argument that none takes.
    """
    if not augmentations or num_magnitude_bins < 1:
        raise DefinitionError(
            "TrivialAugment chooses one of some augmentations",
            given=f"{len(augmentations)} augmentations, num_magnitude_bins={num_magnitude_bins}",
            expected="at least one of each",
            where=user_call_site(),
        )
    check_arguments(augmentations, kwargs, "apply_trivial_augment")
    number: Any = fn.random.uniform(values=list(range(num_magnitude_bins)), dtype=types.INT32, **seeded(seed))
    if any(item.randomly_negate for item in augmentations):
        number = signed_bin(number, seed=seed)
    chosen = fn.random.uniform(values=list(range(len(augmentations))), dtype=types.INT32, **seeded(seed))
    return select(augmentations, chosen, data, magnitude_bin=number, num_magnitude_bins=num_magnitude_bins, **kwargs)


@defining
def get_trivial_augment_wide_suite(
    use_shape: bool = False, max_translate_abs: Translation = None, max_translate_rel: Translation = None
) -> list[Augmentation]:
    """Return the augmentations of the paper's wide search space."""
    moves = a.translations(use_shape, 32, 1.0, max_translate_abs, max_translate_rel)
    return a.monotonic(moves, shear=0.99, angle=135, enhanced=(0.01, 0.99), bits=(8, 2))
