"""The `features` argument of readers of Example messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.sources.formats.tfrecord.examples import Features
from penstock.sources.formats.tfrecord.features import Feature, VarLenFeature, string


def as_features(reader: str, features: Any) -> Features:
    """Check the `features` argument and return its items, sorted by name.

    Args:
        reader: Name of the operator, for messages.
        features: Dictionary of names and features.

    Raises:
        ArgumentTypeError: It is not such a dictionary.
        DefinitionError: It is empty, or has a list of strings.
    """
    if not isinstance(features, Mapping) or not all(
        isinstance(name, str) and isinstance(feature, Feature)
        for name, feature in cast(Mapping[Any, Any], features).items()
    ):
        raise ArgumentTypeError(
            f"{reader}: features must be a dictionary of names and tfrecord.FixedLenFeature or VarLenFeature",
            given=short_repr(cast(Any, features)),
        )
    if not features:
        raise DefinitionError(f"{reader}: features is empty")
    named = cast(Mapping[str, Feature], features)
    for name, feature in named.items():
        # A string becomes a vector of bytes. Several of different lengths would not form an array.
        is_list = isinstance(feature, VarLenFeature) or math.prod(feature.shape) != 1
        if feature.dtype == string and is_list:
            raise DefinitionError(
                f"{reader} reads one string per feature",
                given=f"{name!r}: {short_repr(feature)}",
                expected='FixedLenFeature((), tfrecord.string, "")',
            )
    return tuple(sorted(named.items()))
