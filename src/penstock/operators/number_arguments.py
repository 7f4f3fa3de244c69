"""Numbers as arguments: their annotations, how many there are, and neutral values for those that an operator lacks."""

from collections.abc import Sequence
from typing import Annotated, Any, cast

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode
from penstock.graph.ir.per_frame_kernel import each_frame

# One number for all samples, or a node with one per sample.
Number = Annotated[float | DataNode, Argument(np.float32)]

# The same, or None, which leaves the argument out.
OptionalNumber = Annotated[float | DataNode | None, Argument(np.float32)]

# Several numbers for all samples, or a node with them per sample; one number is a vector of one.
Numbers = Annotated[float | Sequence[float] | DataNode, Argument(np.float32, (None,))]

# The same, or None.
OptionalNumbers = Annotated[Sequence[float] | DataNode | None, Argument(np.float32, (None,))]

# Values that kernels take for arguments that an operator does not have. They broadcast over the rows of a batch.
ZERO, ONE = np.zeros(1, np.float32), np.ones(1, np.float32)

# Fills `axes` of samples that name fewer axes than others.
NO_AXIS = int(np.iinfo(np.int64).min)


def number_count(value: Any) -> int | None:
    """Return the number of numbers in a constant, or in each sample of a node or a spec; None if it is unknown.

    A node per frame counts as its frames, which have their numbers each.
    """
    spec = value.spec if isinstance(value, DataNode) else value
    spec = each_frame(spec) if isinstance(spec, Spec) else spec
    return (*spec.shape, 1)[0] if isinstance(spec, Spec) else int(np.size(cast(Any, value)))


def check_number_count(name: str, value: Any, count: int, item: str = "axis") -> None:
    """Check that an argument has one number, or one per item.

    Args:
        name: Name of the argument.
        value: A number, a list of numbers, a node or its spec.
        count: Number of items.
        item: The items in words, for messages.

    Raises:
        DefinitionError: It has another number of numbers.
    """
    own = number_count(value)
    if own not in (None, 1, count):
        raise DefinitionError(
            f"{name} needs one number, or one per {item}",
            given=f"{own} numbers",
            expected=f"1 or {count}" if count > 1 else 1,
        )


def check_per_channel(name: str, value: Any, images: Spec, layout: str) -> None:
    """Check that an argument has one number, or one per channel of images, if their channels are known.

    Raises:
        DefinitionError: It has another number of numbers.
    """
    channels = images.shape[layout.index("C")] if "C" in layout else 1
    if channels is not None:
        check_number_count(name, value, channels, "channel")


def numbers_per_axis(xp: Any, numbers: Any, axes: Any, ndim: int, default: Any) -> Any:
    """Return one number per axis of the data from numbers per named axis, where each sample names its own axes.

    Args:
        xp: Array namespace.
        numbers: (rows, named axes), or (rows, 1) for all named axes; NaN where a sample has fewer.
        axes: (rows, named axes), integers; negative ones count from the last axis; `NO_AXIS` where a sample has fewer.
            A sample without any names all axes.
        ndim: Number of axes of the data.
        default: Value for the other axes, which broadcasts to (rows, ndim).

    Returns:
        (rows, ndim).

    Raises:
        ValueError: An axis does not exist or is named twice, or there are more or fewer numbers. Only the host checks
            the axes; the device program cannot raise.
    """
    axes = _or_all(xp, axes, ndim)
    named = (axes % ndim)[:, None, :] == xp.arange(ndim)[None, :, None]
    if xp is np:
        present = axes != NO_AXIS
        numbers, named = _numbers_for(present, numbers), named & present[:, None, :]
        wrong = (((axes < -ndim) | (axes >= ndim)) & present).any(axis=1) | (named.sum(axis=2) > 1).any(axis=1)
        for row in np.flatnonzero(wrong)[:1]:
            raise ValueError(
                f"axes must name each axis once, with numbers from {-ndim} to {ndim - 1}, not {axes[row].tolist()}"
            )
    elif numbers.shape[1] not in (1, axes.shape[1]):
        raise ValueError(f"there are {numbers.shape[1]} numbers for {axes.shape[1]} axes")
    return xp.where(named.any(axis=2), xp.where(named, numbers[:, None, :], 0).sum(axis=2), default)


def _or_all(xp: Any, axes: Any, ndim: int) -> Any:
    """Replace empty lists of axes by all axes, as in DALI."""
    rows, count = axes.shape
    if not count:
        return xp.broadcast_to(xp.arange(ndim), (rows, ndim))
    # Only the host fills lists: in a device program, all samples name equally many axes.
    if xp is not np or not (empty := (axes == NO_AXIS).all(axis=1)).any():
        return axes
    result = np.full((rows, max(count, ndim)), NO_AXIS)
    result[:, :count] = axes
    result[empty, :ndim] = np.arange(ndim)
    return result


def _numbers_for(present: Any, numbers: Any) -> Any:
    """Return a number for each named axis of each row.

    Raises:
        ValueError: A row has neither one number nor one per axis.
    """
    missing = np.isnan(numbers)
    given, wanted = numbers.shape[1] - missing.sum(axis=1), present.sum(axis=1)
    for row in np.flatnonzero((given != 1) & (given != wanted))[:1]:
        raise ValueError(f"there are {given[row]} numbers for {wanted[row]} axes")
    result = np.repeat(numbers[:, :1], present.shape[1], axis=1)
    count = min(numbers.shape[1], present.shape[1])
    result[:, :count] = np.where(missing[:, :count], result[:, :count], numbers[:, :count])
    return result


def check_equal_counts(numbers: Any) -> None:
    """Check that all samples of a batch have equally many numbers.

    Args:
        numbers: (rows, numbers); NaN where a sample has fewer.

    Raises:
        ValueError: They do not.
    """
    if np.isnan(numbers).any():
        raise ValueError("samples have different counts of numbers, and no axes of their own")


def as_floats(numbers: Any) -> tuple[float, ...]:
    """Return one or more numbers as a tuple, which is hashable, for fields of operators."""
    return tuple(np.atleast_1d(np.asarray(numbers, np.float64)).tolist())
