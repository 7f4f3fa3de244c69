"""segmentation.random_object_bbox: the box of a random object in a map of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.graph import Argument, BatchContext, DataNode, HostBatchKernel, Operator, apply_many, operator
from penstock.numerics.ragged import flattened
from penstock.operators.elementwise.cast import cast
from penstock.operators.segmentation.connected_components import draw_objects


@dataclass(frozen=True)
class RandomObjectBBox(Operator, HostBatchKernel):
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
    accepts_ragged: ClassVar[bool] = True
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

    def infer(
        self, labels: Spec, *, background: Any = None, classes: Any = None, **_arguments: Any
    ) -> tuple[Spec, ...]:
        """Numbers per axis."""
        kind = "fn.segmentation.random_object_bbox"
        if labels.dtype.kind not in "iu" or not labels.shape:
            raise ArgumentTypeError(f"{kind} takes maps of whole numbers", given=labels, fix="fn.cast it first")
        ndim = len(labels.shape)
        if len(self.threshold) not in (0, 1, ndim):
            raise DefinitionError("threshold is a size per axis", given=self.threshold, expected=ndim)
        if not any(argument is None or isinstance(argument, Spec) for argument in (background, classes)):
            _check(np.atleast_2d(classes), np.reshape(background, (1,)))
        whole = np.dtype(np.int32)
        boxes = (Spec(whole, (2 * ndim,)),) if self.form == "box" else (Spec(whole, (ndim,)), Spec(whole, (ndim,)))
        return (*boxes, Spec(whole, ())) if self.output_class else boxes

    def batch(self, context: BatchContext, labels: Any, *, foreground_prob: Any, **arguments: Any) -> Any:
        """Objects are connected along the axes, not across corners."""
        values, shapes = flattened(labels)
        (rows, axes), size = shapes.shape, int(shapes.prod(axis=1).max())
        classes, weights, backgrounds = self._classes(rows, **arguments)
        corners, drawn = np.empty((rows, 2 * axes), np.int64), np.empty(rows, np.int64)
        least = np.broadcast_to(np.array(self.threshold or (0,)), (axes,))
        draw_objects(
            *(values, shapes, classes, weights, backgrounds, classes.size > 0, self.ignore_class, self.k_largest),
            *(np.ascontiguousarray(least), np.ascontiguousarray(foreground_prob), context.bits * 2.0**-32),
            *(np.empty((4, max(size, axes)), np.int64), np.empty((size, 2 * axes), np.int64), corners, drawn),
        )
        low, high = corners[:, :axes].astype(np.int32), corners[:, axes:].astype(np.int32)
        said = {"anchor_shape": (low, high - low), "start_end": (low, high), "box": (corners.astype(np.int32),)}
        result = (*said[self.form], drawn.astype(np.int32)) if self.output_class else said[self.form]
        return result if len(result) > 1 else result[0]

    def _classes(
        self, rows: int, *, background: Any = None, classes: Any = None, class_weights: Any = None
    ) -> tuple[Array, Array, Array]:
        """The classes of the foreground, if they are chosen, their weights, and the background's label."""
        wanted: Array = np.empty((rows, 0), np.int64) if classes is None else classes
        if background is None:
            background = np.where((wanted == 0).any(axis=1), wanted.min(axis=1, initial=0) - 1, 0)
        if classes is None and class_weights is not None:  # labels from 0, without the background, as in DALI
            count: int = class_weights.shape[1]
            numbers = np.tile(np.arange(count), (rows, 1))
            wanted = numbers + ((background[:, None] >= 0) & (numbers >= background[:, None]))
        weights: Array = np.ones(wanted.shape) if class_weights is None else class_weights
        if weights.shape[1] != wanted.shape[1]:
            raise ValueError(f"there are {wanted.shape[1]} classes and {weights.shape[1]} class_weights")
        _check(wanted, background)
        return np.ascontiguousarray(wanted), np.ascontiguousarray(weights), np.ascontiguousarray(background)


def _check(classes: Any, background: Any) -> None:
    """Check that no class is the background.

    Args:
        classes: (rows, n).
        background: (rows,).
    """
    for row in np.flatnonzero((classes == background[:, None]).any(axis=1))[:1]:
        raise DefinitionError(
            "a class is the background",
            given=f"classes={classes[row].tolist()}, background={background[row]}",
            fix="leave it out of classes, or give another background",
        )


@operator("segmentation.random_object_bbox")
def random_object_bbox(
    data: DataNode,
    *,
    format: Literal["anchor_shape", "start_end", "box"] = "anchor_shape",  # noqa: A002  # DALI's name
    foreground_prob: float | DataNode = 1.0,
    background: int | DataNode | None = None,
    classes: int | Sequence[int] | DataNode | None = None,
    class_weights: float | Sequence[float] | DataNode | None = None,
    ignore_class: bool = False,
    k_largest: int | None = None,
    threshold: int | Sequence[int] | None = None,
    output_class: bool = False,
    cache_objects: bool = False,  # noqa: ARG001  # DALI's; objects are found anew
    seed: int = -1,
) -> list[DataNode] | DataNode:
    """Draw an object of a map of labels, and say its box.

    A class is drawn first, then one of its objects: elements of its label that touch along an axis.

    Args:
        data: maps of labels, integers or bool of any number of axes.
        format: "anchor_shape" gives where the box begins, and its size; "start_end" where it begins and where it ends;
            "box" both in one output.
        foreground_prob: how probable an object is; else it is the box of everything. A number, or a node with one per
            sample.
        background: the label that is no object, a number or a node. By default 0; if `classes` contains 0, the number
            below the smallest class.
        classes: the labels that are objects; all but the background by default. A node gives each sample its own.
        class_weights: how probable each class is, relative to the others. Without `classes`, of the labels 0, 1, 2,
            ... other than the background.
        ignore_class: whether all objects are equally probable, whatever their class.
        k_largest: of how many objects, the largest ones of the class, one is drawn; all by default.
        threshold: the least size of a box, a number per axis or one for all; what is smaller is no object.
        output_class: whether the label is one more output; the background's where it is the box of everything.
        cache_objects: accepted, without effect.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        Two outputs, int32 with a number per axis, or one with twice as many; the label, int32, if wanted. A map
        without objects gives the box of everything.

    Raises:
        ArgumentTypeError: maps of floats.
        DefinitionError: a format that does not exist, options that exclude each other, a class that is the
            background.

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
    if ignore_class and (classes is not None or class_weights is not None or output_class):
        raise DefinitionError("ignore_class excludes classes, class_weights and output_class")
    if k_largest is not None and k_largest < 1:
        raise DefinitionError("k_largest is a number of objects", given=k_largest, expected="at least 1")
    least = () if threshold is None else tuple(int(each) for each in np.atleast_1d(threshold))
    made = RandomObjectBBox(format, bool(ignore_class), k_largest or 0, least, bool(output_class))
    arguments: dict[str, Any] = {"background": background, "classes": classes, "class_weights": class_weights}
    given = {name: argument for name, argument in arguments.items() if argument is not None}
    data = cast(data, dtype=np.uint8) if data.spec.dtype == np.bool_ else data
    outputs = apply_many(made, data, seed=seed, foreground_prob=foreground_prob, **given)
    return outputs if len(outputs) > 1 else next(iter(outputs))
