"""Figure class that notebooks display."""

import io
from functools import cache
from typing import Any

from penstock.core import optional_import


def figure_class(extra: str, feature: str) -> Any:
    """Return a class of matplotlib figures that notebooks show as a PNG image, with any backend and without `pyplot`.

    Args:
        extra: Extra that installs matplotlib, for the error if it is missing.
        feature: Feature that needs the extra.
    """
    return _notebook_figure(optional_import.import_extra("matplotlib.figure", extra, feature).Figure)


@cache
def _notebook_figure(figure: Any) -> Any:
    """Return the class. It is made when it is first needed, because matplotlib is optional."""

    class NotebookFigure(figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return NotebookFigure
