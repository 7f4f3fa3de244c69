"""filter: correlate images with weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import by_axis, plane_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.correlation_pass import CorrelationPass
from penstock.numerics.casting import output_dtype
from penstock.types import Constant, DALIDataType


@dataclass(frozen=True)
class Filter(ImageOperator):
    """A correlation with the same filter for all samples, or one for each.

    Args:
        layout: of the images.
        border: what is beyond the edge.
        valid: whether only pixels are computed for which all of the filter lies inside.
        dtype: of the results.
    """

    layout: str
    border: str
    valid: bool
    dtype: np.dtype[Any]
    schema: ClassVar[Mapping[str, Argument]] = {
        "filter": Argument(np.float32, (None, None)),
        "anchor": Argument(np.int32, (None,), low=-1),
        "fill_value": Argument(np.float32),
    }

    @property
    def axes(self) -> str:
        """Those of the filter: H and W in the order of the layout."""
        return "HW" if self.layout.index("H") < self.layout.index("W") else "WH"

    def infer(self, images: Spec, *, filter: Any, anchor: Any, fill_value: Any) -> Spec:  # noqa: A002  # DALI's name
        """The input's; smaller by the filter where only what is valid is computed."""
        extents: Any = filter.shape if isinstance(filter, Spec) else np.shape(filter)
        if len(extents) != 2 or 0 in extents:
            raise DefinitionError("fn.filter: a filter has two extents", given=filter, expected="(rows, columns)")
        shape = list(images.shape)
        if self.valid:
            for letter, extent in zip(self.axes, extents, strict=True):
                at = self.layout.index(letter)
                size = shape[at]
                shape[at] = None if size is None or extent is None else size - extent + 1
                if size is not None and extent is not None and size < extent:
                    raise DefinitionError("fn.filter: the filter is larger than the image", given=extents)
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
        """One correlation."""
        xp = images.xp
        weights = filter if self.axes == "HW" else xp.swapaxes(filter, 1, 2)
        extents = int(weights.shape[1]), int(weights.shape[2])
        sizes = list(images.sizes)
        anchor = by_axis(xp.broadcast_to(anchor, (len(anchor), 2)), self.layout)
        if self.valid:
            anchor = xp.zeros_like(anchor)
            for letter, extent in zip("HW", extents, strict=True):
                at = self.layout.index(letter)
                sizes[at] = sizes[at] - (extent - 1)
                if xp is np and (sizes[at] < 1).any():
                    raise ValueError(f"the filter of {extents[0]} x {extents[1]} is larger than the image")
        else:
            middle = xp.asarray([[extent // 2 for extent in extents]], np.int32)
            if xp is np and (anchor >= np.array(extents)).any():
                raise ValueError(f"the anchor {anchor[0].tolist()} lies outside of the filter")
            anchor = xp.where(anchor < 0, middle, anchor)
        terms = weights.reshape(len(weights), -1), anchor.astype(np.float32), fill_value[:, None]
        transform = CorrelationPass(self.layout, extents, self.border, self.valid)
        return custom_steps(transform, images, sizes, terms, self.dtype)


@operator("filter")
def filter(  # noqa: A001  # DALI's name
    data: DataNode,
    filter: Any,  # noqa: A002  # DALI's name
    fill_value: Any = 0.0,
    *,
    anchor: int | Sequence[int] | DataNode = -1,
    border: Literal["reflect_101", "reflect_1001", "reflect", "clamp", "wrap", "constant"] = "reflect_101",
    mode: Literal["same", "valid"] = "same",
    dtype: DALIDataType | Any = None,
) -> DataNode:
    """Correlate images with weights. Sums are in float32.

    Args:
        data: images or sequences of any dtype; layout with H and W (HWC where none is named). Channels are independent.
        filter: the weights, (rows, columns), or (columns, rows) where W is before H in the layout: an array, or a node
            with one per sample, all of one size.
        fill_value: the value outside of the image where `border` is "constant": a number, or a node with one per
            sample.
        anchor: which weight lies on the pixel of the result, a number per axis of the filter or one for both; -1 is the
            middle.
        border: what is beyond the edge: "reflect_101" (mirrored, without the outermost pixels), "reflect_1001" or
            "reflect" (with them), "wrap", "clamp" or "constant".
        mode: "same" for results as large as the images, "valid" for the pixels alone for which no border is needed.
        dtype: of the result: FLOAT or the input's, which it is by default.

    Returns:
        The filtered images, in the input's layout; integers are rounded and clipped.

    Raises:
        DefinitionError: weights that are not (rows, columns), an unknown border or mode, a volume, a dtype that is not
            offered.
        SampleError: while running, a filter larger than the image in mode "valid".

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
    layout = plane_layout(data, "filter")
    border = "reflect_1001" if border == "reflect" else border
    result = output_dtype(data.spec.dtype, dtype, "filter")
    weights = filter.array() if isinstance(filter, Constant) else filter
    made = Filter(layout, border, mode == "valid", result)
    return apply(made, data, filter=weights, anchor=anchor, fill_value=fill_value)
