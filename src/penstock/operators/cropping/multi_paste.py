"""Operator that pastes regions of several images on one canvas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.errors import DefinitionError
from penstock.graph import (
    Argument,
    BatchContext,
    BatchKernel,
    DataNode,
    DType,
    Operator,
    WholeBatchKernel,
    apply,
    assumed_layout,
    operator,
)
from penstock.numerics.casting import result_dtype
from penstock.operators.cropping.paste_regions import (
    clear_uncovered,
    one_size,
    paste_regions,
    paste_regions_xla,
    region,
    regions,
)
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16

# A pair of numbers per region, in pixels or relative to the image or the canvas.
Pixels = Annotated[Sequence[Sequence[int]] | DataNode | None, Argument(np.int32, (None, 2), low=0)]
Fractions = Annotated[Sequence[Sequence[float]] | DataNode | None, Argument(np.float32, (None, 2), low=0, high=1)]


@dataclass(frozen=True)
class MultiPaste(Operator, BatchKernel):
    """Paste of one region per input on a canvas of zeros.

    Args:
        layout: Layout of the images, which ends with HWC.
        dtype: Dtype of the canvas.
    """

    layout: str
    dtype: np.dtype[Any]

    @property
    def joins_names(self) -> bool:
        """True: a canvas has several images."""
        return True

    def infer(self, *images: Spec, output_size: Any = None, **_arguments: Any) -> Spec:
        """Return the spec of the canvas, whose size defaults to the common size of the images."""
        if any(image.dtype != images[0].dtype or len(image.shape) != len(self.layout) for image in images):
            raise DefinitionError("inputs must have the same dtype and layout", given=", ".join(map(str, images)))
        size: Any = (None, None) if isinstance(output_size, Spec) else output_size
        if size is None:
            sizes = {image.shape[-3:-1] for image in images}
            if len(sizes) > 1 and all(None not in extents for extents in sizes):
                raise DefinitionError("images of several sizes need a canvas", fix="output_size=(height, width)")
            size = next(iter(sizes)) if len(sizes) == 1 else (None, None)
        return Spec(self.dtype, (*images[0].shape[:-3], *size, images[0].shape[-1]), self.layout)

    def batch(self, context: BatchContext, *images: Any, **arguments: Any) -> Any:
        """Paste a batch, input by input."""
        xp, sizes = context.xp, [np.array(image.shape[-3:-1], np.int32) for image in images]
        # A dense batch has canvases of one size: row 0 is representative.
        canvas: Any = arguments["output_size"][0] if "output_size" in arguments else one_size(sizes)
        shape = (context.rows, *images[0].shape[1:-3], *canvas.tolist(), images[0].shape[-1])
        places = regions(xp, sizes, canvas, arguments)
        if xp is not np:
            return paste_regions_xla(xp, images, shape, places, self.dtype)
        result = np.empty(shape, self.dtype) if context.out is None else context.out
        clear_uncovered(result, places)
        for number, image in enumerate(images):
            paste_regions(image, np.arange(len(image))[:, None], region(places, number), result, number)
        return result


@dataclass(frozen=True)
class MultiPasteBatch(Operator, WholeBatchKernel):
    """Paste of regions of any samples of the batch.

    Args:
        layout: Layout of the images, which ends with HWC.
        dtype: Dtype of the canvas.
        fixed: Constant arguments, as pairs of name and value.
        varying: Names of the other arguments, which are inputs, in order.
    """

    layout: str
    dtype: np.dtype[Any]
    fixed: tuple[tuple[str, Any], ...]
    varying: tuple[str, ...]
    moves_rows: ClassVar[bool] = True

    def infer(self, images: Spec, *_arguments: Spec) -> Spec:
        """Return the spec of the canvas."""
        fixed = dict(self.fixed)
        size = fixed.get("output_size", (None, None) if "output_size" in self.varying else images.shape[-3:-1])
        return Spec(self.dtype, (*images.shape[:-3], *size, images.shape[-1]), self.layout)

    def whole_batch(self, context: BatchContext, images: Column, *varying: Column) -> Column:
        """Paste all rows at once if images and canvases are dense; otherwise row by row."""
        # A whole-batch kernel gets its arguments as inputs, so they are checked here and not against a schema.
        schema = {**multi_paste.schema, "in_ids": Argument(np.int32, (None,), low=0, high=len(images) - 1)}
        columns: dict[str, Any] = dict(zip(self.varying, varying, strict=True))
        arguments = {name: schema[name].broadcast_rows(np, value, 1, varying=False) for name, value in self.fixed}
        if all(isinstance(column, np.ndarray) for column in (images, *varying)):
            batch: Any = images
            for name, column in columns.items():
                arguments[name] = schema[name].broadcast_rows(np, column, len(batch), varying=True)
            canvas: Any = arguments.get("output_size", np.array([batch.shape[-3:-1]]))
            ids = arguments.pop("in_ids")
            if (canvas == canvas[0]).all():
                shape = (len(batch), *batch.shape[1:-3], *canvas[0].tolist(), batch.shape[-1])
                canvases = np.empty(shape, self.dtype) if context.out is None else context.out
                sizes = [np.array(batch.shape[-3:-1], np.int32)] * ids.shape[1]
                places = regions(np, sizes, canvas[0], arguments)
                clear_uncovered(canvases, places)
                paste_regions(batch, ids, places, canvases)
                return canvases
            arguments["in_ids"] = ids
        canvas = None if "output_size" in {*arguments, *columns} else one_size([i.shape[-3:-1] for i in images])
        result: list[Array] = []
        for row in range(len(images)):
            own = {name: value[row % len(value)][None] for name, value in arguments.items()}
            for name, column in columns.items():
                own[name] = schema[name].broadcast_rows(np, list(column[row : row + 1]), 1, varying=True)
            sources: list[Array] = [images[number] for number in own.pop("in_ids")[0].tolist()]
            size = own["output_size"][0] if canvas is None else canvas
            # A canvas without regions has the frames and channels of the row's own image.
            forms = {(image.shape[:-3], image.shape[-1]) for image in sources or [images[row]]}
            if len(forms) > 1:
                raise ValueError("images on one canvas must have the same number of channels and frames")
            lead, channels = forms.pop()
            target = np.zeros((*lead, *size.tolist(), channels), self.dtype)
            places = regions(np, [np.array(image.shape[-3:-1], np.int32) for image in sources], size, own)
            # Images may differ in size, so each region is a call.
            for number, image in enumerate(sources):
                paste_regions(image[None], np.zeros((1, 1), int), region(places, number), target[None], number)
            result.append(target)
        return result


@operator("multi_paste")
@rounds_to_bfloat16
def multi_paste(
    *inputs: DataNode,
    in_ids: Annotated[int | Sequence[int] | DataNode | None, Argument(np.int32, (None,), low=0)] = None,
    output_size: Annotated[Sequence[int] | DataNode | None, Argument(np.int32, (2,), low=1)] = None,
    in_anchors: Pixels = None,
    in_anchors_rel: Fractions = None,
    shapes: Pixels = None,
    shapes_rel: Fractions = None,
    out_anchors: Pixels = None,
    out_anchors_rel: Fractions = None,
    dtype: DType = None,
) -> DataNode:
    """Paste regions of several images on one canvas, for mosaics, CutMix or copy-paste augmentation.

    Each region comes from one of several inputs or, with `in_ids`, from any sample of the batch of a single input.
    Anchors and shapes are lists of (y, x) pairs with one pair per region, or a node with such a list per sample. Later
    regions cover earlier ones.

    Args:
        inputs: Images or sequences of any dtype, layout HWC or FHWC; all of the same dtype.
        in_ids: Index of a sample in the batch for each region; a list, or a node with a list per sample. The result
            then depends on the composition of the batch.
        output_size: Height and width of the canvas, optionally followed by the number of channels; constants, or a
            node with them per sample. The default is the size of the images if it is the same for all.
        in_anchors: First corners of the regions in their images, in pixels; by default the first corner of the image.
        in_anchors_rel: First corners relative to the size of the image, rounded down.
        shapes: Heights and widths of the regions in pixels; by default the rest of the image from the anchor.
        shapes_rel: Heights and widths relative to the size of the image, rounded up.
        out_anchors: First corners of the regions on the canvas, in pixels; by default the first corner of the canvas.
        out_anchors_rel: First corners relative to the size of the canvas, rounded down.
        dtype: Dtype of the canvas; by default that of the images.

    Returns:
        Canvases in the layout of the inputs, 0 outside all regions.

    Raises:
        DefinitionError: `in_ids` with several inputs, an argument both in pixels and relative, or a layout other than
            HWC and FHWC.
        SampleError: At run time, a region exceeds its image or the canvas, or an argument does not have one pair per
            region. The device program cannot raise and leaves out what exceeds them.

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
    if not inputs or (in_ids is not None and len(inputs) > 1):
        expected = "one input, from which in_ids selects samples" if inputs else "one or more"
        raise DefinitionError("wrong number of inputs", given=len(inputs), expected=expected)
    first = next(iter(inputs))
    layout = assumed_layout(first.spec)
    if layout not in ("HWC", "FHWC"):
        raise DefinitionError("the channels of the images must be the last axis", given=layout, expected="HWC or FHWC")
    pairs: dict[str, Any] = {"in_anchors": (in_anchors, in_anchors_rel), "shapes": (shapes, shapes_rel)}
    pairs["out_anchors"] = (out_anchors, out_anchors_rel)
    arguments: dict[str, Any] = {"in_ids": in_ids, "output_size": _plane(output_size, first.spec.shape[-1])}
    for name, (pixels, parts) in pairs.items():
        if pixels is not None and parts is not None:
            raise DefinitionError(f"{name} is given twice", given=f"{name} and {name}_rel", fix="leave out one")
        arguments |= {name: pixels, f"{name}_rel": parts}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    canvas_dtype = result_dtype(first.spec.dtype, dtype)
    if in_ids is None:
        return apply(MultiPaste(layout, canvas_dtype), *inputs, **arguments)
    # The arguments become inputs of a whole-batch kernel, so `apply` does not check them.
    for name, value in arguments.items():
        multi_paste.schema[name].check(name, value.spec if isinstance(value, DataNode) else value)
    varying = {name: value for name, value in arguments.items() if isinstance(value, DataNode)}
    fixed = tuple((name, _frozen(value)) for name, value in arguments.items() if name not in varying)
    return apply(MultiPasteBatch(layout, canvas_dtype, fixed, tuple(varying)), *inputs, *varying.values())


def _plane(size: Any, channels: int | None) -> Any:
    """Return the height and width of a size that may include channels.

    Raises:
        DefinitionError: The number of channels differs from that of the images.
    """
    if size is None or (size.spec.shape if isinstance(size, DataNode) else np.shape(size)) != (3,):
        return size
    if not isinstance(size, DataNode) and channels not in (None, size[2]):
        raise DefinitionError("output_size must have the channels of the images", given=size, expected=channels)
    return size[:2]


def _frozen(value: Any) -> tuple[Any, ...]:
    """Convert nested sequences to tuples, since operators must be hashable."""
    numbers = np.atleast_1d(value)
    rows = [tuple(row) for row in numbers] if numbers.ndim == 2 else numbers.tolist()
    return tuple(rows)
