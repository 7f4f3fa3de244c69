"""Base of operators on windows, whose arguments have one number per spatial axis."""

import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from penstock.core import Spec, user_call_site
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Input, spatial_layout
from penstock.graph.tracing.registry import running_operator
from penstock.image.describe.steps import ImageInfo
from penstock.image.image_operator import ImageOperator
from penstock.operators.argument_limits import FLOAT32_EXACT
from penstock.operators.tensors.cat import cat
from penstock.operators.tensors.reshape import reshape

_log = logging.getLogger("penstock")

# Images for passes that compute in float32 and return the dtype of the input.
ExactPlanes = Annotated[DataNode, Input(FLOAT32_EXACT, axes="HW", without="D")]

# Images, volumes, and signals of one spatial axis; see `check_filtered`.
Filtered = Annotated[DataNode, Input(ranks=range(1, 65), needs="images, volumes or signals of one axis")]


def check_filtered(spec: Spec) -> bool:
    """Return True for a signal of one spatial axis, or a sequence of such; False for images and volumes.

    Raises:
        DefinitionError: The layout has neither H and W nor a single spatial axis.
    """
    letters = spec.layout.removeprefix("F") or "?" * len(spec.shape)
    if len(letters) == 1 and letters not in "CF":
        return True
    Input(axes="HW").check("data", spec)
    return False


def as_image(signals: DataNode) -> DataNode:
    """Return each signal as an image of one row."""
    if len(signals.spec.shape) == 1:
        return reshape(signals, src_dims=[-1, 0], layout="HW")
    return reshape(signals, src_dims=[0, -1, 1], layout="FHW")


def as_signal(images: DataNode, layout: str) -> DataNode:
    """Return the inverse of `as_image`."""
    return reshape(images, src_dims=[1] if len(images.spec.shape) == 2 else [0, 2], layout=layout)


def for_row(height: float, width: Any) -> Any:
    """Return an argument for an image of one row, from the argument for its signal.

    Args:
        height: Number along the height, which leaves the values as they are.
        width: Number along the width, a constant, a list of one, or a node.
    """
    if isinstance(width, DataNode):
        first: Any = np.array([height], width.spec.dtype)
        return cat(first, reshape(width, shape=[1]))
    return [height, *np.ravel(width).tolist()]


@dataclass(frozen=True)
class WindowOperator(ImageOperator):
    """Operator whose pixels depend on a window around each pixel.

    Each of its arguments is one number per spatial axis, or one for all axes.

    Args:
        layout: Layout of the images.
        dtype: Dtype of the result.
    """

    layout: str
    dtype: np.dtype[Any]

    @property
    def axes(self) -> int:
        """Number of spatial axes."""
        return 3 if "D" in self.layout else 2

    def infer(self, images: Spec, **arguments: Any) -> Spec:
        """Return the spec of the input in the dtype of the result.

        Constants are checked here, so that the error names the line of the user.
        """
        constants = {name: value for name, value in arguments.items() if not isinstance(value, Spec)}
        for name, value in constants.items():
            if np.size(value) not in (1, self.axes):
                raise DefinitionError(f"{name} must be one number, or one per axis", given=value)
        self.check(**{name: np.broadcast_to(np.ravel(value), self.axes) for name, value in constants.items()})
        return replace(images, dtype=self.dtype)

    def by_row(self, images: ImageInfo, **arguments: Any) -> Sequence[Any]:
        """Return arguments as arrays (rows, axes), checked on the host: the device program cannot raise."""
        rows = max(map(len, arguments.values()))
        numbers = {name: images.xp.broadcast_to(value, (rows, self.axes)) for name, value in arguments.items()}
        if images.xp is np:
            self.check(**numbers)
        return list(numbers.values())

    @abstractmethod
    def check(self, **numbers: Any) -> None:
        """Check the arguments that are known, arrays whose last axis is the spatial axes.

        Raises:
            DefinitionError: A window does not exist.
        """


def volume_layout(data: DataNode) -> str:
    """Return the layout of data for filters that take three axes without a layout as a volume, as DALI does.

    A last axis of three or four is most likely that of channels, which would be filtered, too. This is a warning, since
    a program for DALI may rely on it.
    """
    spec = data.spec
    if not spec.layout and len(spec.shape) == 3 and spec.shape[-1] in (3, 4):
        _log.warning(
            "%s takes data without a layout as a volume and filters along all axes of %s; if the last axis is that of "
            "channels, write fn.reshape(data, layout='HWC') before (%s)",
            running_operator(),
            spec,
            user_call_site(),
        )
    return spatial_layout(spec)


def check_odd(name: str, sizes: Any) -> None:
    """Check that windows have a center.

    Raises:
        DefinitionError: A size is even.
    """
    if (sizes % 2 == 0).any():
        raise DefinitionError(f"{name} must be odd", given=np.max(sizes), expected="an odd number")
