"""Automatic augmentation: AutoAugment, RandAugment, TrivialAugment and their building blocks, under DALI's names."""

from penstock.auto_aug import auto_augment as auto_augment
from penstock.auto_aug import core as core
from penstock.auto_aug import rand_augment as rand_augment
from penstock.auto_aug import trivial_augment as trivial_augment
