"""Batches as HTML: a table, and the first images."""

from collections.abc import Sequence

import numpy as np

from penstock.core import Array, Spec
from penstock.display.html_table import html_table
from penstock.display.inline_image import inline_image
from penstock.display.sample_pixels import display_range, image_frames, to_pixels

# Number of samples that a batch shows as images.
MAX_SHOWN = 8
_MAX_SIDE = 96


def batch_html(name: str, first: Sequence[Array], rows: int, spec: Spec) -> str:
    """Return a batch as HTML.

    Args:
        name: Name of its class.
        first: The first samples, in host memory; none to show the table alone.
        rows: Number of samples.
        spec: Spec of a sample, with None for extents in which samples differ.
    """
    shape = ", ".join("?" if size is None else str(size) for size in spec.shape)
    row = [str(rows), str(spec.dtype), f"[{shape}]", spec.layout or "none"]
    table = html_table(name, ["samples", "dtype", "shape", "layout"], [row])
    return f"{table}\n{images_html(first, spec.layout)}".rstrip()


def images_html(samples: Sequence[Array], layout: str) -> str:
    """Return the first samples as images in HTML, or "" if they are not images.

    Args:
        samples: Samples in host memory.
        layout: Their layout; "" shows samples that have the shape of an image.
    """
    frames = [image_frames(np.asarray(sample), layout) for sample in samples[:MAX_SHOWN]]
    shown = [item[0] for item in frames if item is not None]
    if not shown:
        return ""
    values = display_range(shown)
    images = "".join(inline_image(to_pixels(item, values), _MAX_SIDE) for item in shown)
    return f'<div style="display: flex; flex-wrap: wrap; gap: 2px; image-rendering: pixelated">{images}</div>'
