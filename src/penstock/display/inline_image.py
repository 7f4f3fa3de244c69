"""Images that are embedded in HTML as PNG."""

import base64
import io

from penstock.core import Array

# A smaller image is enlarged by a whole factor without smoothing, so that its pixels can be told apart.
_MIN_SIDE = 128


def inline_image(pixels: Array, max_side: int) -> str:
    """Return an image as HTML.

    Args:
        pixels: uint8, ``(H, W)`` or ``(H, W, 3 or 4)``.
        max_side: Largest height and width in pixels; a larger image is reduced.
    """
    from PIL import Image  # noqa: PLC0415  # slow to import, and programs that show no image do not need it

    picture = Image.fromarray(pixels)
    text = f"image of {picture.width} x {picture.height} pixels"
    if max(picture.size) > max_side:
        picture.thumbnail((max_side, max_side))
    file = io.BytesIO()
    picture.save(file, "PNG")
    factor = max(1, min(_MIN_SIDE, max_side) // max(picture.size))
    width, height = picture.width * factor, picture.height * factor
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{text}" title="{text}" width="{width}" height="{height}" src="data:image/png;base64,{data}">'
