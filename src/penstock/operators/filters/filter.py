"""Operator that correlates images with a filter."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, DType, Planes, apply, assumed_layout, by_axis, operator
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.correlation_pass import CorrelationPass
from penstock.numerics.casting import output_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.repeated_frames import repeated_for_frames
from penstock.types import Constant

# Other names that DALI has for border modes.
_BORDER_NAMES = {"101": "reflect_101", "1001": "reflect_1001", "reflect": "reflect_1001", "fill": "constant"}


@dataclass(frozen=True)
class Filter(ImageOperator):
    """Correlation with one filter for all samples, or one per sample.

    Args:
        layout: Layout of the images.
        border: Pixels outside the image.
        valid: True to compute only pixels whose whole neighborhood is in the image.
        dtype: Dtype of the result.
    """

    layout: str
    border: str
    valid: bool
    dtype: np.dtype[Any]

    @property
    def axes(self) -> str:
        """Axes of the filter: H and W in the order of the layout."""
        return "HW" if self.layout.index("H") < self.layout.index("W") else "WH"

    def infer(self, images: Spec, *, filter: Any, anchor: Any, fill_value: Any) -> Spec:  # noqa: A002  # DALI's name
        """Return the spec of the input, which in mode "valid" shrinks by the filter."""
        extents: Any = filter.shape if isinstance(filter, Spec) else np.shape(filter)
        if len(extents) != 2 or 0 in extents:
            raise DefinitionError("filter must have two axes", given=filter, expected="(rows, columns)")
        shape = list(images.shape)
        if self.valid:
            for letter, extent in zip(self.axes, extents, strict=True):
                at = self.layout.index(letter)
                size = shape[at]
                shape[at] = None if size is None or extent is None else size - extent + 1
                if size is not None and extent is not None and size < extent:
                    raise DefinitionError("the filter is larger than the image", given=extents)
        return replace(images, dtype=self.dtype, shape=tuple(shape), bounds=())

    def describe(
        self,
        images: ImageInfo,
        bits: Any,
        *,
        filter: Any,  # noqa: A002  # DALI's name
        anchor: Any,
        fill_value: Any,
    ) -> Sequence[Step]:
        """Return one correlation."""
        xp = images.xp
        # The pass takes rows first, whatever the order of H and W in the layout.
        weights = filter if self.axes == "HW" else xp.swapaxes(filter, 1, 2)
        extents = int(weights.shape[1]), int(weights.shape[2])
        own = np.array([extents], np.int32)
        if xp is np and (missing := np.isnan(weights)).any():
            # Samples have filters of different sizes. A weight of 0 adds nothing to a sum.
            own = np.stack([(~missing).any(axis=at).sum(axis=1, dtype=np.int32) for at in (2, 1)], axis=1)
            weights = np.where(missing, 0, weights)
        sizes = list(images.sizes)
        anchor = by_axis(xp.broadcast_to(anchor, (len(anchor), 2)), self.layout)
        if self.valid:
            # Only pixels whose whole neighborhood is in the image are computed, so the anchor has no effect.
            anchor = xp.zeros_like(anchor)
            for number, letter in enumerate("HW"):
                at = self.layout.index(letter)
                sizes[at] = sizes[at] - (own[:, number] - 1)
                if xp is np and (small := sizes[at] < 1).any():
                    rows, columns = own[small.argmax() % len(own)]
                    raise ValueError(f"the filter of {rows} x {columns} is larger than the image")
        else:
            if xp is np and (beyond := (anchor >= own).any(axis=1)).any():
                raise ValueError(f"the anchor {anchor[beyond.argmax()].tolist()} is outside the filter")
            anchor = xp.where(anchor < 0, own // 2, anchor)
        middle = ((own - 1) / 2).astype(np.float32)
        terms = weights.reshape(len(weights), -1), anchor.astype(np.float32), fill_value[:, None], middle
        transform = CorrelationPass(self.layout, extents, self.border, self.valid)
        return custom_steps(transform, images, sizes, terms, self.dtype)


@operator("filter")
@rounds_to_bfloat16
def filter(  # noqa: A001  # DALI's name
    data: Planes,
    filter: Annotated[Any, Argument(np.float32, (None, None), fill=np.nan)],  # noqa: A002  # DALI's name
    fill_value: Annotated[Any, Argument(np.float32)] = 0.0,
    *,
    anchor: Annotated[int | Sequence[int] | DataNode, Argument(np.int32, (None,), low=-1)] = -1,
    border: Literal[
        "reflect_101", "101", "reflect_1001", "1001", "reflect", "clamp", "wrap", "constant", "fill"
    ] = "reflect_101",
    mode: Literal["same", "valid"] = "same",
    dtype: DType = None,
) -> DataNode:
    """Correlate images with a filter. Sums are in float32.

    Args:
        data: Images or sequences of any dtype; the layout needs H and W and defaults to HWC. Channels are independent.
        filter: Weights (rows, columns), or (columns, rows) if W comes before H in the layout; an array, or a node with
            one per sample.
        fill_value: Value of pixels outside the image for the border "constant": a number, or a node with one per
            sample.
        anchor: Index of the weight that coincides with the pixel, one number per axis of the filter or one for both; -1
            means the center.
        border: Pixels outside the image: "reflect_101" or "101" (the mirrored image without its edge pixels),
            "reflect_1001", "1001" or "reflect" (the mirrored image), "wrap" (the repeated image), "clamp" (the edge
            pixels), or "constant" or "fill" (`fill_value`).
        mode: "same" for results of the size of the images, "valid" for only those pixels that need no border.
        dtype: Dtype of the result, FLOAT or that of the input; by default that of the input.

    Returns:
        Filtered images in the layout of the input; integers are rounded and saturate. If `filter` or `fill_value` has
        an entry per frame (`fn.per_frame`), the result of an image is a sequence.

    Raises:
        DefinitionError: `filter` does not have two axes, the border or mode is unknown, the input is a volume, or the
            dtype is not supported.
        SampleError: At run time, the filter is larger than the image in mode "valid".

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[1], [2], [4], [8]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.filter(images, np.float32([[-1, 2, 0]]), border="clamp"))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [1, 3, 6, 12]
    """
    mode_of_border = _BORDER_NAMES.get(border, border)
    # In DALI the filter is an input, so users wrap arrays as types.Constant.
    weights = filter.array() if isinstance(filter, Constant) else filter
    data = repeated_for_frames(data, weights, fill_value)
    kernel = Filter(assumed_layout(data.spec), mode_of_border, mode == "valid", output_dtype(data.spec.dtype, dtype))
    return apply(kernel, data, filter=weights, anchor=anchor, fill_value=0.0 if fill_value is None else fill_value)
