"""The `features` argument of readers of Example messages."""

import math
from collections.abc import Mapping, Sequence

from penstock.errors import DefinitionError, short_repr
from penstock.graph import DataNode
from penstock.operators.readers.paths import check_not_empty
from penstock.sources.formats.tfrecord.example_columns import Features
from penstock.sources.formats.tfrecord.feature_specs import Feature, VarLenFeature, string


def as_features(features: Mapping[str, Feature]) -> Features:
    """Check the `features` argument and return its items, sorted by name.

    Raises:
        DefinitionError: It is empty, or has a list of strings.
    """
    check_not_empty(features=features)
    for name, feature in features.items():
        # A string becomes a vector of bytes. Several of different lengths would not form an array.
        is_list = isinstance(feature, VarLenFeature) or math.prod(feature.shape) != 1
        if feature.dtype == string and is_list:
            raise DefinitionError(
                "a feature must not be a list of strings",
                given=f"{name!r}: {short_repr(feature)}",
                expected='FixedLenFeature((), tfrecord.string, "")',
            )
    # Sorted, so that the order of the dictionary does not matter for the shared source.
    return tuple(sorted(features.items()))


def nodes_by_name(features: Mapping[str, Feature], nodes: Sequence[DataNode]) -> dict[str, DataNode]:
    """Return the nodes of a reader of `as_features` by name, in the order of the user's dictionary."""
    named = dict(zip(sorted(features), nodes, strict=True))
    return {name: named[name] for name in features}
