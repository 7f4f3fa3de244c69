"""AutoAugment: learned policies, from which each sample draws a sub-policy (https://arxiv.org/abs/1805.09501)."""

from typing import Any

import numpy as np

from penstock import fn, types
from penstock.auto_aug import augmentations as a
from penstock.auto_aug.core.decorator import (
    APPLICATION,
    CHOICE,
    Augmentation,
    Translation,
    check_arguments,
    defining,
    seeded,
    signed_bin,
)
from penstock.auto_aug.core.policy import Policy
from penstock.auto_aug.core.selection import select
from penstock.errors import DefinitionError, short_repr
from penstock.graph import DataNode
from penstock.graph.conditionals.control_flow import if_expression
from penstock.types import DALIInterpType

__all__ = [
    "apply_auto_augment",
    "auto_augment",
    "auto_augment_image_net",
    "get_image_net_policy",
    "get_reduced_cifar10_policy",
    "get_reduced_image_net_policy",
    "get_svhn_policy",
]

# The policies of the paper, as in DALI, in the notation of `_policy`: name, probability, and bin if the augmentation
# has magnitudes.
_IMAGE_NET = """
equalize .8, shear_y .8 4; color .4 9, equalize .6; color .4 1, rotate .6 8; solarize .8 3, equalize .4;
solarize .4 2, solarize .6 2; color .2 0, equalize .8; equalize .4, solarize_add .8 3; shear_x .2 9, rotate .6 8;
color .6 1, equalize 1; invert .4, rotate .6 0; equalize 1, shear_y .6 3; color .4 7, equalize .6;
posterize .4 6, auto_contrast .4; solarize .6 8, color .6 9; solarize .2 4, rotate .8 9; rotate 1 7, translate_y .8 9;
solarize .8 4; shear_y .8 0, color .6 4; color 1 0, rotate .6 2; equalize .8; equalize 1, auto_contrast .6;
shear_y .4 7, solarize_add .6 7; posterize .8 2, solarize .6 10; solarize .6 8, equalize .6; color .8 6, rotate .4 5
"""
_REDUCED_CIFAR10 = """
invert .1, contrast .2 6; rotate .7 2, translate_x .3 9; sharpness .8 1, sharpness .9 3;
shear_y .5 8, translate_y .7 9; auto_contrast .5, equalize .9; shear_y .2 7, posterize .3 7;
color .4 3, brightness .6 7; sharpness .3 9, brightness .7 9; equalize .6, equalize .5; contrast .6 7, sharpness .6 5;
color .7 7, translate_x .5 8; equalize .3, auto_contrast .4; translate_y .4 3, sharpness .2 6;
brightness .9 6, color .2 8; solarize .5 2; equalize .2, auto_contrast .6; equalize .2, equalize .6;
color .9 9, equalize .6; auto_contrast .8, solarize .2 8; brightness .1 3, color .7 0;
solarize .4 5, auto_contrast .9; translate_y .9 9, translate_y .7 9; auto_contrast .9, solarize .8 3;
equalize .8, invert .1; translate_y .7 9, auto_contrast .9
"""
_SVHN = """
shear_x .9 4, invert .2; shear_y .9 8, invert .7; equalize .6, solarize .6 6; invert .9, equalize .6;
equalize .6, rotate .9 3; shear_x .9 4, auto_contrast .8; shear_y .9 8, invert .4; shear_y .9 5, solarize .2 6;
invert .9, auto_contrast .8; equalize .6, rotate .9 3; shear_x .9 4, solarize .3 3; shear_y .8 8, invert .7;
equalize .9, translate_y .6 6; invert .9, equalize .6; contrast .3 3, rotate .8 4; invert .8;
shear_y .7 6, solarize .4 8; invert .6, rotate .8 4; shear_y .3 7, translate_x .9 3; shear_x .1 6, invert .6;
solarize .7 2, translate_y .6 7; shear_y .8 4, invert .8; shear_x .7 9, translate_y .8 3;
shear_y .8 5, auto_contrast .7; shear_x .7 2, invert .1
"""
_REDUCED_IMAGE_NET = """
posterize .4 8, rotate .6 9; solarize .6 5, auto_contrast .6; equalize .8, equalize .6;
posterize .6 7, posterize .6 6; equalize .4, solarize .2 4; equalize .4, rotate .8 8; solarize .6 3, equalize .6;
posterize .8 5, equalize 1; rotate .2 3, solarize .6 8; equalize .6, posterize .4 6; rotate .8 8, color .4 0;
rotate .4 9, equalize .6; equalize .8; invert .6, equalize 1; color .6 4, contrast 1 8; rotate .8 8, color 1 2;
color .8 8, solarize .8 7; sharpness .4 7, invert .6; shear_x .6 5, equalize 1; color .4 0, equalize .6;
equalize .4, solarize .2 4; solarize .6 5, auto_contrast .6; invert .6, equalize 1; color .6 4, contrast 1 8;
equalize .8, equalize .6
"""


def _policy(
    name: str,
    text: str,
    use_shape: bool = False,
    max_translate_abs: Translation = None,
    max_translate_rel: Translation = None,
) -> Policy:
    """Parse a policy with 11 bins: "NAME PROBABILITY [BIN], ...; ...", with a semicolon between sub-policies."""
    moves = a.translations(use_shape, 250, 1.0, max_translate_abs, max_translate_rel)
    # RandAugment and TrivialAugment do not use these two, so `learned` does not contain them.
    more = [a.solarize_add.augmentation((0, 110), False), a.invert]
    suite = {item.name: item for item in (*a.learned(moves), *more)}

    def entry(part: str) -> tuple[Augmentation, float, int | None]:
        kind, probability, *number = part.split()
        return suite[kind], float(probability), int(number[0]) if number else None

    return Policy(name, 11, [[entry(part) for part in sequence.split(",")] for sequence in text.split(";")])


@defining
def get_image_net_policy(
    use_shape: bool = False, max_translate_abs: Translation = None, max_translate_rel: Translation = None
) -> Policy:
    """Return the policy for ImageNet. Translations are fractions of the size with `use_shape`, or up to 250 pixels."""
    return _policy("ImageNetPolicy", _IMAGE_NET, use_shape, max_translate_abs, max_translate_rel)


@defining
def get_reduced_cifar10_policy(
    use_shape: bool = False, max_translate_abs: Translation = None, max_translate_rel: Translation = None
) -> Policy:
    """Return the policy learned on reduced CIFAR-10, with translations as for ImageNet."""
    return _policy("ReducedCifar10Policy", _REDUCED_CIFAR10, use_shape, max_translate_abs, max_translate_rel)


@defining
def get_svhn_policy(
    use_shape: bool = False, max_translate_abs: Translation = None, max_translate_rel: Translation = None
) -> Policy:
    """Return the policy for SVHN, with translations as for ImageNet."""
    return _policy("SvhnPolicy", _SVHN, use_shape, max_translate_abs, max_translate_rel)


@defining
def get_reduced_image_net_policy() -> Policy:
    """Return the policy learned on reduced ImageNet. It does not contain translations."""
    return _policy("ReducedImageNetPolicy", _REDUCED_IMAGE_NET)


# "reduced_image_net" is missing because its function does not take the limits of translations.
_POLICIES = {
    "image_net": get_image_net_policy,
    "reduced_cifar10": get_reduced_cifar10_policy,
    "svhn": get_svhn_policy,
}


@defining
def auto_augment(
    data: DataNode,
    policy_name: str = "image_net",
    shape: DataNode | tuple[int, int] | None = None,
    fill_value: int | None = 128,
    interp_type: DALIInterpType | int | None = None,
    max_translate_abs: Translation = None,
    max_translate_rel: Translation = None,
    seed: int | None = None,
) -> DataNode:
    """Augment images with one of AutoAugment's policies.

    Args:
        data: Images or sequences, uint8 of layout HWC or FHWC.
        policy_name: "image_net", "reduced_image_net", "svhn" or "reduced_cifar10".
        shape: (height, width) of the images, or a node with them. Translations are then fractions of the size.
        fill_value: Value of pixels outside the image; None repeats the edge.
        interp_type: INTERP_LINEAR (the default) or INTERP_NN.
        max_translate_abs: Largest translation in pixels, without `shape`: a number or (height, width). 250 by default.
        max_translate_rel: Largest translation as a fraction of the size, with `shape`: a number or (height, width).
            1 by default.
        seed: Seed of the random choices; by default derived from the pipeline's seed.

    Returns:
        The augmented images.

    Raises:
        DefinitionError: The policy is unknown, or the limit of translations does not match `shape`.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> from penstock.auto_aug import auto_augment
        >>> pipeline = penstock.Pipeline(batch_size=2, seed=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((2, 32, 32, 3), np.uint8), layout="HWC")
        ...     pipeline.set_outputs(auto_augment.auto_augment(images, "svhn", shape=(32, 32)))
        >>> pipeline.run()[0].as_array().shape
        (2, 32, 32, 3)
    """
    more: dict[str, Any] = {"fill_value": fill_value, "interp_type": interp_type}
    if policy_name == "reduced_image_net":
        if shape is not None or max_translate_abs is not None or max_translate_rel is not None:
            raise DefinitionError(
                "the policy reduced_image_net has no translations",
                given="shape, max_translate_abs or max_translate_rel",
                fix="leave these out",
            )
        return apply_auto_augment(get_reduced_image_net_policy(), data, seed, **more)
    if policy_name not in _POLICIES:
        names = ", ".join([*_POLICIES, "reduced_image_net"])
        raise DefinitionError("unknown policy", given=short_repr(policy_name), expected=names)
    policy = _POLICIES[policy_name](shape is not None, max_translate_abs, max_translate_rel)
    return apply_auto_augment(policy, data, seed, **more | ({} if shape is None else {"shape": shape}))


def auto_augment_image_net(data: DataNode, *args: Any, **kwargs: Any) -> DataNode:
    """Augment images with the policy for ImageNet. Takes the other arguments of `auto_augment`."""
    return auto_augment(data, "image_net", *args, **kwargs)


@defining
def apply_auto_augment(policy: Policy, data: DataNode, seed: int | None = None, **kwargs: Any) -> DataNode:
    """Augment images with a policy. Each sample draws one sub-policy.

    Args:
        policy: Policy to apply.
        data: Images or sequences, uint8 of layout HWC or FHWC.
        seed: Seed of the random choices; by default derived from the pipeline's seed.
        kwargs: Arguments of the augmentations. An augmentation receives the ones in its signature.

    Returns:
        The augmented images.

    Raises:
        DefinitionError: The policy is empty, or an argument is not in the signature of any augmentation.
    """
    if not policy.sub_policies:
        raise DefinitionError("the policy is empty", given=short_repr(policy))
    check_arguments(list(policy.augmentations.values()), kwargs, "apply_auto_augment")
    # A stage is a position in the sub-policies. Each augmentation is traced once per stage in which it occurs, not once
    # per sub-policy; tables, indexed by the sample's sub-policy, hold the probability, bin and augmentation of a stage.
    # Shorter sub-policies are padded with a probability of 0.
    length, rows = max(map(len, policy.sub_policies)), len(policy.sub_policies)
    probabilities, bins, kinds = np.zeros((rows, length), np.float32), *np.zeros((2, rows, length), np.int32)
    stages: list[list[Augmentation]] = [[] for _ in range(length)]
    for row, sequence in enumerate(policy.sub_policies):
        for stage, (augmentation, probability, number) in enumerate(sequence):
            if augmentation not in stages[stage]:
                stages[stage].append(augmentation)
            probabilities[row, stage], bins[row, stage] = probability, number or 0
            kinds[row, stage] = stages[stage].index(augmentation)
    # The draws are in the half-open range [0, 1), so a probability of 1 always applies and 0 never does.
    draws = fn.random.uniform(range=[0, 1], shape=(length,), dtype=types.FLOAT, **seeded(seed, APPLICATION))
    chosen = fn.random.uniform(values=list(range(rows)), dtype=types.INT32, **seeded(seed, CHOICE))
    applied, kind, number = (fn.constant(table)[chosen] for table in (probabilities, kinds, bins))
    magnitudes = signed_bin(number, seed=seed, shape=(length,))
    for stage in range(length):
        # The defaults bind the current values: `data` is reassigned below.
        def augmented(data: DataNode = data, stage: int = stage) -> DataNode:
            options = {"magnitude_bin": magnitudes[stage], "num_magnitude_bins": policy.num_magnitude_bins}
            return select(stages[stage], kind[stage], data, **options, **kwargs)

        data = if_expression(draws[stage] < applied[stage], augmented, lambda data=data: data)
    return data
