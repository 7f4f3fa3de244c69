"""Figure class that notebooks display."""

import io
from functools import cache
from typing import Any


@cache
def notebook_figure(figure: Any) -> Any:
    """Return a class of figures that notebooks show as a PNG image, with any backend and without `pyplot`.

    Args:
        figure: Class `matplotlib.figure.Figure`. The caller imports it, because matplotlib is optional.
    """

    class NotebookFigure(figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return NotebookFigure
