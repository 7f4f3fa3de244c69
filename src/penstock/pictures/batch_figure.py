"""Figures of batches: a grid of images, videos or sounds with what belongs to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array, optional_import
from penstock.errors import DefinitionError
from penstock.pictures.notebook_figure import notebook_figure

_MAX_COLUMNS = 4
_INCHES = 2.6


@dataclass(frozen=True)
class Tile:
    """One sample of a figure.

    Args:
        title: Label, and what else is known of the sample.
        frames: uint8 frames, ``(F, H, W)`` or ``(F, H, W, C)``; None for sound and spectrograms.
        signal: Samples of a sound, ``(t,)`` or ``(t, channels)``, or a spectrogram ``(f, t)``; None for images.
        boxes: Left, top, right and bottom in pixels, ``(k, 4)``.
        box_texts: A text per box, or nothing.
        mask: Numbers of classes or instances, ``(H, W)``; 0 is the background.
        points: x and y in pixels, ``(k, 2)``.
    """

    title: str
    frames: Array | None = None
    signal: Array | None = None
    boxes: Array | None = None
    box_texts: Sequence[str] = ()
    mask: Array | None = None
    points: Array | None = None


def draw(tiles: Sequence[Tile], caption: str, *, spectrogram: bool) -> Any:
    """Draw tiles in a grid.

    Args:
        tiles: The samples, at least one.
        caption: Text above all of them.
        spectrogram: True to draw sounds as spectrograms, False as waveforms.
    """
    optional_import.import_extra("matplotlib", "pictures", "show")
    video = max(1 if tile.frames is None else len(tile.frames) for tile in tiles)
    columns = video if video > 1 else min(_MAX_COLUMNS, len(tiles))
    rows = len(tiles) if video > 1 else -(-len(tiles) // columns)
    # Axes have a title of up to three lines.
    figures = optional_import.import_extra("matplotlib.figure", "pictures", "show")
    figure = notebook_figure(figures.Figure)(
        figsize=(max(columns * _INCHES, 4.0), rows * (_INCHES + 0.45)), layout="constrained"
    )
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.ravel():
        axes.axis("off")
    for number, tile in enumerate(tiles):
        if tile.frames is None:
            assert tile.signal is not None
            _draw_signal(grid.ravel()[number], tile.signal, spectrogram=spectrogram)
            _set_title(grid.ravel()[number], tile.title)
            continue
        places = grid[number] if video > 1 else [grid.ravel()[number]]
        for frame, axes in zip(tile.frames, places, strict=False):
            axes.imshow(frame, cmap="gray", vmin=0, vmax=255)
            _draw_extras(axes, tile)
        _set_title(places[0], tile.title)
    if caption:
        figure.suptitle(_printable(caption), fontsize=9, parse_math=False)
    return figure


def _set_title(axes: Any, title: str) -> None:
    axes.set_title(_printable(title), fontsize=8, parse_math=False)


def _printable(text: str) -> str:
    """Return a text with escapes for what UTF-8 cannot encode, which matplotlib refuses.

    Names of files and folders need not be valid text: Python has surrogates for their other bytes.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def _draw_signal(axes: Any, signal: Array, *, spectrogram: bool) -> None:
    axes.axis("on")
    axes.tick_params(labelsize=6)
    values = signal.astype(np.float32)
    if signal.ndim == 2 and signal.shape[1] > 8:
        axes.imshow(values, origin="lower", aspect="auto")
    elif spectrogram:
        mono = values if values.ndim == 1 else values.mean(axis=1)
        width = 256
        if len(mono) < width:
            raise DefinitionError(
                "a sound is too short for a spectrogram",
                given=f"{len(mono)} samples",
                expected=f"at least {width}",
                fix='audio="waveform"',
            )
        steps = np.lib.stride_tricks.sliding_window_view(mono, width)[:: width // 2]
        power = np.abs(np.fft.rfft(steps * np.hanning(width).astype(np.float32))) ** 2
        axes.imshow(10 * np.log10(np.maximum(power.T, 1e-10)), origin="lower", aspect="auto")
    else:
        axes.plot(values, linewidth=0.5)


def _draw_extras(axes: Any, tile: Tile) -> None:
    colors = optional_import.import_extra("matplotlib.cm", "pictures", "show").tab10
    rectangle = optional_import.import_extra("matplotlib.patches", "pictures", "show").Rectangle
    if tile.mask is not None:
        overlay = np.array(colors((tile.mask.astype(np.int64) - 1) % colors.N))
        overlay[..., 3] = np.where(tile.mask > 0, 0.45, 0.0)
        axes.imshow(overlay)
    if tile.boxes is not None:
        texts = tile.box_texts or [""] * len(tile.boxes)
        for number, ((left, top, right, bottom), text) in enumerate(zip(tile.boxes.tolist(), texts, strict=True)):
            style: Mapping[str, Any] = {"fill": False, "edgecolor": colors(number % colors.N), "linewidth": 1.5}
            # Pixel 0 of imshow spans -0.5 to 0.5, and boxes count from the edge of the image.
            axes.add_patch(rectangle((left - 0.5, top - 0.5), right - left, bottom - top, **style))
            if text:
                colors_of_text: Mapping[str, Any] = {"color": "white", "backgroundcolor": style["edgecolor"]}
                axes.text(left, top, _printable(text), fontsize=7, parse_math=False, **colors_of_text)
    if tile.points is not None:
        axes.plot(tile.points[:, 0] - 0.5, tile.points[:, 1] - 0.5, "o", markersize=3, color="yellow")
