"""Policies: lists of sub-policies, from which each sample draws one."""

from collections.abc import Sequence
from typing import Any, cast

from penstock.auto_aug.core.decorator import Augmentation, Bins, defining
from penstock.errors import DefinitionError, short_repr


class Policy:
    """Policy of AutoAugment: a list of sub-policies, which are sequences of augmentations.

    Args:
        name: Name of the policy, for errors.
        num_magnitude_bins: Number of magnitude bins.
        sub_policies: Sequences of (augmentation, probability, bin) triples. The bin is None for an augmentation without
            magnitudes.

    Raises:
        DefinitionError: An entry is not such a triple, its probability is outside [0, 1], or its bin is out of range.
    """

    @defining
    def __init__(self, name: str, num_magnitude_bins: Bins, sub_policies: Sequence[Sequence[Any]]) -> None:
        self.name, self.num_magnitude_bins = name, num_magnitude_bins
        for entry in (entry for item in sub_policies for entry in item):
            problem = self._problem(entry)
            if problem:
                raise DefinitionError(
                    f"an entry of the policy {name} {problem}",
                    given=short_repr(entry),
                    expected="(augmentation, probability from 0 to 1, bin or None)",
                )
        self.sub_policies = tuple(map(tuple, sub_policies))

    def _problem(self, entry: object) -> str:
        parts = cast(tuple[object, ...], entry) if isinstance(entry, tuple | list) else ()
        match parts:
            case (Augmentation() as augmentation, int() | float() as probability, number):
                if not 0 <= probability <= 1:
                    return "has a probability beyond 0 to 1"
                if number is None:
                    return "" if augmentation.mag_range is None else "has no bin, and its augmentation has magnitudes"
                known = isinstance(number, int) and 0 <= number < self.num_magnitude_bins
                return "" if known else "has a bin that does not exist"
            case _:
                return "is not such a triple"

    @property
    def augmentations(self) -> dict[str, Augmentation]:
        """Augmentations of all sub-policies, by name."""
        return {entry[0].name: entry[0] for item in self.sub_policies for entry in item}

    def __repr__(self) -> str:
        lines = [str([(entry[0].name, *entry[1:]) for entry in item]) for item in self.sub_policies]
        return f"Policy({self.name!r}, {self.num_magnitude_bins}, [{', '.join(lines)}])"
