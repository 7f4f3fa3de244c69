"""Features of Example messages as arguments of readers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.sources.formats.tfrecord.examples import Features
from penstock.sources.formats.tfrecord.features import Feature, VarLenFeature, string


def as_features(reader: str, features: Any) -> Features:
    """The features that a user wants of Example messages, sorted by name.

    Args:
        reader: the operator, for messages.
        features: a dictionary.

    Raises:
        ArgumentTypeError: something else.
        DefinitionError: there are none, or a list of strings is asked for.
    """
    if not isinstance(features, Mapping) or not all(
        isinstance(name, str) and isinstance(feature, Feature)
        for name, feature in cast(Mapping[Any, Any], features).items()
    ):
        raise ArgumentTypeError(
            f"{reader}: features is a dictionary of names and tfrecord.FixedLenFeature or VarLenFeature",
            given=short_repr(cast(Any, features)),
        )
    if not features:
        raise DefinitionError(f"{reader}: features is empty")
    named = cast(Mapping[str, Feature], features)
    for name, feature in named.items():
        several = isinstance(feature, VarLenFeature) or math.prod(feature.shape) != 1
        if feature.dtype == string and several:
            raise DefinitionError(
                f"{reader} reads one string per feature",
                given=f"{name!r}: {short_repr(feature)}",
                expected='FixedLenFeature((), tfrecord.string, "")',
            )
    return tuple(sorted(named.items()))
