"""readers.arrays: rows of arrays in memory."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import ArgumentTypeError, DefinitionError, PenstockError, short_repr
from penstock.graph import DataLocation, DataNode, check_layout, operator
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.external.array_conversion import check_unmasked, to_column
from penstock.sources.external.library_samples import is_single_sample, is_tensor
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.open_sources import open_shared


class _Memory:
    """Hashable view of an array, equal to any array over the same memory in the same form. Keeps the memory alive."""

    def __init__(self, array: Array) -> None:
        self.array = array
        # Arrays are not hashable, and a comparison of their contents would read all data.
        self._key = (array.ctypes.data, array.shape, array.strides, array.dtype.str)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Memory) and other._key == self._key


@operator("readers.arrays")
def arrays(
    data: DataLocation[Any], *, layout: str | Mapping[str, str] | Sequence[str] = "", **loader: Unpack[ReaderArguments]
) -> Any:
    """Read rows of arrays in memory. Whole batches are read at once.

    Args:
        data: One array with a row per sample, or a dictionary or tuple of arrays with equal numbers of rows. A tensor
            of PyTorch is an array; a list of Pillow's images of one size, or of tensors, becomes one.
        layout: Layout of a row, such as "HWC"; for a dictionary or tuple, one for all arrays or one for each.
        **loader: See `ReaderArguments`.

    Returns:
        A node for one array; a dictionary or tuple of nodes for a dictionary or tuple. dtypes and shapes are those of
        the rows.

    Raises:
        DefinitionError: The arrays differ in length or have no rows, or the layouts do not match them.
        ArgumentTypeError: A value is not an array of numbers, or has masked elements.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     data = fn.readers.arrays({"x": np.eye(3), "y": np.arange(3)})
        ...     pipeline.set_outputs(data["y"])
        >>> pipeline.run()[0].as_array().tolist()
        [0, 1]
    """
    if isinstance(data, Mapping):
        named = dict(cast(Mapping[str, Any], data))
        if isinstance(layout, Mapping) and layout.keys() != named.keys():
            raise DefinitionError("layout must have one entry per array", given=layout, expected=[*named])
        if not isinstance(layout, str | Mapping):
            raise DefinitionError("the layouts of a dict must be a string or a dict", given=layout)
        layouts = [layout if isinstance(layout, str) else layout[name] for name in named]
        return dict(zip(named, _load(list(named.values()), layouts, loader), strict=True))
    if isinstance(data, tuple):
        rows = list(cast(tuple[Any, ...], data))
        return tuple(_load(rows, [layout] * len(rows) if isinstance(layout, str) else list(layout), loader))
    if not isinstance(layout, str):
        raise DefinitionError("the layout of one array must be a string", given=layout)
    return _load([data], [layout], loader)[0]


def _load(data: list[Any], layouts: list[str], loader: ReaderArguments) -> list[DataNode]:
    if not data or len(layouts) != len(data):
        raise DefinitionError(
            "layout must have one entry per array", given=f"{len(data)} arrays, {len(layouts)} layouts"
        )
    # Tracing runs once per shard with the same arrays: all traces share one source.
    source = open_shared(_open, tuple(map(_memory, data)), tuple(layouts))
    for spec in source.specs:
        check_layout(spec.layout, Spec(spec.dtype, spec.shape), len(spec.shape))
    return apply_reader(source, loader)


def _memory(data: Any) -> _Memory:
    for sample in _samples(data):
        check_unmasked(sample)
    try:
        return _Memory(np.asarray(data) if _is_array_like(data) else np.stack([*to_column(data)]))
    except PenstockError:
        raise
    except Exception as error:  # ragged lists; array-likes of other libraries may raise anything
        raise ArgumentTypeError("data must be an array of numbers", given=short_repr(data)) from error


def _is_array_like(data: Any) -> bool:
    """Return False for tensors, and for lists of what NumPy does not convert as a sample: images, tensors and files."""
    return not any(is_tensor(sample) or is_single_sample(sample) for sample in _samples(data)[:1])


def _samples(data: Any) -> list[Any]:
    return cast(list[Any], data) if isinstance(data, list) else [data]


def _open(data: tuple[_Memory, ...], layouts: tuple[str, ...]) -> ArraySource:
    arrays = [memory.array for memory in data]
    for array in arrays:
        # NumPy reports the narrow floats of ml_dtypes, such as bfloat16, as kind "V", like untyped bytes and records.
        if array.dtype.kind not in "biufcV" or issubclass(array.dtype.type, np.void):
            raise ArgumentTypeError("data must be an array of numbers", given=f"dtype {array.dtype}")
    return ArraySource(arrays, layouts)
