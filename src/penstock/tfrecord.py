"""Descriptions of the features that a TFRecord reader reads, under DALI's names.

>>> {"image": FixedLenFeature((), string, ""), "boxes": VarLenFeature([4], float32, 0.0)}
{'image': FixedLenFeature(shape=(), dtype=1, default_value=''),
 'boxes': VarLenFeature(shape=(4,), dtype=2, default_value=0.0)}
"""

from penstock.sources.formats.tfrecord.feature_specs import (
    Feature,
    FixedLenFeature,
    VarLenFeature,
    float32,
    int64,
    string,
)

__all__ = [
    "Feature",
    "FixedLenFeature",
    "VarLenFeature",
    "float32",
    "int64",
    "string",
]
