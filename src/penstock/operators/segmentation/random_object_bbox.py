"""Operator that draws a random object of a label map and returns its box."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import (
    Argument,
    BatchContext,
    DataNode,
    HostBatchKernel,
    Input,
    Operator,
    Range,
    apply_many,
    operator,
)
from penstock.numerics.ragged import flattened
from penstock.operators.elementwise.cast import cast
from penstock.operators.number_arguments import check_number_count, number_count
from penstock.operators.segmentation.connected_components import draw_objects


@dataclass(frozen=True)
class RandomObjectBBox(Operator, HostBatchKernel):
    """Box of a random object, or of the whole map.

    Args:
        form: Form of the box: "anchor_shape", "start_end" or "box".
        ignore_class: True to draw among all objects; False to draw a class first.
        k_largest: Number of largest objects to draw from; 0 for all.
        output_class: True if the label is an output.
    """

    form: str
    ignore_class: bool
    k_largest: int
    output_class: bool
    accepts_ragged: ClassVar[bool] = True

    @property
    def random_bits(self) -> int:
        """Three words: for the foreground, the class and the object."""
        return 3

    def infer(
        self, labels: Spec, *, background: Any = None, classes: Any = None, **_arguments: Any
    ) -> tuple[Spec, ...]:
        """Return the specs of the box and the label."""
        if not any(argument is None or isinstance(argument, Spec) for argument in (background, classes)):
            _check(np.atleast_2d(classes), np.reshape(background, (1,)))
        ndim, dtype = len(labels.shape), np.dtype(np.int32)
        boxes = (Spec(dtype, (2 * ndim,)),) if self.form == "box" else (Spec(dtype, (ndim,)),) * 2
        return (*boxes, Spec(dtype, ())) if self.output_class else boxes

    def batch(
        self, context: BatchContext, labels: Any, *, foreground_prob: Any, threshold: Any, **arguments: Any
    ) -> Any:
        """Draw an object of each map."""
        values, shapes = flattened(labels)
        (rows, axes), size = shapes.shape, int(shapes.prod(axis=1).max())
        classes, weights, backgrounds = self._classes(rows, **arguments)
        corners, drawn = np.empty((rows, 2 * axes), np.int64), np.empty(rows, np.int64)
        least = np.broadcast_to(threshold, (rows, axes))
        draw_objects(
            *(values, shapes, classes, weights, backgrounds, classes.size > 0, self.ignore_class, self.k_largest),
            *(np.ascontiguousarray(least), np.ascontiguousarray(foreground_prob), context.bits * 2.0**-32),
            *(np.empty((4, max(size, axes)), np.int64), np.empty((size, 2 * axes), np.int64), corners, drawn),
        )
        boxes = corners.astype(np.int32)
        low, high = boxes[:, :axes], boxes[:, axes:]
        forms = {"anchor_shape": (low, high - low), "start_end": (low, high), "box": (boxes,)}
        result = (*forms[self.form], drawn.astype(np.int32)) if self.output_class else forms[self.form]
        return result if len(result) > 1 else result[0]

    def _classes(
        self, rows: int, *, background: Any = None, classes: Any = None, class_weights: Any = None
    ) -> tuple[Array, Array, Array]:
        """Return the chosen classes, none for all labels; their weights; and the label of the background."""
        chosen: Array = np.empty((rows, 0), np.int64) if classes is None else classes
        if background is None:
            background = np.where((chosen == 0).any(axis=1), chosen.min(axis=1, initial=0) - 1, 0)
        if classes is None and class_weights is not None:
            # As in DALI, weights without classes are those of the labels from 0, without the background.
            count: int = class_weights.shape[1]
            numbers = np.tile(np.arange(count), (rows, 1))
            chosen = numbers + ((background[:, None] >= 0) & (numbers >= background[:, None]))
        weights: Array = np.ones(chosen.shape) if class_weights is None else class_weights
        if weights.shape[1] != chosen.shape[1]:
            raise ValueError(f"there are {chosen.shape[1]} classes and {weights.shape[1]} class_weights")
        _check(chosen, background)
        return np.ascontiguousarray(chosen), np.ascontiguousarray(weights), np.ascontiguousarray(background)


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
            fix="remove it from classes, or set another background",
        )


@operator("segmentation.random_object_bbox")
def random_object_bbox(
    data: Annotated[DataNode, Input(("integer", "bool"), ranks=range(1, 65), needs="label maps")],
    *,
    format: Literal["anchor_shape", "start_end", "box"] = "anchor_shape",  # noqa: A002  # DALI's name
    foreground_prob: Annotated[float | DataNode, Argument(np.float64, low=0, high=1)] = 1.0,
    background: Annotated[int | DataNode | None, Argument(np.int64)] = None,
    classes: Annotated[int | Sequence[int] | DataNode | None, Argument(np.int64, (None,))] = None,
    class_weights: Annotated[float | Sequence[float] | DataNode | None, Argument(np.float64, (None,), low=0)] = None,
    ignore_class: bool = False,
    k_largest: Annotated[int | None, Range(1)] = None,
    threshold: Annotated[int | Sequence[int] | DataNode | None, Argument(np.int64, (None,))] = None,
    output_class: bool = False,
    cache_objects: bool = False,  # noqa: ARG001  # DALI's; objects are searched for each use
    seed: int = -1,
) -> list[DataNode] | DataNode:
    """Draw a random object of a label map and return its box.

    An object is a set of elements of one label that are connected along axes, not across corners. A class is drawn
    first, then one of its objects.

    Args:
        data: Label maps, integers or bool with any number of axes.
        format: Form of the box: "anchor_shape" for start and size, "start_end" for start and end, "box" for start and
            end in one output.
        foreground_prob: Probability of an object; otherwise the box is the whole map. A number, or a node with one per
            sample.
        background: Label that is not an object; a number, or a node with one per sample. The default is 0, or if
            `classes` contains 0, the number below the smallest class.
        classes: Labels of objects; by default all but the background. A node gives each sample its own.
        class_weights: Relative probability of each class. Without `classes`, of the labels 0, 1, 2, ... except the
            background.
        ignore_class: If True, all objects are equally probable, whatever their class.
        k_largest: Number of largest objects of the class to draw from; by default all.
        threshold: Minimum size of a box, one number per axis or one for all; smaller components are not objects. A node
            has them per sample.
        output_class: If True, also return the label; that of the background for the whole map.
        cache_objects: DALI's option; it has no effect.
        seed: Seed of this operator; -1 derives it from the seed of the pipeline.

    Returns:
        Two outputs, int32 with one number per axis, or one with twice as many; with `output_class` also the label,
        int32. A map without objects gives the box of the whole map.

    Raises:
        DefinitionError: The maps are not integers, options exclude each other, or a class is the background.

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
    if ignore_class and (classes is not None or class_weights is not None or output_class):
        raise DefinitionError("ignore_class excludes classes, class_weights and output_class")
    # DALI takes an empty list as "not given".
    threshold = 0 if threshold is None or number_count(threshold) == 0 else threshold
    check_number_count("threshold", threshold, len(data.spec.shape))
    kernel = RandomObjectBBox(format, ignore_class, k_largest or 0, output_class)
    optional: dict[str, Any] = {"background": background, "classes": classes, "class_weights": class_weights}
    arguments = {name: argument for name, argument in optional.items() if argument is not None}
    # The loops are compiled for integers.
    data = cast(data, dtype=np.uint8) if data.spec.dtype == np.bool_ else data
    outputs = apply_many(kernel, data, seed=seed, foreground_prob=foreground_prob, threshold=threshold, **arguments)
    return outputs if len(outputs) > 1 else outputs[0]
