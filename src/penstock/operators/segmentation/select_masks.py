"""segmentation.select_masks: the polygons of some masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Operator, SampleContext, SampleKernel, apply_many, operator


@dataclass(frozen=True)
class SelectMasks(Operator, SampleKernel):
    """Polygons and their vertices.

    Args:
        reindex: whether a mask is numbered by its place among those that are selected.
    """

    reindex: bool

    def infer(self, mask_ids: Spec, polygons: Spec, vertices: Spec) -> tuple[Spec, Spec]:
        """As many as are selected."""
        kind = "fn.segmentation.select_masks"
        if len(mask_ids.shape) != 1 or mask_ids.dtype.kind not in "iu":
            raise DefinitionError(f"{kind} takes numbers of masks", given=mask_ids, expected="int32[n]")
        if len(polygons.shape) != 2 or polygons.dtype.kind not in "iu" or polygons.shape[1] not in (None, 3):
            raise DefinitionError(
                f"{kind} takes polygons: mask, first vertex, end", given=polygons, expected="int32[n, 3]"
            )
        if len(vertices.shape) != 2:
            raise DefinitionError(f"{kind} takes vertices", given=vertices, expected="float32[n, 2]")
        return Spec(polygons.dtype, (None, 3)), Spec(vertices.dtype, (None, vertices.shape[1]))

    def sample(self, context: SampleContext, mask_ids: Array, polygons: Array, vertices: Array) -> Any:
        """In the order in which masks are selected, and of the polygons of each."""
        chosen = mask_ids.tolist()
        if len(set(chosen)) < len(chosen):
            raise ValueError(f"mask_ids names a mask twice: {chosen}")
        rows: list[tuple[int, int, int]] = []
        parts: list[Array] = []
        count = 0
        for place, mask in enumerate(chosen):
            own = polygons[polygons[:, 0] == mask]
            if not len(own):
                raise ValueError(f"mask_ids has {mask}, and no polygon is of this mask")
            for _, first, end in own.tolist():
                rows.append((place if self.reindex else mask, count, count + end - first))
                parts.append(vertices[first:end])
                count += end - first
        made = np.array(rows, polygons.dtype).reshape(-1, 3)
        return made, np.concatenate([vertices[:0], *parts])


@operator("segmentation.select_masks")
def select_masks(
    mask_ids: DataNode,
    polygons: DataNode,
    vertices: DataNode,
    *,
    reindex_masks: bool = False,
) -> list[DataNode]:
    """Take the polygons of some masks, as `fn.readers.coco` reads them.

    A mask may have several polygons; all of them are taken.

    Args:
        mask_ids: which masks, integers (n,), in the order of the result.
        polygons: integers (p, 3): the mask, the first vertex, and one more than the last.
        vertices: (v, 2), of any dtype.
        reindex_masks: whether masks are numbered by their places in `mask_ids`.

    Returns:
        The polygons and the vertices that are left, in the same form.

    Raises:
        DefinitionError: inputs of another rank, dtype or last extent than above.
        SampleError: while running, a mask that has no polygon, or is named twice.

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
    made = SelectMasks(bool(reindex_masks))
    return apply_many(made, mask_ids, polygons, vertices)
