"""multi_paste: put parts of several images on one canvas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.columns import Array, Column
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator, WholeBatchKernel
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import result_dtype
from penstock.operators.cropping.paste_regions import covers_canvas, one_size, paste_regions, paste_regions_xla, regions
from penstock.types import DALIDataType

_REGIONS = ("in_anchors", "shapes", "out_anchors")


@dataclass(frozen=True)
class MultiPaste(Operator, BatchKernel):
    """Regions of a row of each input, one after the other, on a canvas of zeros.

    Args:
        layout: of the images, which ends with HWC.
        dtype: of the canvas.
    """

    layout: str
    dtype: np.dtype[Any]
    schema: ClassVar[Mapping[str, Argument]] = {
        **{name: Argument(np.int32, (None, 2), low=0) for name in _REGIONS},
        **{f"{name}_rel": Argument(np.float32, (None, 2), low=0, high=1) for name in _REGIONS},
        "output_size": Argument(np.int32, (2,), low=1),
    }

    def infer(self, *images: Spec, output_size: Any = None, **_arguments: Any) -> Spec:
        """The canvas: of the given size, or of that which all images have."""
        if any(image.dtype != images[0].dtype or len(image.shape) != len(self.layout) for image in images):
            raise DefinitionError("fn.multi_paste: inputs have one dtype and layout", given=", ".join(map(str, images)))
        size: Any = (None, None) if isinstance(output_size, Spec) else output_size
        if size is None:
            sizes = {image.shape[-3:-1] for image in images}
            if len(sizes) > 1 and all(None not in each for each in sizes):
                raise DefinitionError(
                    "fn.multi_paste: images of several sizes need a canvas", fix="output_size=(height, width)"
                )
            size = next(iter(sizes)) if len(sizes) == 1 else (None, None)
        return Spec(self.dtype, (*images[0].shape[:-3], *map(_whole, size), images[0].shape[-1]), self.layout)

    def batch(self, context: BatchContext, *images: Any, **arguments: Any) -> Any:
        """On the host input by input; on the device chosen by masks, where what lies outside is left out."""
        xp, given = context.xp, [np.array(image.shape[-3:-1], np.int32) for image in images]
        canvas: Any = arguments["output_size"][0] if "output_size" in arguments else one_size(given)
        shape = (context.rows, *images[0].shape[1:-3], *canvas.tolist(), images[0].shape[-1])
        places = regions(xp, given, canvas, arguments)
        if xp is not np:
            return paste_regions_xla(xp, images, shape, places, self.dtype)
        result = np.empty(shape, self.dtype) if context.out is None else context.out
        if not covers_canvas(places, canvas):
            result[...] = 0
        for number, image in enumerate(images):
            paste_regions(
                image, np.arange(len(image))[:, None], [place[:, number : number + 1] for place in places], result
            )
        return result


@dataclass(frozen=True)
class MultiPasteBatch(Operator, WholeBatchKernel):
    """Regions of any rows of the batch on each row's canvas.

    Args:
        layout: of the images, which ends with HWC.
        dtype: of the canvas.
        fixed: the arguments that are constants.
        varying: the names of the others, which are inputs, in order.
    """

    layout: str
    dtype: np.dtype[Any]
    fixed: tuple[tuple[str, Any], ...]
    varying: tuple[str, ...]
    moves_rows: ClassVar[bool] = True

    def infer(self, images: Spec, *_arguments: Spec) -> Spec:
        """The canvas."""
        fixed = dict(self.fixed)
        size = fixed.get("output_size", (None, None) if "output_size" in self.varying else images.shape[-3:-1])
        return Spec(self.dtype, (*images.shape[:-3], *map(_whole, size), images.shape[-1]), self.layout)

    def whole_batch(self, context: BatchContext, images: Column, *varying: Column) -> Column:
        """At once where all samples have one shape; else row by row, and region by region."""
        schema = {**MultiPaste.schema, "in_ids": Argument(np.int32, (None,), low=0, high=len(images) - 1)}
        columns = dict(zip(self.varying, varying, strict=True))
        given = {name: schema[name].broadcast_rows(np, value, 1, varying=False) for name, value in self.fixed}
        if all(isinstance(column, np.ndarray) for column in (images, *varying)):
            batch: Any = images
            given |= {
                name: schema[name].broadcast_rows(np, each, len(batch), varying=True) for name, each in columns.items()
            }
            canvas: Any = given.get("output_size", np.array([batch.shape[-3:-1]]))
            ids = given.pop("in_ids")
            if (canvas == canvas[0]).all():
                shape = (len(batch), *batch.shape[1:-3], *canvas[0].tolist(), batch.shape[-1])
                made = np.empty(shape, self.dtype) if context.out is None else context.out
                sizes = [np.array(batch.shape[-3:-1], np.int32)] * ids.shape[1]
                places = regions(np, sizes, canvas[0], given)
                if not covers_canvas(places, canvas[0]):
                    made[...] = 0
                paste_regions(batch, ids, places, made)
                return made
            given["in_ids"] = ids
        canvas = None if "output_size" in {*given, *columns} else one_size([i.shape[-3:-1] for i in images])
        result: list[Array] = []
        for row in range(len(images)):
            own = {name: value[row % len(value)][None] for name, value in given.items()}
            for name, column in columns.items():
                own[name] = schema[name].broadcast_rows(np, list(column[row : row + 1]), 1, varying=True)
            sources: list[Array] = [images[number] for number in own.pop("in_ids")[0].tolist()]
            size = own["output_size"][0] if canvas is None else canvas
            blank = images[row].shape[:-3], images[row].shape[-1]
            lead, channels = {(each.shape[:-3], each.shape[-1]) for each in sources}.pop() if sources else blank
            if any((each.shape[:-3], each.shape[-1]) != (lead, channels) for each in sources):
                raise ValueError("images that go on one canvas differ in their channels, or frames")
            made = np.zeros((*lead, *size.tolist(), channels), self.dtype)
            places = regions(np, [np.array(each.shape[-3:-1], np.int32) for each in sources], size, own)
            for number, image in enumerate(sources):
                paste_regions(
                    image[None],
                    np.zeros((1, 1), int),
                    [each[:, number : number + 1] for each in places],
                    made[None],
                    number,
                )
            result.append(made)
        return result


def _whole(extent: Any) -> int | None:
    return None if extent is None else int(extent)


@operator("multi_paste")
def multi_paste(
    *inputs: DataNode,
    in_ids: int | Sequence[int] | DataNode | None = None,
    output_size: Sequence[int] | DataNode | None = None,
    in_anchors: Sequence[Sequence[int]] | DataNode | None = None,
    in_anchors_rel: Sequence[Sequence[float]] | DataNode | None = None,
    shapes: Sequence[Sequence[int]] | DataNode | None = None,
    shapes_rel: Sequence[Sequence[float]] | DataNode | None = None,
    out_anchors: Sequence[Sequence[int]] | DataNode | None = None,
    out_anchors_rel: Sequence[Sequence[float]] | DataNode | None = None,
    dtype: DALIDataType | Any = None,
) -> DataNode:
    """Put parts of several images on one canvas, one over the other: for mosaics, CutMix, copied objects.

    The images are those that a sample has in several inputs or, with `in_ids`, any of the batch, in one input. What is
    given of regions are pairs of numbers, y and x, one pair for each of them.

    Args:
        inputs: images or sequences, any dtype, layout HWC or FHWC; all of one dtype.
        in_ids: for each region the number of the sample in the batch from which it comes; a list for all samples, or a
            node with a list per sample. What a sample gets then depends on its batch.
        output_size: height and width of the canvas; two numbers, or a node with two per sample; the number of channels
            may follow. That of the images by default, if all have the same.
        in_anchors: where regions begin in their images, in pixels; the first corner by default. A list of pairs, or a
            node with one per sample.
        in_anchors_rel: the same in parts of the image, rounded down.
        shapes: height and width of regions, in pixels; all from the anchor on by default. Likewise.
        shapes_rel: the same in parts of the image, rounded up.
        out_anchors: where regions begin on the canvas; its first corner by default. Likewise.
        out_anchors_rel: the same in parts of the canvas, rounded down.
        dtype: of the canvas; that of the images by default.

    Returns:
        The canvases, 0 where no image is, in the inputs' layout.

    Raises:
        DefinitionError: `in_ids` beside several inputs; something given in pixels and in parts; a layout other than HWC
            and FHWC.
        SampleError: while running, a region that leaves its image or the canvas, or numbers that are not one pair per
            region. In the device program, where nothing can be raised, what lies outside is left out.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[1], [2]]], [[[3], [4]]]]), layout="HWC")
        ...     canvas = fn.multi_paste(images, in_ids=[0, 1], out_anchors=[[0, 0], [1, 1]], output_size=(2, 3))
        ...     pipeline.set_outputs(canvas)
        >>> pipeline.run()[0].as_array()[0, :, :, 0].tolist()
        [[1, 2, 0], [0, 3, 4]]
    """
    kind = "fn.multi_paste"
    if not inputs or (in_ids is not None and len(inputs) > 1):
        expected = "one, since in_ids says which samples" if inputs else "one or more"
        raise DefinitionError(f"{kind}: another number of inputs", given=len(inputs), expected=expected)
    first = next(iter(inputs))
    layout = image_layout(first, "multi_paste")
    if layout not in ("HWC", "FHWC"):
        raise DefinitionError(f"{kind} takes images with their channels last", given=layout, expected="HWC or FHWC")
    pairs = {"in_anchors": (in_anchors, in_anchors_rel), "shapes": (shapes, shapes_rel)}
    pairs["out_anchors"] = (out_anchors, out_anchors_rel)
    given: dict[str, Any] = {"in_ids": in_ids, "output_size": _plane(output_size, first.spec.shape[-1])}
    for name, (pixels, parts) in pairs.items():
        if pixels is not None and parts is not None:
            raise DefinitionError(f"{kind}: {name} is given twice", given=f"{name} and {name}_rel", fix="leave out one")
        given |= {name: pixels, f"{name}_rel": parts}
    given = {name: value for name, value in given.items() if value is not None}
    made = result_dtype(first.spec.dtype, dtype)
    if in_ids is None:
        return apply(MultiPaste(layout, made), *inputs, **given)
    schema = {**MultiPaste.schema, "in_ids": Argument(np.int32, (None,), low=0)}
    for name, value in given.items():
        schema[name].check(f"{kind}: {name}", value.spec if isinstance(value, DataNode) else value)
    varying = {name: value for name, value in given.items() if isinstance(value, DataNode)}
    fixed = tuple((name, _frozen(value)) for name, value in given.items() if name not in varying)
    return apply(MultiPasteBatch(layout, made, fixed, tuple(varying)), *inputs, *varying.values())


def _plane(size: Any, channels: int | None) -> Any:
    """Height and width of a size that may have channels, too.

    Raises:
        DefinitionError: these are others than the images'.
    """
    if size is None or (size.spec.shape if isinstance(size, DataNode) else np.shape(size)) != (3,):
        return size
    if not isinstance(size, DataNode) and channels not in (None, size[2]):
        raise DefinitionError("fn.multi_paste: output_size has other channels", given=size, expected=channels)
    return size[:2]


def _frozen(value: Any) -> tuple[Any, ...]:
    """Nested sequences as tuples, which can be compared."""
    numbers = np.atleast_1d(value)
    rows = [tuple(row) for row in numbers] if numbers.ndim == 2 else numbers.tolist()
    return tuple(rows)
