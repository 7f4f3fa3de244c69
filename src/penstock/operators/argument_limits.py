"""Limits of arguments by which memory or time grow: a number that is far too large is refused while tracing."""

from __future__ import annotations

from typing import Annotated

from penstock.graph.arguments.argument_marks import Range

MAX_RATE = 10_000_000
"""Hz. Hydrophones and detectors of bats stay below; sound cards end at 768,000."""

MAX_SIGNAL = 1 << 30
"""Elements of a resampled signal: six hours at 48 kHz."""

Rank = Annotated[int, Range(0, 64)]
"""A number of axes. NumPy has at most 64."""

Length = Annotated[int, Range(1, 1 << 24)]
"""Elements of a window, a transform or a sequence."""

Bands = Annotated[int, Range(1, 1 << 16)]
"""Rows of a table that is multiplied with each spectrum."""

Attempts = Annotated[int, Range(high=100_000)]
"""Draws for one sample."""
