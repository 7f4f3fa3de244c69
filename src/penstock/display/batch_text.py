"""Texts of batches and samples, as `print` shows them: values, dtype, layout and shapes, in DALI's form."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_INDENT = "    "

# A batch of more elements is summarized if it has more than `_MANY` samples. NumPy's default for one array.
_ELEMENTS = 1000
_MANY = 6

# Shapes listed in full.
_SHAPES = 16

# Longer lists of shapes have one per line, below each other.
_WIDTH = 80
_NEW_SHAPE = "\n" + " " * len("shape=[")

# Samples and shapes shown at each end of a summary.
_EDGE = 2


def batch_text(name: str, samples: Sequence[Any], layout: str, device: str, dtype: str) -> str:
    """Return the text of a batch.

    Args:
        name: Name of the class.
        samples: Arrays of one dtype and one number of axes, not empty.
        layout: Layout of a sample, or "".
        device: "cpu" or "gpu".
        dtype: Text of the dtype.

    >>> print(batch_text("TensorListCPU", [np.int32([1, 2]), np.int32([3])], "W", "cpu", "DALIDataType.INT32"))
    TensorListCPU(
        [[1 2],
        [3]],
        dtype=DALIDataType.INT32,
        layout="W",
        device="cpu",
        num_samples=2,
        shape=[(2,), (1,)])
    """
    first = np.asarray(samples[0])
    summarized = len(samples) > _MANY and sum(np.size(sample) for sample in samples) > _ELEMENTS
    shown = [*samples[:_EDGE], None, *samples[-_EDGE:]] if summarized else samples
    lines = "\n" * first.ndim
    values = f",{lines or ' '}".join("..." if item is None else _array_text(item) for item in shown)
    shapes = [str(tuple(sample.shape)) for sample in samples]
    if len(shapes) > _SHAPES:
        shapes = [*shapes[:_EDGE], "...", *shapes[-_EDGE:]]
    on_one_line = sum(map(len, shapes)) + 2 * len(shapes) < _WIDTH
    fields = [
        f"[{values}]",
        f"dtype={dtype}",
        *([f'layout="{layout}"'] if layout else []),
        f'device="{device}"',
        f"num_samples={len(samples)}",
        f"shape=[{(', ' if on_one_line else f', {_NEW_SHAPE}').join(shapes)}]",
    ]
    body = ",\n".join(fields).replace("\n", f"\n{_INDENT}")
    # Lines between arrays stay empty.
    return f"{name}(\n{_INDENT}{body})".replace(f"\n{_INDENT}\n", "\n\n").replace(f"\n{_INDENT}\n", "\n\n")


def tensor_text(name: str, array: Any, layout: str, device: str, dtype: str) -> str:
    """Return the text of a sample. The arguments are those of `batch_text`.

    >>> print(tensor_text("Tensor", np.int32([1, 2]), "", "cpu", "i32"))
    Tensor(
        [1 2],
        dtype=i32,
        device="cpu",
        shape=(2,))
    """
    fields = [
        np.array2string(array, prefix=_INDENT, edgeitems=_EDGE),
        f"dtype={dtype}",
        *([f'layout="{layout}"'] if layout else []),
        f'device="{device}"',
        f"shape={array.shape}",
    ]
    return f"{name}(\n{_INDENT}" + f",\n{_INDENT}".join(fields) + ")"


def _array_text(array: Any) -> str:
    return np.array2string(np.asarray(array), edgeitems=_EDGE, max_line_width=75 - len(_INDENT))
