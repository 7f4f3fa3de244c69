"""readers.numpy: arrays in .npy files, whole or a part of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import DataLocation, PerformanceHint
from penstock.graph.layouts import axis_numbers
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import cast_saturating
from penstock.operators.cropping.slice import Bounds, Slice, cut, slice  # noqa: A004  # DALI's name
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.file_selection import Path, select_files
from penstock.sources.formats.npy.npy_roi import NpyRoiSource
from penstock.sources.formats.npy.npy_source import NpySource
from penstock.sources.open_sources import open_shared


@operator("readers.numpy")
def numpy(
    *,
    file_root: DataLocation[Path | None] = None,
    files: DataLocation[Path | Sequence[Path] | None] = None,
    file_list: DataLocation[Path | None] = None,
    file_filter: DataLocation[str] = "*.npy",
    roi_start: Bounds | None = None,
    roi_end: Bounds | None = None,
    roi_shape: Bounds | None = None,
    rel_roi_start: Bounds | None = None,
    rel_roi_end: Bounds | None = None,
    rel_roi_shape: Bounds | None = None,
    roi_axes: int | Sequence[int] = (),
    out_of_bounds_policy: Literal["error", "pad", "trim_to_shape"] = "error",
    fill_value: float = 0.0,
    cache_header_information: PerformanceHint[bool] = False,
    register_buffers: PerformanceHint[bool] = True,
    use_o_direct: PerformanceHint[bool] = False,
    **loader: Unpack[ReaderArguments],
) -> DataNode:
    """Read arrays from .npy files, as `numpy.save` writes them, whole or a part of each.

    Give one of three: `file_root` alone, a folder, whose files come first, and then those of the folders directly below
    it, sorted by the bytes of their names; `files`, a list of paths; or `file_list`, a text file with a path per line.
    All files have the dtype and the number of axes of the first one. Fortran order and big-endian numbers are brought
    to C order and the machine's own.

    Args:
        file_root: that folder; with `files` or `file_list`, what their paths are relative to.
        files: paths, in the order of the data set.
        file_list: the text file; its paths are relative to its own folder if there is no `file_root`.
        file_filter: a pattern such as "*.npy"; a file below `file_root` counts if it matches its name.
        roi_start: where the part begins, indices; a number per axis, or one for all. Bounds may be nodes.
        roi_end: the first index after it.
        roi_shape: how large it is, in elements.
        rel_roi_start: where the part begins, in parts of the extent.
        rel_roi_end: where it ends, in parts of the extent.
        rel_roi_shape: how large it is, in parts of the extent.
        roi_axes: the numbers of the axes that the bounds are for, all by default.
        out_of_bounds_policy: what to do where the part leaves the array: "error", "pad" with `fill_value`, or
            "trim_to_shape".
        fill_value: what stands outside the array.
        cache_header_information: a hint; a header that was met before is always known.
        register_buffers: a hint of DALI's.
        use_o_direct: a hint of DALI's.
        **loader: See `ReaderArguments`.

    Returns:
        The arrays, of the files' dtype, without a layout. Where no bound is a node, only that of a file is read which
        holds the part along its first axis (the last one in Fortran order); else files are read whole.

    Raises:
        SourceNotFoundError: a path does not exist.
        SourceError: no files are found, or the first one is no .npy file of booleans, integers or floats.
        DefinitionError: none or two of the three ways are used, or a bound is given twice.
        SampleError: while running, a file that is damaged, or has another dtype or number of axes than the first.

    Example:
        >>> import penstock, tempfile
        >>> import numpy as np
        >>> from pathlib import Path
        >>> from penstock import fn
        >>> root = Path(tempfile.mkdtemp())
        >>> for number in range(2):
        ...     np.save(root / f"{number}.npy", np.arange(6) + 10 * number)
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.numpy(file_root=root, roi_start=1, roi_end=4))
        >>> pipeline.run()[0].as_array().tolist()
        [[1, 2, 3], [11, 12, 13]]
    """
    del cache_header_information, register_buffers, use_o_direct
    choice = select_files("fn.readers.numpy", file_root, files, file_list, file_filter)
    whole = open_shared(NpySource, choice, stamp=choice.stamp())
    given = {
        "start": roi_start, "end": roi_end, "shape": roi_shape,
        "rel_start": rel_roi_start, "rel_end": rel_roi_end, "rel_shape": rel_roi_shape,
    }  # fmt: skip
    if all(bound is None for bound in given.values()):
        (arrays,) = apply_reader(whole, loader)
        return arrays
    spec = whole.specs[0]
    axes = [roi_axes] if isinstance(roi_axes, int) else list(roi_axes) or list(range(len(spec.shape)))
    bounds = {name: _per_axis(bound, len(axes)) for name, bound in given.items() if bound is not None}
    if any(isinstance(bound, DataNode) for bound in bounds.values()):
        (arrays,) = apply_reader(whole, loader)
        return slice(arrays, axes=axes, out_of_bounds_policy=out_of_bounds_policy, fill_values=fill_value, **bounds)
    kernel = cut(bounds, axis_numbers(axes, None, spec, "slice"), out_of_bounds_policy, fill_value, spec.dtype)
    numbers = tuple((name, tuple(np.ravel(bound).astype(float).tolist())) for name, bound in bounds.items())
    try:
        source = open_shared(NpyRoiSource, whole, _Part(kernel, numbers))
    except ValueError as error:  # a part that no file has: it ends before it begins
        raise DefinitionError(f"fn.readers.numpy: {error}") from error
    (arrays,) = apply_reader(source, loader)
    return arrays


@dataclass(frozen=True)
class _Part:
    """A part with the same bounds in each array."""

    kernel: Slice
    bounds: tuple[tuple[str, tuple[float, ...]], ...]

    def spec(self, whole: Spec) -> Spec:
        """What the kernel gives."""
        return self.kernel.infer(whole, **dict(self.bounds))

    def windows(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """As the kernel finds them."""
        found = [(0, extent) for extent in shape]
        given = {name: np.array([values]) for name, values in self.bounds}
        for number, axis in enumerate(self.kernel.axes):
            first, length = self.kernel.window(np, number, np.array([shape[axis]]), given)
            found[axis] = int(first[0]), int(length[0])
        return found

    def fill(self, dtype: np.dtype[Any]) -> Array:
        """The kernel's."""
        return cast_saturating(np, np.asarray(self.kernel.fill[0], np.float32), dtype)


def _per_axis(bound: Bounds | None, count: int) -> Any:
    """The bound with a number per axis, where one is given for all."""
    return [bound] * count if isinstance(bound, int | float | np.number) else bound
