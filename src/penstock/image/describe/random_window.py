"""Windows of random area and aspect ratio, as every training on ImageNet cuts them.

The rules are DALI's, close to torchvision's: area and the logarithm of the aspect ratio (width to height) are drawn
uniformly until a window fits into the image and still has an allowed ratio after rounding; when no attempt does, the
window is as large as ratio and area allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypedDict

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import Default, Doc, Range
from penstock.image.describe.axis_mapping import Rows
from penstock.native.compiled import Compiled, precompile


class RandomWindowArguments(TypedDict, total=False):
    """Distribution of random windows."""

    random_area: Annotated[
        Sequence[float],
        Default((0.08, 1.0)),
        Doc("Range of the window's area, as a fraction of the image's; one number fixes it."),
    ]
    random_aspect_ratio: Annotated[
        Sequence[float],
        Default((0.75, 4 / 3)),
        Doc("Range of width / height; one number fixes it."),
    ]
    num_attempts: Annotated[
        int,
        Range(high=10_000),
        Default(10),
        Doc("Draws per sample; if none fits, the largest window in range is used. With 0 or less, it always is."),
    ]


@dataclass(frozen=True)
class RandomWindow:
    """The distribution of a window."""

    area: tuple[float, float]
    ratio: tuple[float, float]
    attempts: int

    @property
    def random_bits(self) -> int:
        """Random bits per window, in units of 32: two per attempt, two for the place."""
        return 2 * self.attempts + 2

    def __call__(self, heights: Rows, widths: Rows, bits: NDArray[np.uint32]) -> tuple[Rows, Rows, Rows, Rows]:
        """A window in each image.

        Args:
            heights: of the images, integers (rows,).
            widths: of the images.
            bits: random, (rows, `random_bits`).

        Returns:
            First rows, first columns, heights and widths, int64.
        """
        sizes = np.stack([heights, widths], axis=1).astype(np.int64)
        windows = np.empty((len(sizes), 4), np.int64)
        draw_windows(sizes, np.ascontiguousarray(bits), np.array([*self.area, *self.ratio]), windows)
        return windows[:, 0], windows[:, 1], windows[:, 2], windows[:, 3]


@precompile("i8[2] u4[2] f8[1] i8[2]")
@Compiled
def draw_windows(sizes: Array, bits: Array, limits: Array, windows: Array) -> None:
    """Windows from random bits.

    Args:
        sizes: int64 (rows, 2), heights and widths.
        bits: uint32 (rows, 2 * attempts + 2).
        limits: least and largest area, narrowest and widest ratio.
        windows: int64 (rows, 4), receives first rows, first columns, heights and widths.
    """
    least, most, narrow, wide = limits[0], limits[1], limits[2], limits[3]
    low, high = math.log(narrow), math.log(wide)
    attempts = bits.shape[1] // 2 - 1
    for n in range(sizes.shape[0]):
        height, width = sizes[n, 0], sizes[n, 1]
        image = height * width
        widest, highest = int(height * wide), int(width / narrow)
        rows, columns = min(height, highest), min(width, widest)
        if height * widest < least * image:
            rows, columns = height, widest
        elif width * highest < least * image:
            rows, columns = highest, width
        else:
            fits = False
            for attempt in range(attempts):
                area = (least + (most - least) * (bits[n, 2 * attempt] * 2.0**-32)) * image
                ratio = math.exp(low + (high - low) * (bits[n, 2 * attempt + 1] * 2.0**-32))
                wanted_columns = max(1, math.floor(math.sqrt(area * ratio) + 0.5))
                wanted_rows = max(1, math.floor(math.sqrt(area / ratio) + 0.5))
                fits = wanted_columns <= width and wanted_rows <= height
                fits = fits and narrow <= wanted_columns / wanted_rows <= wide
                if fits:
                    rows, columns = wanted_rows, wanted_columns
                    break
            if not fits:
                shrink = math.sqrt(min(1.0, most * image / (rows * columns)))
                rows, columns = max(1, int(rows * shrink)), max(1, int(columns * shrink))
        windows[n, 0] = (np.uint64(bits[n, 2 * attempts]) * np.uint64(height - rows + 1)) >> np.uint64(32)
        windows[n, 1] = (np.uint64(bits[n, 2 * attempts + 1]) * np.uint64(width - columns + 1)) >> np.uint64(32)
        windows[n, 2], windows[n, 3] = rows, columns


def random_window(arguments: RandomWindowArguments, kind: str) -> RandomWindow:
    """The distribution that a user's arguments describe.

    Raises:
        DefinitionError: limits that are none.
    """
    area = _limits(arguments.get("random_area", (0.08, 1.0)))
    ratio = _limits(arguments.get("random_aspect_ratio", (0.75, 4 / 3)))
    attempts = max(int(arguments.get("num_attempts", 10)), 0)
    if len(area) != 2 or not 0 <= area[0] <= area[1] or not area[1]:
        raise DefinitionError(
            f"fn.{kind}: random_area is two parts of the area", given=area, expected="0 <= a <= b, 0 < b"
        )
    if len(ratio) != 2 or not 0 < ratio[0] <= ratio[1]:
        raise DefinitionError(f"fn.{kind}: random_aspect_ratio is two ratios", given=ratio, expected="0 < a <= b")
    return RandomWindow((area[0], area[1]), (ratio[0], ratio[1]), attempts)


def _limits(given: Sequence[float]) -> Sequence[float]:
    """The least and the largest; one number is both."""
    return [float(limit) for limit in given] * (2 if len(given) == 1 else 1)
