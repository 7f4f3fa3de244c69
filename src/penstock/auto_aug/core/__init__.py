"""Building blocks of automatic augmentation: augmentations with magnitudes, policies, selection per sample."""

from penstock.auto_aug.core.decorator import Augmentation as Augmentation
from penstock.auto_aug.core.decorator import SignedBin as SignedBin
from penstock.auto_aug.core.decorator import augmentation as augmentation
from penstock.auto_aug.core.decorator import signed_bin as signed_bin
from penstock.auto_aug.core.policy import Policy as Policy
from penstock.auto_aug.core.selection import select as select

__all__ = [
    "Augmentation",
    "Policy",
    "SignedBin",
    "augmentation",
    "select",
    "signed_bin",
]
