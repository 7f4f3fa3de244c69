"""per_frame: arguments with one value per frame of a sequence."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from penstock.core import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import BatchContext, DataNode, Input, Operator, ViewKernel, apply, operator


@dataclass(frozen=True)
class PerFrame(Operator, ViewKernel):
    """Change of the layout so that it begins with F.

    Args:
        replaces: True if the first letter of a layout may be another one and is replaced.
    """

    replaces: bool

    def infer(self, data: Spec) -> Spec:
        """Return the spec with the new layout."""
        if not data.layout:
            # "*" is DALI's letter for an axis without a name.
            return replace(data, layout="F" + "*" * (len(data.shape) - 1))
        if data.layout[0] != "F" and not self.replaces:
            raise DefinitionError("the layout must begin with F", given=short_repr(data.layout), fix="replace=True")
        return replace(data, layout="F" + data.layout[1:])

    def batch(self, context: BatchContext, data: Any) -> Any:
        """Return the same values."""
        return data


@operator("per_frame")
def per_frame(data: Annotated[DataNode, Input(ranks=range(1, 65))], *, replace: bool = False) -> DataNode:
    """Mark a value as containing one entry per frame, for use as an argument of operators on sequences.

    These operators accept such arguments: image operators that draw no random numbers, such as `rotate`, `warp_affine`,
    `gaussian_blur` and `brightness`; `filter`, as second and third input; `coord_transform`; and `transforms`, which
    then return one matrix per frame. All others raise an error.

    Args:
        data: Any dtype; the first axis is that of frames.
        replace: If True, F replaces the first letter of the layout. If False, a layout must already begin with F.

    Returns:
        The same values with a layout that begins with F.

    Raises:
        DefinitionError: `data` is a scalar, or its layout does not begin with F.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     videos = fn.readers.arrays(np.ones((1, 2, 1, 1, 3), np.uint8), layout="FHWC")
        ...     factors = fn.readers.arrays(np.float32([[2, 3]]))
        ...     pipeline.set_outputs(fn.brightness(videos, brightness=fn.per_frame(factors)))
        >>> pipeline.run()[0].as_array()[0, :, 0, 0, 0].tolist()
        [2, 3]
    """
    return apply(PerFrame(replace), data)
