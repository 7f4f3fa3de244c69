"""readers.numpy: arrays in .npy files, or regions of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import DataLocation, DataNode, PerformanceHint, axis_numbers, operator
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
    """Read arrays, or a region of each, from .npy files as `numpy.save` writes them.

    Use one of three arguments. `file_root` alone: a folder, whose files come first, then those of its direct
    subfolders, in byte order of their names. `files`: a list of paths. `file_list`: a text file with a path per line.

    All files must have the dtype and the rank of the first. Arrays in Fortran order and big-endian numbers are
    converted to C order and native byte order.

    If no bound is a node, only the range of the first axis (the last one in Fortran order) that contains the region is
    read; otherwise whole files.

    Args:
        file_root: Folder of the files; with `files` or `file_list`, the folder that their paths are relative to.
        files: Paths, in the order of the data set.
        file_list: Text file; its paths are relative to its own folder unless `file_root` is given.
        file_filter: Pattern such as "*.npy"; files below `file_root` are read if it matches the name.
        roi_start: Start of the region, as indices: one number per axis, or one for all axes. Bounds may be nodes.
        roi_end: End of the region, exclusive.
        roi_shape: Shape of the region.
        rel_roi_start: Start of the region, as fractions of the shape.
        rel_roi_end: End of the region, as fractions of the shape.
        rel_roi_shape: Shape of the region, as fractions of the shape.
        roi_axes: Indices of the axes that the bounds refer to; all axes by default.
        out_of_bounds_policy: Handling of regions that leave the array: "error", "pad" with `fill_value`, or
            "trim_to_shape".
        fill_value: Value outside of the array.
        cache_header_information: DALI's hint; headers are always cached.
        register_buffers: DALI's hint; it has no effect.
        use_o_direct: DALI's hint; it has no effect.
        **loader: See `ReaderArguments`.

    Returns:
        The arrays, with the dtype of the files and without a layout.

    Raises:
        SourceNotFoundError: A path does not exist.
        SourceError: There are no files, or the first is not a .npy file of booleans, integers or floats.
        DefinitionError: Not exactly one of the three arguments is used, or a bound is given twice.
        SampleError: While running, a file is damaged, or has another dtype or rank than the first.

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
    choice = select_files(file_root, files, file_list, file_filter)
    whole = open_shared(NpySource, choice, stamp=choice.stamp())
    roi = {
        "start": roi_start, "end": roi_end, "shape": roi_shape,
        "rel_start": rel_roi_start, "rel_end": rel_roi_end, "rel_shape": rel_roi_shape,
    }  # fmt: skip
    spec = whole.specs[0]
    axes = [roi_axes] if isinstance(roi_axes, int) else list(roi_axes) or list(range(len(spec.shape)))
    bounds: dict[str, Any] = {name: bound for name, bound in roi.items() if bound is not None}
    # Bounds that the pipeline computes are not known to the reader: a slice after it applies them.
    sliced = any(isinstance(bound, DataNode) for bound in bounds.values())
    source = whole
    if bounds and not sliced:
        # The kernel of `fn.slice` computes the region, so that both round and check bounds alike.
        kernel = cut(bounds, axis_numbers(axes, None, spec), out_of_bounds_policy, fill_value, spec.dtype)
        floats = {name: np.broadcast_to(np.asarray(bound, float), len(axes)) for name, bound in bounds.items()}
        region = _ConstantRegion(kernel, tuple((name, tuple(numbers.tolist())) for name, numbers in floats.items()))
        try:
            source = open_shared(NpyRoiSource, whole, region)
        except ValueError as error:  # a part that no file has: it ends before it begins
            raise DefinitionError(f"{error}") from error
    (arrays,) = apply_reader(source, loader)
    if not sliced:
        return arrays
    return slice(arrays, axes=axes, out_of_bounds_policy=out_of_bounds_policy, fill_values=fill_value, **bounds)


@dataclass(frozen=True)
class _ConstantRegion:
    """A region with the same bounds in each array.

    Args:
        kernel: Slice that computes the region.
        bounds: Its arguments, hashable as part of the key of the source.
    """

    kernel: Slice
    bounds: tuple[tuple[str, tuple[float, ...]], ...]

    def spec(self, whole: Spec) -> Spec:
        """Return the spec of the region of an array."""
        return self.kernel.infer(whole, **dict(self.bounds))

    def windows(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return start and length of the region per axis; it may leave the array."""
        windows = [(0, extent) for extent in shape]
        bounds = {name: np.array([values]) for name, values in self.bounds}  # the kernel takes a batch, here of one row
        for number, axis in enumerate(self.kernel.axes):
            first, length = self.kernel.window(np, number, np.array([shape[axis]]), bounds)
            windows[axis] = int(first[0]), int(length[0])
        return windows

    def fill(self, dtype: np.dtype[Any]) -> Array:
        """Return the value outside of the array, as an array without axes."""
        return cast_saturating(np, np.asarray(self.kernel.fill[0], np.float32), dtype)
