"""Places: where in an image the pixels of a result are looked up.

The corner of an image's first pixel has the coordinates (0, 0), its centre (0.5, 0.5).
"""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.native.compiled import Compiled
from penstock.numerics.ordered_sums import no_fma
from penstock.numerics.random_bits import threefry_scalar

AFFINE, PROJECTIVE, WAVES, BALL, STEPS, MAPS = range(6)

AT_ONCE = 256
"""So many places of a row are computed each from the one to its left, as DALI does; the next one from their first."""

WORD = 16
"""Random words come in halves of this many bits, which float32 holds."""


class CoordinateMap(ABC):
    """A rule for places. Subclasses are frozen dataclasses, equal where they do the same.

    What differs from row to row are its numbers, float32 (rows, n).
    """

    code: ClassVar[int]
    """By which the compiled loop knows the rule."""

    def table(self, height: int, width: int) -> NDArray[np.float32]:
        """What the compiled loop reads beside the numbers, for results of at most this size."""
        del height, width
        return np.empty(0, np.float32)

    @abstractmethod
    def trace(self, numbers: Any, given: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """The places in the device program, while JAX traces it.

        Args:
            numbers: those of each row.
            given: heights and widths of the images, each (rows or 1, 1, 1).
            height: of the result.
            width: of the result.

        Returns:
            x and y, float32, broadcasting to (rows, height, width).
        """


@dataclass(frozen=True)
class Affine(CoordinateMap):
    """Where an affine map takes the centre of the pixel. Its numbers are two rows of three.

    Each place is computed from the one to its left, as DALI does: where a place falls on the edge between two pixels,
    rounding chooses one.
    """

    code = AFFINE

    def trace(self, numbers: Any, given: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Column by column."""
        import jax  # noqa: PLC0415  # for the device program alone
        import jax.numpy as jnp  # noqa: PLC0415  # likewise

        m = [numbers[:, k, None, None] for k in range(6)]
        y = (jnp.arange(height, dtype=np.float32) + np.float32(0.5))[None, :, None]
        rules, steps = (m[:3], m[3:6]), (m[0], m[3])
        first = [(by_x * np.float32(0.5) + offset) + no_fma(jnp, by_y * y) for by_x, by_y, offset in rules]
        starts = [each_so_far(at, step, width) for at, step in zip(first, steps, strict=True)]

        def right(at: Any, _: Any) -> Any:
            return [each + step for each, step in zip(at, steps, strict=True)], at

        _, places = jax.lax.scan(right, starts, None, length=min(width, AT_ONCE))
        at_x, at_y = (jnp.moveaxis(each, 0, 3).reshape(-1, height, each[:, 0, 0].size)[..., :width] for each in places)
        return at_x, at_y


def each_so_far(first: Any, step: Any, width: int) -> Any:
    """The places of a row that start anew, along a new last axis, in the device program."""
    import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

    starts = [first]
    for _ in range(AT_ONCE, width, AT_ONCE):
        starts.append(starts[-1] + step * np.float32(AT_ONCE))
    return jnp.concatenate(starts, axis=-1)


@dataclass(frozen=True)
class Projective(CoordinateMap):
    """Where a projective map takes the centre of the pixel. Its numbers are three rows of three."""

    code = PROJECTIVE

    def trace(self, numbers: Any, given: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Divided by what the third row gives."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        m = [numbers[:, k, None] for k in range(9)]
        y = (jnp.arange(height, dtype=np.float32) + np.float32(0.5))[None, :]
        x = (jnp.arange(width, dtype=np.float32) + np.float32(0.5))[None, None, :]
        at_x, at_y, w = (
            no_fma(jnp, a[..., None] * x) + (no_fma(jnp, b * y) + c)[..., None] for a, b, c in (m[:3], m[3:6], m[6:])
        )
        return at_x / w, at_y / w


@dataclass(frozen=True)
class RemapCoordinates(CoordinateMap):
    """Where two maps say: numbers of a row are x of each pixel of the result, row by row, then y.

    Args:
        shift: what is added to them.
    """

    code = MAPS
    shift: float

    def table(self, height: int, width: int) -> NDArray[np.float32]:
        """What is added."""
        return np.array([self.shift], np.float32)

    def trace(self, numbers: Any, given: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Reshaped."""
        maps = numbers.reshape(-1, 2, height, width) + np.float32(self.shift)
        return maps[:, 0], maps[:, 1]


@Compiled
def displaced_coordinates(
    code: int, numbers: Array, table: Array, row: int, size_in: Array, width: int, at_x: Array, at_y: Array
) -> None:
    """`places` for the rules whose first number says whether pixels move."""
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
            part = np.sqrt(off_x * off_x + off_y * off_y) / radius
            at_x[column], at_y[column] = part * off_x + middle_x, part * off_y + middle_y
    else:
        degree, word = np.uint64(table[0]), np.uint64(WORD)
        key = np.uint64(numbers[1]) << word | np.uint64(numbers[2])
        other = np.uint64(numbers[3]) << word | np.uint64(numbers[4])
        for column in range(width):
            in_x, in_y = threefry_scalar(key, other, np.uint64(row), np.uint64(column))
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
    """The places of one row of a result.

    Args:
        code: the rule.
        numbers: float32, those of the image.
        table: float32, as `CoordinateMap.table` gives it.
        row: which one.
        size_in: height and width of the image.
        size_out: of the result.
        at_x: float32, receives x of each pixel.
        at_y: y of each pixel.
    """
    half, width = np.float32(0.5), size_out[1]
    y = np.float32(row) + half
    if code == AFFINE:
        step = np.float32(AT_ONCE)
        from_x = (numbers[0] * half + numbers[2]) + numbers[1] * y
        from_y = (numbers[3] * half + numbers[5]) + numbers[4] * y
        for start in range(0, width, AT_ONCE):
            x, y = from_x, from_y
            from_x, from_y = from_x + numbers[0] * step, from_y + numbers[3] * step
            for column in range(start, min(start + AT_ONCE, width)):
                at_x[column], at_y[column] = x, y
                x, y = x + numbers[0], y + numbers[3]
    elif code == PROJECTIVE:
        from_x, from_y, from_w = (
            numbers[1] * y + numbers[2],
            numbers[4] * y + numbers[5],
            numbers[7] * y + numbers[8],
        )
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
