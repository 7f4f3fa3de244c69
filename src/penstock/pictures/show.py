"""`show`: batches and samples as figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

import numpy as np

from penstock.core import Array
from penstock.display.sample_pixels import as_frames, display_range, guess_layout, has_image_shape, to_pixels
from penstock.eager import Batch
from penstock.errors import DefinitionError, UsageError
from penstock.graph import Range, check_annotations
from penstock.pictures.batch_figure import Tile, draw
from penstock.pictures.batch_roles import BatchRoles, find_roles, label_text, sample_as_batch
from penstock.pictures.output_info import OutputInfo
from penstock.pipeline.tensor_list import TensorList

ClassNames = Sequence[str] | Mapping[int, str]


@dataclass(frozen=True)
class DescribedBatch:
    """A batch of which more is known than its arrays say.

    Args:
        values: The batch.
        infos: Descriptions of its outputs by name.
        origins: Returns a text per sample of the output of a name: its index and where it was read.
        related: Receives the names of two outputs. Returns False if the rows of the second are not about those of the
            first, because another reader reads them.
    """

    values: Any
    infos: Mapping[str, OutputInfo] = field(default_factory=dict[str, OutputInfo])
    origins: Callable[[str], Sequence[str]] = lambda name: ()  # noqa: ARG005
    related: Callable[[str, str], bool] = lambda image, other: True  # noqa: ARG005


@check_annotations
def show(
    data: Any,
    *,
    n: Annotated[int, Range(1)] = 16,
    layout: str | None = None,
    image: str | None = None,
    labels: Any = None,
    boxes: Any = None,
    masks: Any = None,
    points: Any = None,
    class_names: Sequence[str] | Mapping[int, str] | None = None,
    box_layout: Literal["ltrb", "xywh"] = "ltrb",
    audio: Literal["waveform", "spectrogram"] = "waveform",
) -> Any:
    """Draw a batch or a sample.

    Needs matplotlib, which ``pip install "penstock[pictures]"`` installs. In a notebook the figure appears; elsewhere,
    save it with ``savefig``.

    Args:
        data: A batch or a sample of an iterator (dict), a `Batch`, a tensor list or the outputs of `Pipeline.run`, a
            list with an array per sample, or an array. An array with the shape of one image is one sample. A dict is
            one sample if its arrays have different lengths, or if all of them have the shape of one color image.
        n: Largest number of samples to draw.
        layout: Letters of the axes of a sample: F for frames, H, W, C; "t" or "tc" for sound, "ft" for a spectrogram.
            By default that of the batch, otherwise a guess by the shape.
        image: Name of the images in a dict; by default the first value that can be an image.
        labels: A name in the dict, or data: a number, or a number per class, for each sample; or a class per box. By
            default a value whose name says that it has labels. The same holds for `boxes`, `masks` and `points`.
        boxes: ``(k, 4)`` per sample, in pixels, or relative to the image if no number is above 1. Empty boxes are left
            out.
        masks: ``(H, W)`` integers per sample, with or without a channel axis; 0 is the background.
        points: ``(k, 2)`` x and y per sample, in the units of `boxes`.
        class_names: Names by class; by default those that the data set of an iterator has, also if `labels` are data.
        box_layout: "ltrb" for left, top, right, bottom; "xywh" for left, top, width, height.
        audio: How to draw sound.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        MissingExtraError: matplotlib is not installed.
        UsageError: The batch has no samples, or no value of a chosen name.
        DefinitionError: The data are not pictures of this layout.

    Example:
        >>> figure = show({"images": np.zeros((3, 8, 8, 3), np.uint8), "labels": [0, 1, 0]}, class_names=["cat", "dog"])
        >>> [axes.get_title() for axes in figure.axes]
        ['cat', 'dog', 'cat']
    """
    chosen = {"image": image, "labels": labels, "boxes": boxes, "masks": masks, "points": points}
    described = data if isinstance(data, DescribedBatch) else DescribedBatch(_as_batch(data, layout, image))
    infos = described.infos
    roles = find_roles(described.values, chosen, {name: info.ndim for name, info in infos.items()}, described.related)
    origins = described.origins(roles.image_name)
    key = roles.names.get("labels", "")
    info = infos.get(roles.image_name, OutputInfo("", np.ndim(roles.images[0])))
    if class_names is None:
        class_names = infos[key].class_names if key in infos else _shared_class_names(infos)
    samples = [_float(np.asarray(sample)) for sample in roles.images[:n]]
    axes = layout or roles.layout or info.layout or guess_layout(samples[0].shape)
    if not all(sample.size for sample in samples):
        raise UsageError(
            "a sample is empty, so there is nothing to draw",
            given=f"shapes {', '.join(sorted({str(list(sample.shape)) for sample in samples}))}",
            expected="extents of at least 1",
        )
    titles = [_title(roles, row, class_names, origins) for row in range(len(samples))]
    if not set("HW") <= set(axes):
        tiles = [Tile(title, signal=_signal(item, axes)) for item, title in zip(samples, titles, strict=True)]
        return draw(tiles, roles.image_name, spectrogram=audio == "spectrogram")
    frames = [as_frames(sample, axes) for sample in samples]
    if info.normalization is not None:
        frames = [info.normalization.undo(item) for item in frames]
    values = display_range(frames, normalized=info.normalization is not None, peak=info.peak)
    tiles = [
        _tile(roles, row, title, to_pixels(item, values), class_names, box_layout)
        for row, (item, title) in enumerate(zip(frames, titles, strict=True))
    ]
    caption = ": ".join(filter(None, [roles.image_name, values.note]))
    return draw(tiles, caption, spectrogram=False)


def _as_batch(data: Any, layout: str | None, image: str | None) -> Any:
    """Return a batch: a single sample becomes a batch of one."""
    if isinstance(data, Mapping):
        return sample_as_batch(cast(Mapping[str, Any], data), layout, image)
    if isinstance(data, Batch | TensorList | list | tuple):
        return data
    # The shape tells an image from a batch, as long as the layout does not say it.
    array = np.asarray(data)
    single = array.ndim == len(layout) if layout else array.ndim <= 2 or has_image_shape(array.shape)
    return array[None] if single else array


def _shared_class_names(infos: Mapping[str, OutputInfo]) -> Mapping[int, str]:
    """Return the class names that all outputs of a batch agree on, for labels given as data, such as predictions."""
    known = [info.class_names for info in infos.values() if info.class_names]
    return known[0] if known and all(names == known[0] for names in known) else {}


def _float(sample: Array) -> Array:
    """Return a sample in a dtype of NumPy: bfloat16 becomes float32."""
    return sample if sample.dtype.kind in "biuf" else sample.astype(np.float32)


def _signal(sample: Array, layout: str) -> Array:
    """Return sound with time first, or a spectrogram with frequencies first.

    Raises:
        DefinitionError: The layout is neither that of an image nor that of sound.
    """
    if len(layout) == sample.ndim and layout in ("t", "tc", "ft"):
        return sample
    if layout in ("ct", "tf") and sample.ndim == 2:
        return sample.T
    raise DefinitionError(
        "a sample of this layout is neither an image nor sound",
        given=f"layout {layout!r}, shape {list(sample.shape)}",
        fix='layout="HWC" for images, "FHWC" for video, "t" for sound, "ft" for a spectrogram',
    )


def _title(roles: BatchRoles, row: int, class_names: ClassNames | None, origins: Sequence[str]) -> str:
    labels = roles.extras.get("labels")
    # With boxes, there may be a class per box.
    own = labels is not None and "boxes" not in roles.extras
    lines = [label_text(np.asarray(labels[row]), class_names)] if own and labels is not None else []
    return "\n".join([*lines, *origins[row : row + 1]])


def _tile(
    roles: BatchRoles,
    row: int,
    title: str,
    pixels: Array,
    class_names: ClassNames | None,
    box_layout: str,
) -> Tile:
    """Return a sample with its boxes, mask and points in pixels."""
    height, width = pixels.shape[1:3]
    extras = {role: np.asarray(column[row]) for role, column in roles.extras.items()}
    boxes, points, mask, texts = extras.get("boxes"), extras.get("points"), extras.get("masks"), list[str]()
    if boxes is not None:
        boxes = _in_pixels(boxes, 4, "boxes", (width, height))
        if box_layout == "xywh":
            boxes = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
        visible = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        if "labels" in extras:
            classes = np.ravel(extras["labels"])
            if len(classes) == len(boxes):
                texts = [label_text(number, class_names) for number in classes[visible]]
            else:
                title = "\n".join(filter(None, [label_text(classes, class_names), title]))
        boxes = boxes[visible]
    if points is not None:
        points = _in_pixels(points, 2, "points", (width, height))
    if mask is not None:
        mask = mask.squeeze() if mask.ndim > 2 else mask
        if mask.shape != (height, width):
            raise DefinitionError("a mask has the size of its image", given=mask.shape, expected=(height, width))
    return Tile(title, frames=pixels, boxes=boxes, box_texts=texts, mask=mask, points=points)


def _in_pixels(values: Array, columns: int, role: str, size: tuple[int, int]) -> Array:
    """Return boxes or points in pixels.

    Raises:
        DefinitionError: They have another number of columns.
    """
    if values.ndim != 2 or values.shape[1] != columns:
        raise DefinitionError(f"{role} need {columns} numbers in each row", given=f"shape {list(values.shape)}")
    relative = values.dtype.kind == "f" and values.size and values.max() <= 1
    factor = np.asarray(size * (columns // 2) if relative else (1,) * columns, np.float32)
    return values.astype(np.float32) * factor
