"""Checks of sources, and a source of arrays for tests."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from penstock.core import Array, Column, Indices, Shape, Spec
from penstock.errors import SampleError
from penstock.sources.source import Source


class ListSource(Source):
    """Source of samples that may differ in shape: a list of arrays per value.

    Args:
        columns: For each value, an array per sample.
        layouts: For each value, the layout of a sample; no layouts by default.
        shapes: For each value, the shape of its spec, None for open extents; all extents are open by default.
    """

    def __init__(
        self, columns: Sequence[Sequence[Array]], layouts: Sequence[str] = (), shapes: Sequence[Shape] = ()
    ) -> None:
        self._columns = [[_read_only(sample) for sample in column] for column in columns]
        names = tuple(layouts) or ("",) * len(columns)
        known = tuple(shapes) or tuple((None,) * column[0].ndim for column in self._columns)
        self.specs = tuple(
            Spec(column[0].dtype, shape, layout)
            for column, shape, layout in zip(self._columns, known, names, strict=True)
        )

    def __len__(self) -> int:
        return len(self._columns[0])

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Read samples."""
        return tuple(
            np.asarray([column[i] for i in indices.tolist()]) if spec.dense else [column[i] for i in indices.tolist()]
            for column, spec in zip(self._columns, self.specs, strict=True)
        )

    def describe(self, index: int) -> str:
        """Return the number of a sample."""
        return f"sample {index} of a list"

    def fingerprint(self) -> str:
        """Return a text with the number of samples."""
        return f"list:{len(self)}"


def _read_only(sample: Any) -> Array:
    array = np.array(sample)
    # A test must not change the samples by way of a batch.
    array.flags.writeable = False
    return array


def check_source(source: Source) -> None:
    """Check the contract of a source.

    It has samples. They match the specs, and are the same alone, in a batch, in any order, read again, into `out`, from
    several threads, and in `in_memory`. Every sample has a description. The fingerprint is short and constant.

    Raises:
        AssertionError: the source violates the contract.

    Example:
        >>> check_source(ListSource([[np.zeros((2, 3)), np.ones((4, 3))]]))
    """
    count = len(source)
    assert count >= 1, "a source has samples"
    # Enough samples to show a wrong order; the source may have millions.
    everything = np.arange(min(count, 16), dtype=np.int64)
    none: list[Array | None] = [None] * len(source.specs)
    columns = source.read(everything, none)
    _check_columns(source, columns, len(everything))
    for index in everything.tolist():
        assert _same(
            [column[index : index + 1] for column in columns], source.read(everything[index : index + 1], none)
        )
        assert isinstance(source.describe(index), str)
    backwards = source.read(everything[::-1].copy(), none)
    assert _same([column[::-1] for column in columns], backwards), "the order of the indices is kept"
    repeated = source.read(np.zeros(3, np.int64), none)
    assert _same([[column[0]] * 3 for column in columns], repeated), "an index may come more than once"
    out = [np.zeros((len(everything), *s.fixed_shape), s.dtype) if s.dense else None for s in source.specs]
    assert _same(columns, source.read(everything, out)), "it may be told where to write"
    if source.in_memory:
        assert len(source.in_memory) == len(source.specs), "all of its values are in memory, or none"
        assert _same(columns, [array[everything] for array in source.in_memory]), "what is in memory is what is read"
    # Worker threads share a source.
    with ThreadPoolExecutor(4) as pool:
        assert all(_same(columns, result) for result in pool.map(lambda _: source.read(everything, none), range(16)))
    assert source.fingerprint() == source.fingerprint()
    assert len(source.fingerprint()) <= 200, "a state is at most 1 KB"


def check_bad_samples(source: Source, bad: Sequence[int]) -> None:
    """Check the errors of a source for samples that cannot be read, and that it still reads the others.

    An error names the sample, its description, and its file. `read_tolerant` returns an error for each bad row, and the
    samples of all other rows.

    Args:
        source: Some of its first 16 samples cannot be read.
        bad: The indices of these samples.

    Raises:
        AssertionError: the source violates the contract.

    Example:
        >>> from penstock.sources.files.file_lists import files_from_paths
        >>> check_bad_samples(files_from_paths("", (__file__, "/none.jpg"), None), [1])
    """
    everything = np.arange(min(len(source), 16), dtype=np.int64)
    none: list[Array | None] = [None] * len(source.specs)
    # In the order of the indices, in another order, and repeated, as FILL repeats samples.
    for rows in (everything, everything[::-1].copy(), np.repeat(everything, 2)):
        columns, errors = source.read_tolerant(rows, none)
        assert [row for row, index in enumerate(rows.tolist()) if index in bad] == sorted(errors)
        for row, index in enumerate(rows.tolist()):
            if index in bad:
                _check_error(source, errors[row], index)
            else:
                assert _same([column[row : row + 1] for column in columns], source.read(rows[row : row + 1], none))
        raised = _raised(source, rows)
        assert raised is not None, "a sample that cannot be read is an error"
        assert raised.index is not None, "an error has the number of its sample"
        assert raised.index in bad, f"{raised} names another sample"
        _check_error(source, raised, raised.index)


def _raised(source: Source, rows: Indices) -> SampleError | None:
    try:
        source.read(rows, [None] * len(source.specs))
    except SampleError as error:
        return error
    return None


def _check_error(source: Source, error: SampleError, index: int) -> None:
    assert error.index == index, f"{error} is of sample {index}"
    assert f"sample {index} " in str(error)
    assert error.source == source.describe(index)
    assert error.path, "the file is named"
    assert error.path in str(error.source) or error.path == source.path(index)


def _check_columns(source: Source, columns: Sequence[Column], rows: int) -> None:
    assert len(columns) == len(source.specs)
    for column, spec in zip(columns, source.specs, strict=True):
        assert len(column) == rows
        assert isinstance(column, np.ndarray) == spec.dense, (
            f"a column of {spec} is {'an array' if spec.dense else 'a list'}"
        )
        for sample in column:
            assert spec.accepts(np.asarray(sample)), f"{sample.dtype}{sample.shape} is not {spec}"


def _same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    pairs = ((a, b) for one, other in zip(left, right, strict=True) for a, b in zip(one, other, strict=True))
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
