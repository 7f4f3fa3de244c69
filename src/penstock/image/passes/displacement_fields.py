"""Displacement maps: water, sphere and jitter."""
# pyright: basic
# JAX is typed in part only

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.image.passes.sampling_coordinates import BALL, STEPS, WAVES, WORD, CoordinateMap
from penstock.numerics.random_bits import threefry


@dataclass(frozen=True)
class WaterCoordinates(CoordinateMap):
    """Shift of columns by a sine of the row, and of rows by a cosine of the column. One number enables it.

    Args:
        amplitude: For x and y, in pixels.
        frequency: For x and y, in radians per pixel.
        phase: For x and y, in radians.
    """

    code = WAVES
    amplitude: tuple[float, float]
    frequency: tuple[float, float]
    phase: tuple[float, float]

    def table(self, height: int, width: int) -> NDArray[np.float32]:
        """Return the x offset of each row, then the y offset of each column, both of the same length."""
        frequency, phase = np.array([self.frequency, self.phase], np.float32)
        steps = np.arange(max(height, width), dtype=np.float32)
        angles = (steps * frequency[k] + phase[k] for k in range(2))
        # Sine and cosine of float32 depend on the CPU; those of float64, rounded, do not.
        in_x, in_y = (wave(angle.astype(np.float64)) for wave, angle in zip((np.sin, np.cos), angles, strict=True))
        in_x, in_y = self.amplitude[0] * in_x.astype(np.float32), self.amplitude[1] * in_y.astype(np.float32)
        return np.concatenate([in_x, in_y], dtype=np.float32)

    def trace(self, numbers: Any, image_sizes: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Read the table of the host."""
        table, (y, x) = self.table(height, width), _corners(height, width)
        columns = len(table) // 2
        moved = x + table[None, :height, None], y + table[None, None, columns : columns + width]
        return _select_displaced(numbers, (y, x), moved)


@dataclass(frozen=True)
class SphereCoordinates(CoordinateMap):
    """Sphere effect: the distance from the image's center becomes its square. One number enables it."""

    code = BALL

    def trace(self, numbers: Any, image_sizes: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Scale offsets by the distance, in units of half the longer side (rounded down, as in the compiled loop)."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        half, (y, x) = np.float32(0.5), _corners(height, width)
        middle_y, middle_x = (size.astype(np.float32) * half for size in image_sizes)
        radius = jnp.floor(jnp.maximum(middle_y, middle_x))
        off_y, off_x = y + half - middle_y, x + half - middle_x
        scale = jnp.sqrt(off_x * off_x + off_y * off_y) / radius
        return _select_displaced(numbers, (y, x), (scale * off_x + middle_x, scale * off_y + middle_y))


@dataclass(frozen=True)
class JitterCoordinates(CoordinateMap):
    """Random displacement by whole pixels along each axis.

    Coordinates before the first pixel are clipped; coordinates past the last one are outside. The numbers are a flag
    that enables the displacement, and the halves of the random key.

    Args:
        degree: Number of different steps, centered around 0 (one more to the left if even).
    """

    code = STEPS
    degree: int

    def table(self, height: int, width: int) -> NDArray[np.float32]:
        """Return the number of steps."""
        return np.array([self.degree], np.float32)

    def trace(self, numbers: Any, image_sizes: tuple[Any, Any], height: int, width: int) -> tuple[Any, Any]:
        """Draw two random words per pixel, a function of its row and column."""
        import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

        y, x = _corners(height, width)
        halves = jnp.asarray(numbers).astype(np.uint32)[:, 1:, None, None]
        key = halves[:, 0] << np.uint32(WORD) | halves[:, 1], halves[:, 2] << np.uint32(WORD) | halves[:, 3]
        words = threefry(key, (y.astype(np.uint32), x.astype(np.uint32)))
        moved: list[Any] = []
        for word, at, size in zip(words, (x, y), image_sizes[::-1], strict=True):
            # The upper half of the word times the number of steps: the product fits 32 bits, which JAX has without x64
            # mode.
            step = (word >> np.uint32(WORD)) * np.uint32(self.degree) >> np.uint32(WORD)
            off = step.astype(np.float32) - np.float32(self.degree // 2)
            moved.append(jnp.clip(at + off, np.float32(0), size.astype(np.float32)))
        return _select_displaced(numbers, (y, x), (moved[0], moved[1]))


def _corners(height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the y and x coordinates of the pixels' top left corners."""
    return np.arange(height, dtype=np.float32)[None, :, None], np.arange(width, dtype=np.float32)[None, None, :]


def _select_displaced(numbers: Any, corners: tuple[Any, Any], moved: tuple[Any, Any]) -> tuple[Any, Any]:
    """Select the displaced coordinates in rows that enable them, and the pixel centers in others."""
    import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

    enabled = jnp.asarray(numbers)[:, 0, None, None] != 0
    half, (y, x) = np.float32(0.5), corners
    return jnp.where(enabled, moved[0], x + half), jnp.where(enabled, moved[1], y + half)
