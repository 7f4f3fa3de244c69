"""Description of an output for its picture: layout, and the normalization that the definition applies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.graph import Reader, Value, parameters

# Operators that keep the values of pixels, so that a normalization before them still applies.
_KEEP_VALUES = ("cast", "copy", "flip", "transpose")

# Operators after which labels still number the same classes.
_KEEP_CLASSES = ("cast", "copy", "one_hot", "reshape", "squeeze", "expand_dims")

# `follow.boxes` returns boxes and a mask, and takes boxes and geometry; then come labels, at the same positions.
_FIRST_OTHER = 2


@dataclass(frozen=True)
class Normalization:
    """Constants of `fn.crop_mirror_normalize`.

    Args:
        mean: One number, or one per channel, in the units of the operator's input.
        std: Divisor, in the form of `mean`.
        scale: Factor, applied after the division.
        shift: Number that is added last.
        channels: Number of channels without padding; 0 if unknown.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float
    shift: float
    channels: int = 0

    def undo(self, pixels: Array) -> Array:
        """Return float32 pixels as they were before the normalization. The last axis is the channels."""
        channels = pixels.shape[-1]
        # The operator may have padded the channels with zeros, which have no mean.
        terms = max(len(self.mean), len(self.std))
        count = terms if terms > 1 else self.channels or channels
        values = (pixels[..., :count].astype(np.float32) - self.shift) / self.scale
        return values * np.asarray(self.std, np.float32) + np.asarray(self.mean, np.float32)


@dataclass(frozen=True)
class OutputInfo:
    """Facts about an output that its definition tells.

    Args:
        layout: Letters of the axes of a sample; "" if unknown.
        ndim: Number of axes of a sample.
        normalization: Normalization of the pixels by constants; None if there is none or it is unknown.
        peak: Pixel value of white before the normalization; 0 if unknown.
        class_names: Names of the classes that the value numbers; empty if unknown.
    """

    layout: str
    ndim: int
    normalization: Normalization | None = None
    peak: float = 0.0
    class_names: Mapping[int, str] = field(default_factory=dict[int, str])


def describe_output(value: Value) -> OutputInfo:
    """Describe a value of a graph."""
    node, class_names = value.node, _class_names(value)
    while node.kind in _KEEP_VALUES and node.inputs:
        node = node.inputs[0].node
    layout, ndim = value.spec.layout, len(value.spec.shape)
    # Means that differ from sample to sample are nodes, and the values of a node are not known here.
    if node.kind != "crop_mirror_normalize" or {"mean", "std"} & set(node.node_arguments):
        return OutputInfo(layout, ndim, class_names=class_names)
    constants: dict[str, Any] = {**parameters(node.operator), **node.constants}
    if not {"mean", "std", "scale", "shift"} <= set(constants) or not constants["scale"]:
        return OutputInfo(layout, ndim)
    mean, std = (tuple(np.ravel(constants[name]).tolist()) for name in ("mean", "std"))
    images = node.inputs[0].spec
    peak = 255.0 if images.dtype == np.uint8 else 0.0
    # The operator takes images without a layout as HWC or DHWC.
    channels = images.shape[images.layout.index("C") if images.layout else -1] or 0
    normalization = Normalization(mean, std, constants["scale"], constants["shift"], channels)
    return OutputInfo(layout, ndim, normalization, peak)


def _class_names(value: Value) -> Mapping[int, str]:
    """Return the class names that the reader of a value has for it."""
    while value.node.inputs:
        if value.node.kind in _KEEP_CLASSES:
            value = value.node.inputs[0]
        elif value.node.kind == "follow.boxes" and value.index >= _FIRST_OTHER:
            value = value.node.inputs[value.index]
        else:
            break
    operator = value.node.operator
    return operator.source.class_names(value.index) if isinstance(operator, Reader) else {}
