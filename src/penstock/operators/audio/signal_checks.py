"""What operators on sound ask of their inputs."""

from __future__ import annotations

from penstock.core.spec import Spec
from penstock.errors import DefinitionError


def check_signal(kind: str, data: Spec, ndim: int | None = None) -> None:
    """Check that a value holds numbers along at least one axis, or along exactly `ndim`.

    Raises:
        DefinitionError: it does not.
    """
    if data.dtype.kind not in "iuf" or not data.shape or ndim not in (None, len(data.shape)):
        raise DefinitionError(
            f"fn.{kind} takes signals",
            given=data,
            expected=f"numbers along {ndim or 'one or more'} axes",
            fix="fn.decoders.audio(x, downmix=True) gives one axis" if ndim == 1 else None,
        )
