"""Windows of random area and aspect ratio, as in RandomResizedCrop.

The algorithm is DALI's, close to torchvision's: area and the logarithm of the aspect ratio (width to height) are drawn
uniformly until a window fits into the image and has an allowed ratio after rounding. If no attempt succeeds, the window
is as large as ratio and area allow.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from penstock.core import Array
from penstock.errors import DefinitionError
from penstock.graph import Default, Range, with_defaults
from penstock.image.describe.axis_mapping import Rows
from penstock.native.compiled import Compiled, precompile

# Windows that Python draws in the time that compiling the loop takes.
_ENOUGH_WINDOWS = 20_000


class RandomWindowArguments(TypedDict, total=False):
    """Distribution of random windows.

    Args:
        random_area: Range of the window's area, as a fraction of the image's; one number fixes it.
        random_aspect_ratio: Range of width / height; one number fixes it.
        num_attempts: Draws per sample; if none fits, the largest window in range is used. With 0 or less, it always is.
    """

    random_area: Annotated[Sequence[float], Default((0.08, 1.0))]
    random_aspect_ratio: Annotated[Sequence[float], Default((0.75, 4 / 3))]
    num_attempts: Annotated[int, Range(high=10_000), Default(10)]


@dataclass(frozen=True)
class RandomWindow:
    """Distribution of a random window."""

    area: tuple[float, float]
    ratio: tuple[float, float]
    attempts: int

    @property
    def random_bits(self) -> int:
        """Random words of 32 bits per window: two per attempt and two for the position."""
        return 2 * self.attempts + 2

    def __call__(self, heights: Rows, widths: Rows, bits: NDArray[np.uint32]) -> tuple[Rows, Rows, Rows, Rows]:
        """Draw one window per image.

        Args:
            heights: Heights of the images, integers (rows,).
            widths: Widths of the images, integers (rows,).
            bits: Random bits (rows, `random_bits`).

        Returns:
            First rows, first columns, heights and widths, int64.
        """
        sizes = np.stack([heights, widths], axis=1).astype(np.int64)
        windows = np.empty((len(sizes), 4), np.int64)
        draw = draw_windows if draw_windows.pays_off(len(sizes), _ENOUGH_WINDOWS) else draw_windows.python_function
        draw(sizes, np.ascontiguousarray(bits), np.array([*self.area, *self.ratio]), windows)
        return windows[:, 0], windows[:, 1], windows[:, 2], windows[:, 3]

    def draws(self, height: int, width: int, bits: NDArray[np.uint32]) -> dict[str, int]:
        """Return the window of one image by the names of its numbers.

        Args:
            height: Height of the image.
            width: Width of the image.
            bits: Random bits `(random_bits,)`.
        """
        window = self(np.array([height]), np.array([width]), bits[None])
        return {name: int(item[0]) for name, item in zip(("top", "left", "height", "width"), window, strict=True)}


@precompile("i8[2] u4[2] f8[1] i8[2]")
@Compiled
def draw_windows(sizes: Array, bits: Array, limits: Array, windows: Array) -> None:
    """Draw windows from random bits.

    Args:
        sizes: Heights and widths, int64 (rows, 2).
        bits: Random bits, uint32 (rows, 2 * attempts + 2).
        limits: Minimum and maximum area, minimum and maximum ratio.
        windows: Receives first rows, first columns, heights and widths, int64 (rows, 4).
    """
    least, most, narrow, wide = limits[0], limits[1], limits[2], limits[3]
    low, high = math.log(narrow), math.log(wide)
    attempts = bits.shape[1] // 2 - 1
    for n in range(sizes.shape[0]):
        height, width = sizes[n, 0], sizes[n, 1]
        image = height * width
        widest, highest = int(height * wide), int(width / narrow)
        rows, columns = min(height, highest), min(width, widest)
        # An image so narrow or flat that no window has the required area: draws would be wasted.
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
                # Rounding may push the ratio of a small window out of its limits.
                fits = fits and narrow <= wanted_columns / wanted_rows <= wide
                if fits:
                    rows, columns = wanted_rows, wanted_columns
                    break
            if not fits:
                shrink = math.sqrt(min(1.0, most * image / (rows * columns)))
                rows, columns = max(1, int(rows * shrink)), max(1, int(columns * shrink))
        # Multiply and shift maps 32 random bits to 0 .. room without a division.
        windows[n, 0] = (np.uint64(bits[n, 2 * attempts]) * np.uint64(height - rows + 1)) >> np.uint64(32)
        windows[n, 1] = (np.uint64(bits[n, 2 * attempts + 1]) * np.uint64(width - columns + 1)) >> np.uint64(32)
        windows[n, 2], windows[n, 3] = rows, columns


def random_window(arguments: Mapping[str, Any]) -> RandomWindow:
    """Return the distribution for a user's arguments, those of `RandomWindowArguments` among them.

    Raises:
        DefinitionError: A range is invalid.
    """
    values = with_defaults(RandomWindowArguments, arguments)
    area, ratio = _limits(values["random_area"]), _limits(values["random_aspect_ratio"])
    attempts = max(int(values["num_attempts"]), 0)
    if len(area) != 2 or not 0 <= area[0] <= area[1] or not area[1]:
        raise DefinitionError(
            "random_area must be a range of fractions of the area", given=area, expected="0 <= a <= b, 0 < b"
        )
    if len(ratio) != 2 or not 0 < ratio[0] <= ratio[1]:
        raise DefinitionError("random_aspect_ratio must be a range of ratios", given=ratio, expected="0 < a <= b")
    return RandomWindow((area[0], area[1]), (ratio[0], ratio[1]), attempts)


def _limits(values: Sequence[float]) -> Sequence[float]:
    """Return both limits of a range; one number is both."""
    return [float(limit) for limit in values] * (2 if len(values) == 1 else 1)
