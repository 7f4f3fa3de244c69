"""segmentation.random_object_bbox: the box of a random object in a map of labels."""
# pyright: basic
# SciPy is not typed

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.graph.operator import Common, Operator, SampleContext, SampleKernel
from penstock.graph.registry import operator
from penstock.graph.schema import Argument
from penstock.graph.trace import DataNode, apply_many

_FORMATS = ("anchor_shape", "start_end", "box")


@dataclass(frozen=True)
class RandomObjectBBox(Operator, SampleKernel):
    """The box of an object, or of everything.

    Args:
        form: how boxes are said.
        ignore_class: whether all objects are alike; else a class is drawn first.
        k_largest: of how many objects, the largest ones, one is drawn; 0 for all.
        threshold: the least size per axis, or one for all; empty for any.
        output_class: whether the label is an output.
    """

    form: str
    ignore_class: bool
    k_largest: int
    threshold: tuple[int, ...]
    output_class: bool
    schema: ClassVar[Mapping[str, Argument]] = {
        "foreground_prob": Argument(np.float64, low=0, high=1),
        "background": Argument(np.int64),
        "classes": Argument(np.int64, (None,)),
        "class_weights": Argument(np.float64, (None,), low=0),
    }

    @property
    def random_bits(self) -> int:
        """One for the foreground, one for the class, one for the object."""
        return 3

    def infer(self, labels: Spec, **_arguments: Any) -> tuple[Spec, ...]:
        """Numbers per axis."""
        kind = "fn.segmentation.random_object_bbox"
        if labels.dtype.kind not in "iu":
            raise ArgumentTypeError(f"{kind} takes maps of whole numbers", given=labels, fix="fn.cast it first")
        ndim = len(labels.shape)
        if len(self.threshold) not in (0, 1, ndim):
            raise DefinitionError(f"{kind}: threshold is a size per axis", given=self.threshold, expected=ndim)
        whole = np.dtype(np.int32)
        boxes = (Spec(whole, (2 * ndim,)),) if self.form == "box" else (Spec(whole, (ndim,)), Spec(whole, (ndim,)))
        return (*boxes, Spec(whole, ())) if self.output_class else boxes

    def sample(self, context: SampleContext, labels: Array, **arguments: Any) -> Any:
        """Objects are connected along the axes, not across corners."""
        assert context.bits is not None  # it declares that it needs some
        foreground, by_class, by_object = (context.bits * 2.0**-32).tolist()
        weights, background = self._weights(labels, **arguments)
        start, end, label = [0] * labels.ndim, list(labels.shape), background
        objects: dict[int, list[Array]] = {}
        if foreground < arguments["foreground_prob"]:
            objects = {each: found for each in weights if (found := self._objects(labels == each))}
        if self.ignore_class and objects:
            pairs = [(each, box) for each, found in objects.items() for box in found]
            kept = self._largest([box for _, box in pairs])
            label, (start, end) = background, kept[int(by_object * len(kept))].tolist()
        elif objects:
            totals = np.cumsum([weights[each] for each in objects])
            at = int(np.searchsorted(totals, by_class * totals[-1], side="right"))
            label = list(objects)[min(at, len(objects) - 1)]
            kept = self._largest(objects[label])
            start, end = kept[int(by_object * len(kept))].tolist()
        low, high = np.array(start, np.int32), np.array(end, np.int32)
        said = {"anchor_shape": (low, high - low), "start_end": (low, high), "box": (np.concatenate([low, high]),)}
        result = (*said[self.form], np.int32(label)) if self.output_class else said[self.form]
        return result if len(result) > 1 else result[0]

    def _weights(
        self,
        labels: Array,
        *,
        background: Any = None,
        classes: Any = None,
        class_weights: Any = None,
        foreground_prob: Any = None,
    ) -> tuple[dict[int, float], int]:
        """The weight of each class of the foreground, and the background's label."""
        if classes is not None:
            wanted = [int(each) for each in classes]
        elif class_weights is not None:
            wanted = list(range(1, len(class_weights) + 1))
        else:
            outside = 0 if background is None else int(background)
            return {each: 1.0 for each in np.unique(labels).tolist() if each != outside}, outside
        factors = [1.0] * len(wanted) if class_weights is None else class_weights.tolist()
        if len(factors) != len(wanted):
            raise ValueError(f"there are {len(wanted)} classes and {len(factors)} class_weights")
        free = next(each for each in range(len(wanted) + 1) if each not in wanted)
        outside = free if background is None else int(background)
        return {each: weight for each, weight in zip(wanted, factors, strict=True) if weight > 0}, outside

    def _objects(self, mask: Array) -> list[Array]:
        """The boxes of the objects of a mask that are large enough, each first and last corner."""
        from scipy import ndimage  # noqa: PLC0415  # takes long to import, and few programs need it

        untyped: Any = ndimage
        numbered, _ = untyped.label(mask)
        found: list[tuple[slice, ...]] = untyped.find_objects(numbered)
        boxes: list[Array] = [np.array([[s.start for s in each], [s.stop for s in each]]) for each in found]
        least = np.array(self.threshold or (0,))
        return [box for box in boxes if (box[1] - box[0] >= least).all()]

    def _largest(self, boxes: list[Array]) -> list[Array]:
        """Those among which one is drawn."""
        if not self.k_largest:
            return boxes
        return sorted(boxes, key=lambda box: -int(np.prod(box[1] - box[0])))[: self.k_largest]


@operator("segmentation.random_object_bbox")
def random_object_bbox(
    data: DataNode,
    *,
    format: str = "anchor_shape",  # noqa: A002  # DALI's name
    foreground_prob: float | DataNode = 1.0,
    background: int | DataNode | None = None,
    classes: Sequence[int] | DataNode | None = None,
    class_weights: Sequence[float] | DataNode | None = None,
    ignore_class: bool = False,
    k_largest: int | None = None,
    threshold: int | Sequence[int] | None = None,
    output_class: bool = False,
    cache_objects: bool = False,  # noqa: ARG001  # DALI's; objects are found anew
    seed: int = -1,
    **common: Unpack[Common],
) -> tuple[DataNode, ...] | DataNode:
    """Draw an object of a map of labels, and say its box.

    A class is drawn first, then one of its objects: elements of its label that touch along an axis.

    Args:
        data: maps of labels, integers of any number of axes.
        format: "anchor_shape" gives where the box begins, and its size; "start_end" where it begins and where it ends;
            "box" both in one output.
        foreground_prob: how probable an object is; else it is the box of everything. A number, or a node with one per
            sample.
        background: the label that is no object; 0, or one that `classes` has not. A number, or a node.
        classes: the labels that are objects; all but the background by default. A node gives each sample its own.
        class_weights: how probable each class is, relative to the others; of the labels from 1 without `classes`.
        ignore_class: whether all objects are equally probable, whatever their class.
        k_largest: of how many objects, the largest ones of the class, one is drawn; all by default.
        threshold: the least size of a box, a number per axis or one for all; what is smaller is no object.
        output_class: whether the label is one more output; the background's where it is the box of everything.
        cache_objects: accepted, without effect.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.
        **common: what every operator takes.

    Returns:
        Two outputs, int32 with a number per axis, or one with twice as many; the label, int32, if wanted. A map
        without objects gives the box of everything.

    Raises:
        ArgumentTypeError: maps of floats.
        DefinitionError: a format that does not exist, or options that exclude each other.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     maps = fn.readers.arrays(np.uint8([[[0, 0, 0, 0], [0, 0, 7, 7]]]))
        ...     pipeline.set_outputs(fn.segmentation.random_object_bbox(maps, format="box"))
        >>> pipeline.run()[0].as_array().tolist()
        [[1, 2, 2, 4]]
    """
    kind = "fn.segmentation.random_object_bbox"
    if format not in _FORMATS:
        raise DefinitionError(f"{kind}: no such format", given=repr(format), expected=" or ".join(map(repr, _FORMATS)))
    if ignore_class and (classes is not None or class_weights is not None or output_class):
        raise DefinitionError(f"{kind}: ignore_class excludes classes, class_weights and output_class")
    if k_largest is not None and k_largest < 1:
        raise DefinitionError(f"{kind}: k_largest is a number of objects", given=k_largest, expected="at least 1")
    least = () if threshold is None else tuple(int(each) for each in np.atleast_1d(threshold))
    made = RandomObjectBBox(format, bool(ignore_class), k_largest or 0, least, bool(output_class))
    arguments: dict[str, Any] = {"background": background, "classes": classes, "class_weights": class_weights}
    given = {name: argument for name, argument in arguments.items() if argument is not None}
    outputs = apply_many(made, data, common=common, seed=seed, foreground_prob=foreground_prob, **given)
    return outputs if len(outputs) > 1 else next(iter(outputs))
