"""Windows of random area and aspect ratio, as every training on ImageNet cuts them.

The rules are DALI's, close to torchvision's: area and the logarithm of the aspect ratio (width to height) are drawn
uniformly until a window fits into the image and still has an allowed ratio after rounding; when no attempt does, the
window is as large as ratio and area allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from penstock.errors import DefinitionError


class RandomWindowArguments(TypedDict, total=False):
    """How windows are drawn.

    random_area: the least and the largest part of the image's area, [0.08, 1]. random_aspect_ratio: the least and the
    largest width : height, [3/4, 4/3]. num_attempts: how often to draw before the rule for the other cases, 10.
    """

    random_area: Sequence[float]
    random_aspect_ratio: Sequence[float]
    num_attempts: int


@dataclass(frozen=True)
class RandomWindow:
    """The distribution of a window."""

    area: tuple[float, float]
    ratio: tuple[float, float]
    attempts: int

    @property
    def words(self) -> int:
        """Random words per window: two per attempt, two for the place."""
        return 2 * self.attempts + 2

    def __call__(self, height: int, width: int, words: NDArray[np.uint32]) -> tuple[int, int, int, int]:
        """A window in an image.

        Args:
            height: of the image.
            width: of the image.
            words: random, as many as `words` says.

        Returns:
            First row, first column, height and width.
        """
        rows, columns = self._size(height, width, (words[:-2] * 2.0**-32).tolist())
        top, left = (
            int(word) * room >> 32
            for word, room in zip(words[-2:].tolist(), (height - rows + 1, width - columns + 1), strict=True)
        )
        return top, left, rows, columns

    def _size(self, height: int, width: int, draws: Sequence[float]) -> tuple[int, int]:
        least, most = self.area
        narrow, wide = self.ratio
        widest, highest = int(height * wide), int(width / narrow)
        image = height * width
        if height * widest < least * image:
            return height, widest
        if width * highest < least * image:
            return highest, width
        low, high = math.log(narrow), math.log(wide)
        for attempt in range(self.attempts):
            area = (least + (most - least) * draws[2 * attempt]) * image
            ratio = math.exp(low + (high - low) * draws[2 * attempt + 1])
            columns = max(1, math.floor(math.sqrt(area * ratio) + 0.5))
            rows = max(1, math.floor(math.sqrt(area / ratio) + 0.5))
            if columns <= width and rows <= height and narrow <= columns / rows <= wide:
                return rows, columns
        rows, columns = min(height, highest), min(width, widest)
        shrink = math.sqrt(min(1.0, most * image / (rows * columns)))
        return max(1, int(rows * shrink)), max(1, int(columns * shrink))


def random_window(arguments: RandomWindowArguments, kind: str) -> RandomWindow:
    """The distribution that a user's arguments describe.

    Raises:
        DefinitionError: limits that are none, or no attempt.
    """
    area = tuple(map(float, arguments.get("random_area", (0.08, 1.0))))
    ratio = tuple(map(float, arguments.get("random_aspect_ratio", (0.75, 4 / 3))))
    attempts = int(arguments.get("num_attempts", 10))
    if len(area) != 2 or not 0 <= area[0] <= area[1] or not area[1]:
        raise DefinitionError(f"fn.{kind}: random_area is two parts of the area", given=area, expected="0 <= a <= b")
    if len(ratio) != 2 or not 0 < ratio[0] <= ratio[1]:
        raise DefinitionError(f"fn.{kind}: random_aspect_ratio is two ratios", given=ratio, expected="0 < a <= b")
    if attempts < 1:
        raise DefinitionError(f"fn.{kind}: num_attempts is at least 1", given=attempts)
    return RandomWindow((area[0], area[1]), (ratio[0], ratio[1]), attempts)
