"""Samples of other libraries: Hugging Face, Pillow, PyArrow and PyTorch, and paths of files."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from os import PathLike, fspath
from typing import Any, cast

import numpy as np

from penstock.core import Array
from penstock.errors import ArgumentTypeError, SourceError, SourceNotFoundError, short_repr
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.byte_range_cache import ahead
from penstock.types import BFLOAT16

# Keys of an undecoded image, sound or video of Hugging Face's `datasets`.
_FILE_KEYS = {"bytes", "path"}

# Modes of Pillow whose arrays hold what the channels mean. Masks of one bit are converted to "L".
_IMAGE_MODES = {"L", "LA", "RGB", "RGBA", "I", "F", "I;16", "I;16L", "I;16B", "I;16N"}


def is_encoded_file(value: Any) -> bool:
    """Return True for an undecoded item of Hugging Face's `datasets`: a dictionary of bytes and path."""
    return isinstance(value, Mapping) and set(cast(Mapping[Any, Any], value)) == _FILE_KEYS


def is_image(value: Any) -> bool:
    """Return True for an image of Pillow."""
    # A program that has images has imported the library; Penstock need not.
    return isinstance(value, getattr(sys.modules.get("PIL.Image"), "Image", ()))


def is_tensor(value: Any) -> bool:
    """Return True for a tensor of PyTorch."""
    return isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ()))


def is_single_sample(value: Any) -> bool:
    """Return True for values that are one sample and never a batch: files, paths and images."""
    return isinstance(value, PathLike) or is_encoded_file(value) or is_image(value)


def is_table(value: Any) -> bool:
    """Return True for a data frame of pandas or Polars, or a table of PyArrow."""
    return hasattr(value, "columns") and (hasattr(value, "iloc") or hasattr(value, "__dataframe__"))


def is_arrow_scalar(value: Any) -> bool:
    """Return True for a value of an array or a column of PyArrow."""
    return isinstance(value, getattr(sys.modules.get("pyarrow"), "Scalar", ()))


def arrow_value(scalar: Any) -> Any:
    """Return a value of PyArrow as an array with the dtype of its column; as a Python object if it has no numbers."""
    if hasattr(scalar, "dictionary"):
        scalar = scalar.value
    if not scalar.is_valid:
        return None
    if hasattr(scalar, "as_buffer"):  # bytes or text
        return np.frombuffer(scalar.as_buffer(), np.uint8)
    dtype, rank = _arrow_numbers(scalar.type)
    if dtype is not None:
        if rank == 1 and not scalar.values.null_count:
            return scalar.values.to_numpy(zero_copy_only=False)
        # Nested lists of several lengths, or with missing values, stay lists, which are refused.
        with suppress(TypeError, ValueError):
            array = np.array(scalar.as_py(), dtype)
            return array.reshape(array.shape + (0,) * (rank - array.ndim))
    return scalar.as_py()


@cache
def _arrow_numbers(kind: Any) -> tuple[Any, int]:
    """Return the dtype of a number, or of the numbers in nested lists, and the depth of nesting; None for others."""
    types, rank = sys.modules["pyarrow"].types, 0
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind, rank = kind.value_type, rank + 1
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return kind.to_pandas_dtype() if is_number else None, rank


def library_sample(value: Any) -> Array | None:
    """Convert a sample of another library to an array; return None for other values.

    Raises:
        ArgumentTypeError: It is a dictionary without bytes and path, an image whose numbers are not its colors, or a
            tensor that has no array.
        SourceError: A file cannot be read.
    """
    if is_tensor(value):
        return _tensor_array(value)
    if is_image(value):
        return _image_array(value)
    if isinstance(value, PathLike):
        return _read(cast(PathLike[str], value))
    if is_encoded_file(value):
        if value["bytes"] is not None:
            return np.frombuffer(value["bytes"], np.uint8)
        if value["path"] is None:
            raise ArgumentTypeError("an undecoded item needs bytes or a path", given=short_repr(value))
        return _read(value["path"])
    return None


def _read(file: str | PathLike[str]) -> Array:
    path = fspath(file)
    (content,) = ahead.read([ByteRange(path, 0, None, "", limited=True)])
    if isinstance(content, FileNotFoundError):
        raise SourceNotFoundError(f"the file {path!r} does not exist") from content
    if isinstance(content, OSError):
        raise SourceError(f"the file {path!r} cannot be read: {content}") from content
    return content


def _image_array(image: Any) -> Array:
    """Convert an image of Pillow to an array with the axes height, width and channels."""
    if image.mode in ("P", "PA"):
        raise ArgumentTypeError(
            "a palette image holds indices of colors, not colors",
            given=short_repr(image),
            fix='image.convert("RGB") for its colors, np.asarray(image) for the indices, such as the classes of a mask',
        )
    if image.mode != "1" and image.mode not in _IMAGE_MODES:
        raise ArgumentTypeError(
            f"images of mode {image.mode} are not supported",
            given=short_repr(image),
            expected="grayscale, RGB or RGBA",
            fix='image.convert("RGB")',
        )
    array = np.asarray(image.convert("L") if image.mode == "1" else image)
    return array[:, :, None] if array.ndim == 2 else array


def _tensor_array(tensor: Any) -> Array:
    """Convert a tensor of PyTorch: without a copy if it is on the CPU, and without its gradient."""
    torch: Any = sys.modules["torch"]
    try:
        if tensor.dtype == torch.bfloat16:  # NumPy does not have this type
            return tensor.detach().cpu().view(torch.int16).numpy().view(BFLOAT16.numpy)
        return tensor.numpy(force=True)
    except (TypeError, RuntimeError) as error:
        raise ArgumentTypeError(
            f"the tensor cannot be converted: {error}",
            given=f"a tensor of {tensor.dtype}, {tensor.layout}",
            fix="tensor.to_dense(), tensor.dequantize()",
        ) from error
