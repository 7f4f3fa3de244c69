"""Coordinate maps: the coordinates of an image at which the pixels of a result are sampled.

The corner of the first pixel is (0, 0), its center (0.5, 0.5).
"""
# pyright: basic
# JAX is typed in part only

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.native.compiled import Compiled
from penstock.numerics.ordered_sums import no_fma
from penstock.numerics.random_bits import threefry_scalar

# Codes of the maps for the compiled loop, which cannot call methods.
AFFINE, PROJECTIVE, WAVES, BALL, STEPS, MAPS = range(6)

# Coordinates of an affine map are accumulated from the pixel to the left, as DALI does, in runs of this length; each
# run starts from the first coordinate of the one before.
RUN_LENGTH = 256

# Bits per half of a random word: float32 holds integers of 16 bits exactly, but not of 32.
WORD = 16


class CoordinateMap(ABC):
    """A coordinate map. Subclasses are frozen dataclasses, equal if they compute the same.

    Numbers that differ between rows are passed separately, as float32 (rows, n).
    """

    # Code of the map in the compiled loop.
    code: ClassVar[int]

    def table(self, height: int, width: int) -> NDArray[np.float32]:
        """Return a table for the compiled loop that depends only on the map, for results of at most this size."""
        del height, width
        return np.empty(0, np.float32)

    @abstractmethod
    def trace(self, numbers: Any, image_sizes: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Compute the coordinates while JAX traces the device program.

        Args:
            numbers: Numbers of each row.
            image_sizes: Heights and widths of the images, each (rows or 1, 1, 1).
            height: Height of the result.
            width: Width of the result.

        Returns:
            x and y, float32, broadcastable to (rows, height, width).
        """


@dataclass(frozen=True)
class Affine(CoordinateMap):
    """Affine map of the pixel centers. The numbers are two rows of three.

    Each coordinate is computed from the one to its left, as in DALI: if a coordinate is on the edge between two pixels,
    rounding decides.
    """

    code = AFFINE

    def trace(self, numbers: Any, image_sizes: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Scan over the columns."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        m = [numbers[:, k, None, None] for k in range(6)]
        y = (jnp.arange(height, dtype=np.float32) + np.float32(0.5))[None, :, None]
        rules = m[:3], m[3:6]
        first = [(by_x * np.float32(0.5) + offset) + no_fma(jnp, by_y * y) for by_x, by_y, offset in rules]
        at_x, at_y = accumulate_runs(first, (m[0], m[3]), width)
        return at_x, at_y


def accumulate_runs(first: Sequence[Any], steps: Sequence[Any], width: int) -> list[Any]:
    """Accumulate coordinates along rows of pixels in the device program, in the runs of the compiled loops.

    Args:
        first: For each coordinate, those of the first pixels of all rows, with a last axis of one element.
        steps: For each coordinate, its increase from one pixel to the next, broadcastable to `first`.
        width: Number of pixels in a row.

    Returns:
        The coordinates, with a last axis of `width` elements.
    """
    import jax  # noqa: PLC0415  # for the device program alone
    import jax.numpy as jnp  # noqa: PLC0415  # likewise

    runs: list[Any] = []
    for start, step in zip(first, steps, strict=True):
        starts = [start]
        for _ in range(RUN_LENGTH, width, RUN_LENGTH):
            starts.append(starts[-1] + step * np.float32(RUN_LENGTH))
        runs.append(jnp.concatenate(starts, axis=-1))

    def right(at: Any, _: Any) -> Any:
        return [value + step for value, step in zip(at, steps, strict=True)], at

    _, places = jax.lax.scan(right, runs, None, length=min(width, RUN_LENGTH))
    return [jnp.moveaxis(run, 0, -1).reshape(*run.shape[1:-1], -1)[..., :width] for run in places]


@dataclass(frozen=True)
class Projective(CoordinateMap):
    """Projective map of the pixel centers. The numbers are three rows of three."""

    code = PROJECTIVE

    def trace(self, numbers: Any, image_sizes: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Divide by the third homogeneous coordinate."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        m = [numbers[:, k, None] for k in range(9)]
        y = (jnp.arange(height, dtype=np.float32) + np.float32(0.5))[None, :]
        x = (jnp.arange(width, dtype=np.float32) + np.float32(0.5))[None, None, :]
        # A fused multiply-add would round differently from the host.
        at_x, at_y, w = (
            no_fma(jnp, a[..., None] * x) + (no_fma(jnp, b * y) + c)[..., None] for a, b, c in (m[:3], m[3:6], m[6:])
        )
        return at_x / w, at_y / w


@dataclass(frozen=True)
class RemapCoordinates(CoordinateMap):
    """Coordinates from two maps. A row's numbers are x of each pixel of the result, row by row, then y.

    Args:
        shift: Value to add to the coordinates.
    """

    code = MAPS
    shift: float

    def table(self, height: int, width: int) -> NDArray[np.float32]:
        """Return the shift."""
        return np.array([self.shift], np.float32)

    def trace(self, numbers: Any, image_sizes: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Reshape the numbers."""
        maps = numbers.reshape(-1, 2, height, width) + np.float32(self.shift)
        return maps[:, 0], maps[:, 1]


@Compiled
def displaced_coordinates(
    code: int, numbers: Array, table: Array, row: int, size_in: Array, width: int, at_x: Array, at_y: Array
) -> None:
    """Compute `sample_coordinates` for the maps whose first number enables the displacement."""
    half = np.float32(0.5)
    y = np.float32(row) + half
    if numbers[0] == 0:
        for column in range(width):
            at_x[column], at_y[column] = np.float32(column) + half, y
    elif code == WAVES:
        columns = table.shape[0] // 2
        for column in range(width):
            at_x[column] = np.float32(column) + table[row]
            at_y[column] = np.float32(row) + table[columns + column]
    elif code == BALL:
        middle_y, middle_x = np.float32(size_in[0]) * half, np.float32(size_in[1]) * half
        radius, off_y = np.float32(max(size_in[0], size_in[1]) // 2), y - middle_y
        for column in range(width):
            off_x = np.float32(column) + half - middle_x
            scale = np.sqrt(off_x * off_x + off_y * off_y) / radius
            at_x[column], at_y[column] = scale * off_x + middle_x, scale * off_y + middle_y
    else:
        degree, word = np.uint64(table[0]), np.uint64(WORD)
        # Numbers are float32, so each 32-bit word of the key arrives as two halves.
        key = np.uint64(numbers[1]) << word | np.uint64(numbers[2])
        second_key = np.uint64(numbers[3]) << word | np.uint64(numbers[4])
        for column in range(width):
            in_x, in_y = threefry_scalar(key, second_key, np.uint64(row), np.uint64(column))
            x = column + int((in_x >> word) * degree >> word) - int(degree) // 2
            y_moved = row + int((in_y >> word) * degree >> word) - int(degree) // 2
            at_x[column] = np.float32(min(max(x, 0), size_in[1]))
            at_y[column] = np.float32(min(max(y_moved, 0), size_in[0]))


@Compiled
def sample_coordinates(
    code: int,
    numbers: Array,
    table: Array,
    row: int,
    size_in: Array,
    size_out: Array,
    at_x: Array,
    at_y: Array,
) -> None:
    """Compute the coordinates of one row of a result.

    Args:
        code: Code of the map.
        numbers: float32, numbers of the image.
        table: float32, from `CoordinateMap.table`.
        row: Index of the row.
        size_in: Height and width of the image.
        size_out: Height and width of the result.
        at_x: float32, receives x of each pixel.
        at_y: float32, receives y of each pixel.
    """
    half, width = np.float32(0.5), size_out[1]
    y = np.float32(row) + half
    if code == AFFINE:
        step = np.float32(RUN_LENGTH)
        from_x = (numbers[0] * half + numbers[2]) + numbers[1] * y
        from_y = (numbers[3] * half + numbers[5]) + numbers[4] * y
        # Accumulation within runs repeats DALI's rounding; the run starts limit its error in wide images.
        for start in range(0, width, RUN_LENGTH):
            x, y = from_x, from_y
            from_x, from_y = from_x + numbers[0] * step, from_y + numbers[3] * step
            for column in range(start, min(start + RUN_LENGTH, width)):
                at_x[column], at_y[column] = x, y
                x, y = x + numbers[0], y + numbers[3]
    elif code == PROJECTIVE:
        from_x, from_y = numbers[1] * y + numbers[2], numbers[4] * y + numbers[5]
        from_w = numbers[7] * y + numbers[8]
        for column in range(width):
            x = np.float32(column) + half
            w = numbers[6] * x + from_w
            at_x[column], at_y[column] = (numbers[0] * x + from_x) / w, (numbers[3] * x + from_y) / w
    elif code == MAPS:
        first, pixels = row * width, size_out[0] * width
        for column in range(width):
            at_x[column] = numbers[first + column] + table[0]
            at_y[column] = numbers[pixels + first + column] + table[0]
    else:
        displaced_coordinates(code, numbers, table, row, size_in, width, at_x, at_y)
