"""Checks of the inputs of audio operators."""

from __future__ import annotations

from penstock.core import Spec
from penstock.errors import DefinitionError


def check_signal(kind: str, data: Spec, ndim: int | None = None) -> None:
    """Check that a value consists of numbers and has at least one axis, or exactly `ndim` axes.

    Raises:
        DefinitionError: It does not.
    """
    # An `ndim` of None accepts spectrograms and channels.
    if data.dtype.kind not in "iuf" or not data.shape or ndim not in (None, len(data.shape)):
        raise DefinitionError(
            f"fn.{kind} needs signals",
            given=data,
            expected=f"numbers along {ndim or 'one or more'} axes",
            fix="fn.decoders.audio(x, downmix=True), which returns one axis" if ndim == 1 else None,
        )
