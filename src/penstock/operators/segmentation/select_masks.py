"""Operator that selects the polygons of some masks."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, Spec
from penstock.graph import DataNode, Input, Operator, SampleContext, SampleKernel, apply_many, operator


@dataclass(frozen=True)
class SelectMasks(Operator, SampleKernel):
    """Selection of polygons and their vertices.

    Args:
        reindex: True to number masks by their position in the selection.
    """

    reindex: bool

    def infer(self, mask_ids: Spec, polygons: Spec, vertices: Spec) -> tuple[Spec, Spec]:
        """Return the specs of polygons and vertices, of unknown number."""
        return Spec(polygons.dtype, (None, 3)), Spec(vertices.dtype, (None, vertices.shape[1]))

    def sample(self, context: SampleContext, mask_ids: Array, polygons: Array, vertices: Array) -> Any:
        """Return masks in the order of `mask_ids`, and the polygons of each in their order."""
        if polygons.shape[1] != 3:
            raise ValueError(f"polygons must have 3 columns (mask, first vertex, end), not {polygons.shape[1]}")
        chosen = mask_ids.tolist()
        if len(set(chosen)) < len(chosen):
            raise ValueError(f"mask_ids contains a mask twice: {chosen}")
        rows: list[tuple[int, int, int]] = []
        # The empty part gives the result its dtype and width if no mask is selected.
        parts = [vertices[:0]]
        count = 0
        for position, mask in enumerate(chosen):
            own = polygons[polygons[:, 0] == mask]
            if not len(own):
                raise ValueError(f"mask_ids contains {mask}, but no polygon belongs to this mask")
            for _, first, end in own.tolist():
                if not 0 <= first <= end <= len(vertices):
                    raise ValueError(
                        f"a polygon of mask {mask} has the vertices {first} to {end}, of {len(vertices)} vertices"
                    )
                rows.append((position if self.reindex else mask, count, count + end - first))
                parts.append(vertices[first:end])
                count += end - first
        return np.array(rows, polygons.dtype).reshape(-1, 3), np.concatenate(parts)


@operator("segmentation.select_masks")
def select_masks(
    mask_ids: Annotated[DataNode, Input(("integer",), ranks=(1,), needs="numbers of masks")],
    polygons: Annotated[DataNode, Input(("integer",), shape=(None, 3), needs="polygons: mask, first vertex, end")],
    vertices: Annotated[DataNode, Input(ranks=(2,), needs="vertices")],
    *,
    reindex_masks: bool = False,
) -> list[DataNode]:
    """Select the polygons of some masks, in the format of `fn.readers.coco`.

    All polygons of a mask are selected.

    Args:
        mask_ids: Numbers of masks, integers (n,), in the order of the result.
        polygons: Polygons, integers (p, 3): number of the mask, first vertex, and the vertex after the last.
        vertices: Vertices, (v, 2), any dtype.
        reindex_masks: If True, masks are numbered by their position in `mask_ids`.

    Returns:
        The selected polygons and their vertices, in the same form.

    Raises:
        DefinitionError: An input has an unsupported dtype or shape.
        SampleError: At run time, a mask has no polygon, or is selected twice, or a polygon has vertices that do not
            exist.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     polygons = fn.readers.arrays(np.int32([[[0, 0, 1], [4, 1, 3]]]))
        ...     vertices = fn.readers.arrays(np.float32([[[0, 0], [1, 2], [3, 4]]]))
        ...     pipeline.set_outputs(*fn.segmentation.select_masks(np.int32([4]), polygons, vertices))
        >>> [output[0].tolist() for output in pipeline.run()]
        [[[4, 0, 2]], [[1.0, 2.0], [3.0, 4.0]]]
    """
    return apply_many(SelectMasks(reindex_masks), mask_ids, polygons, vertices)
