"""Values of samples as HTML: images and video as PNG, sound as a curve, other values as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from penstock.core import Array
from penstock.display.inline_image import inline_image
from penstock.display.sample_pixels import DisplayRange, display_range, image_frames, to_pixels
from penstock.pictures.operator_effects import SampleValue, number_text

# Larger images are reduced, because a page embeds one for each operator and sample.
_MAX_SIDE = 256

_MAX_FRAMES = 8

# Shorter vectors are numbers, longer ones a curve.
_MIN_CURVE = 33
_CURVE_COLUMNS = 256

_MAX_NUMBERS = 32

# An image of one channel with fewer different numbers, all of them small, is a mask: on a gray scale it would be black.
_MAX_CLASSES = 21
_IGNORED_CLASS = 255
_CLASS_COLORS = np.array(
    [
        [0, 0, 0], [31, 119, 180], [255, 127, 14], [44, 160, 44], [214, 39, 40], [148, 103, 189], [140, 86, 75],
        [227, 119, 194], [188, 189, 34], [23, 190, 207],
    ],
    np.uint8,
)  # fmt: skip


def value_html(value: SampleValue, beside: SampleValue | None = None) -> str:
    """Return a value as HTML.

    Args:
        value: The value.
        beside: The value that it is compared with, which is drawn with the same black and white.
    """
    array = _plain(value.array)
    shape = " x ".join(map(str, array.shape)) or "scalar"
    facts = f"{value.array.dtype} {shape}" + (f" {value.info.layout}" if value.info.layout else "")
    frames = _frames(value)
    if frames is not None and _is_mask(frames):
        colors = _CLASS_COLORS[frames[..., 0] % len(_CLASS_COLORS)]
        colors[frames[..., 0] == _IGNORED_CLASS] = 255
        return f"{_images(colors, DisplayRange(0, 255))}<p class=facts>{escape(facts)}, a color per number</p>"
    if frames is not None:
        others = None if beside is None else _frames(beside)
        normalized = value.info.normalization is not None
        compared = [frames] if others is None else [frames, others]
        values = display_range(compared, normalized=normalized, peak=value.info.peak)
        note = f", {values.note}" if values.note else ""
        return f"{_images(frames, values)}<p class=facts>{escape(facts + note)}</p>"
    if _is_spectrogram(value):
        pixels = np.ascontiguousarray(array[::-1, :, None])
        return f"{_images(pixels[None], display_range([pixels]))}<p class=facts>{escape(facts)}</p>"
    if _is_curve(value):
        return f"{_curve(array)}<p class=facts>{escape(facts)}</p>"
    numbers, names = _numbers(array), value.info.class_names
    if names and array.size == 1 and int(array.item()) in names:
        numbers += f" ({names[int(array.item())]})"
    return f"<code class=numbers>{escape(numbers)}</code><p class=facts>{escape(facts)}</p>"


def difference_html(first: SampleValue, second: SampleValue) -> str:
    """Return the difference of two values as HTML; "" if they are equal.

    Images of one size also give a picture of the absolute difference, scaled so that the largest one is white.
    """
    mine, theirs = _plain(first.array), _plain(second.array)
    if mine.shape != theirs.shape:
        return f"<p>shape {escape(str(list(mine.shape)))} and {escape(str(list(theirs.shape)))}</p>"
    if first.array.dtype != second.array.dtype:
        return f"<p>dtype {escape(str(first.array.dtype))} and {escape(str(second.array.dtype))}</p>"
    if np.array_equal(mine, theirs, equal_nan=mine.dtype.kind in "fc"):
        return ""
    distance = np.abs(mine.astype(np.float64) - theirs.astype(np.float64))
    largest = f"{float(np.nanmax(distance)):.4g}"
    share = float(np.count_nonzero(mine != theirs)) / mine.size
    text = f"<p>by {largest}</p>" if mine.size == 1 else f"<p>{share:.1%} of the values, by up to {largest}</p>"
    frames, others = _frames(first), _frames(second)
    if frames is None or others is None:
        return text
    # The largest difference of the channels, because a picture has no color for it.
    gray = np.abs(frames.astype(np.float32) - others.astype(np.float32)).max(axis=-1, keepdims=True)
    return f"{_images(gray, DisplayRange(0.0, max(float(np.nan_to_num(gray).max()), 1e-12)))}{text}"


def _frames(value: SampleValue) -> Array | None:
    """Return the frames of an image or video, with their normalization undone; otherwise None."""
    frames = image_frames(value.array, value.info.layout)
    return frames if frames is None or value.info.normalization is None else value.info.normalization.undo(frames)


def _is_mask(frames: Array) -> bool:
    if frames.shape[-1] != 1 or frames.dtype.kind not in "iu":
        return False
    numbers = np.unique(frames)
    numbers = numbers[numbers != _IGNORED_CLASS]
    return numbers.size > 0 and numbers[0] >= 0 and 0 < numbers[-1] < _MAX_CLASSES


def _plain(array: Array) -> Array:
    """Return an array in a dtype of NumPy: bfloat16 becomes float32."""
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)


def _images(frames: Array, values: DisplayRange) -> str:
    shown = frames[:_MAX_FRAMES]
    images = "".join(inline_image(to_pixels(frame, values), _MAX_SIDE) for frame in shown)
    more = len(frames) - len(shown)
    return f"<div class=frames>{images}</div>" + (f"<p class=facts>and {more} more frames</p>" if more else "")


def _is_spectrogram(value: SampleValue) -> bool:
    return value.info.layout == "ft" and value.array.ndim == 2 and value.array.size > 0


def _is_curve(value: SampleValue) -> bool:
    """True for sound and other long vectors of floats."""
    array = value.array
    sound = array.ndim == 1 or (array.ndim == 2 and value.info.layout in ("tc", "ct"))
    return sound and array.dtype.kind not in "biu" and max(array.shape) >= _MIN_CURVE


def _curve(array: Array) -> str:
    """Return the envelope of a sound as SVG: lowest and highest value per column of pixels."""
    mono = array if array.ndim == 1 else array.mean(axis=int(np.argmin(array.shape)))
    parts: Sequence[Array] = np.array_split(np.nan_to_num(mono.astype(np.float64)), min(_CURVE_COLUMNS, len(mono)))
    low, high = min(float(part.min()) for part in parts), max(float(part.max()) for part in parts)
    scale = 92 / max(high - low, 1e-12)
    path = "".join(
        f"M{column} {96 - (float(part.max()) - low) * scale:.1f}V{97 - (float(part.min()) - low) * scale:.1f}"
        for column, part in enumerate(parts)
    )
    return (
        f'<svg role=img aria-label="curve" viewBox="0 0 {len(parts)} 100" width=256 height=100><path d="{path}"/></svg>'
    )


def _numbers(array: Array) -> str:
    """Return the numbers of an array, or the first ones of many."""
    if array.dtype == np.uint8 and array.ndim == 1 and array.size > _MAX_NUMBERS:
        return f"{array[:_MAX_NUMBERS].tobytes().hex(' ')} …"
    if array.size > _MAX_NUMBERS:
        limits = f"from {number_text(array.min())} to {number_text(array.max())}"
        return f"{number_text(array.ravel()[:_MAX_NUMBERS])[:-1]}, …] {limits}"
    if array.ndim < 2:
        return number_text(array)
    return np.array2string(array, separator=", ", precision=4, suppress_small=True, max_line_width=100)
