"""Places that are displaced: pixels in waves, on a ball, or a random step away."""
# pyright: basic
# JAX is typed in part only

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.image.passes.sampling_coordinates import BALL, STEPS, WAVES, WORD, CoordinateMap
from penstock.numerics.random_bits import threefry


@dataclass(frozen=True)
class WaterCoordinates(CoordinateMap):
    """Columns move by a sine of the row, and rows by a cosine of the column. Its number says whether they do.

    Args:
        amplitude: of the columns and of the rows, in pixels.
        frequency: in radians per pixel.
        phase: in radians.
    """

    code = WAVES
    amplitude: tuple[float, float]
    frequency: tuple[float, float]
    phase: tuple[float, float]

    def table(self, height: int, width: int) -> NDArray[np.float32]:
        """By how much each row's pixels move in x, then each column's in y; as many of both."""
        frequency, phase = np.array([self.frequency, self.phase], np.float32)
        steps = np.arange(max(height, width), dtype=np.float32)
        angles = (steps * frequency[k] + phase[k] for k in range(2))
        in_x, in_y = (turn(angle.astype(np.float64)) for turn, angle in zip((np.sin, np.cos), angles, strict=True))
        in_x, in_y = self.amplitude[0] * in_x.astype(np.float32), self.amplitude[1] * in_y.astype(np.float32)
        return np.concatenate([in_x, in_y], dtype=np.float32)

    def trace(self, numbers: Any, given: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """From the same table as on the host."""
        table, (y, x) = self.table(height, width), _corners(height, width)
        columns = len(table) // 2
        moved = x + table[None, :height, None], y + table[None, None, columns : columns + width]
        return _where_wanted(numbers, (y, x), moved)


@dataclass(frozen=True)
class SphereCoordinates(CoordinateMap):
    """As far from the image's centre as the square of the pixel's distance. Its number says whether pixels move."""

    code = BALL

    def trace(self, numbers: Any, given: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """In parts of half the longer side, cut off to whole pixels."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        half, (y, x) = np.float32(0.5), _corners(height, width)
        middle_y, middle_x = (each.astype(np.float32) * half for each in given)
        radius = jnp.floor(jnp.maximum(middle_y, middle_x))
        off_y, off_x = y + half - middle_y, x + half - middle_x
        part = jnp.sqrt(off_x * off_x + off_y * off_y) / radius
        return _where_wanted(numbers, (y, x), (part * off_x + middle_x, part * off_y + middle_y))


@dataclass(frozen=True)
class JitterCoordinates(CoordinateMap):
    """A random number of whole pixels away along each axis.

    Before the first pixel is the first pixel; beyond the last one is outside. Its numbers say whether pixels move, and
    have the random words of which each pixel's steps are made, in halves.

    Args:
        degree: how many different steps there are; as many lead back as forth, or one more.
    """

    code = STEPS
    degree: int

    def table(self, height: int, width: int) -> NDArray[np.float32]:
        """The number of steps."""
        return np.array([self.degree], np.float32)

    def trace(self, numbers: Any, given: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Each pixel's words are drawn with its row and column."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        y, x = _corners(height, width)
        halves = jnp.asarray(numbers).astype(np.uint32)[:, 1:, None, None]
        key = halves[:, 0] << np.uint32(WORD) | halves[:, 1], halves[:, 2] << np.uint32(WORD) | halves[:, 3]
        words = threefry(key, (y.astype(np.uint32), x.astype(np.uint32)))
        moved: list[Any] = []
        for word, at, size in zip(words, (x, y), given[::-1], strict=True):
            step = (word >> np.uint32(WORD)) * np.uint32(self.degree) >> np.uint32(WORD)
            off = step.astype(np.float32) - np.float32(self.degree // 2)
            moved.append(jnp.clip(at + off, np.float32(0), size.astype(np.float32)))
        return _where_wanted(numbers, (y, x), (moved[0], moved[1]))


def _corners(height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Rows and columns: y and x of the pixels' first corners."""
    return np.arange(height, dtype=np.float32)[None, :, None], np.arange(width, dtype=np.float32)[None, None, :]


def _where_wanted(numbers: Any, corners: tuple[Any, Any], moved: tuple[Any, Any]) -> tuple[Any, Any]:
    """Places that were moved in rows whose first number is not 0; elsewhere the pixels' own, x and y."""
    import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

    wanted = jnp.asarray(numbers)[:, 0, None, None] != 0
    half, (y, x) = np.float32(0.5), corners
    return jnp.where(wanted, moved[0], x + half), jnp.where(wanted, moved[1], y + half)
