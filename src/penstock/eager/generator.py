"""Random generator for eager calls."""

from __future__ import annotations

from penstock.core import with_call_site
from penstock.errors import UsageError


class Generator:
    """Random numbers for eager calls: each call draws new ones.

    A generator is two numbers. Calls on batches of one size draw what a pipeline with this seed draws in its successive
    batches, if the operator is the first of the pipeline that draws.

    Args:
        seed: Seed, not negative.
        position: Number of samples for which numbers were drawn before.

    Attributes:
        seed: Seed.
        position: Number of samples for which numbers have been drawn. Set it to draw the same numbers again.

    Raises:
        UsageError: The seed is negative, or not an integer.

    >>> import numpy as np
    >>> from penstock import Generator, fn
    >>> rng, image = Generator(7), np.full((2, 2, 3), 100, np.uint8)
    >>> first, second = (fn.noise.gaussian(image, stddev=9, rng=rng) for _ in range(2))
    >>> bool((first == second).all()), rng
    (False, Generator(7, position=2))
    """

    @with_call_site
    def __init__(self, seed: int, position: int = 0) -> None:
        for name, number in (("seed", seed), ("position", position)):
            if not isinstance(number, int) or number < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UsageError(f"{name} must be an integer of at least 0", given=number)
        self.seed, self.position = seed, position

    def advance(self, rows: int) -> int:
        """Reserve the numbers of some samples, and return the position of the first."""
        position = self.position
        self.position += rows
        return position

    def __repr__(self) -> str:
        return f"Generator({self.seed}, position={self.position})"
