"""COCO data sets: image files, and a JSON file with the boxes, classes and outlines of objects in them.

The format: https://cocodataset.org/#format-data
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from penstock.data.files import FileSource
from penstock.data.order import Indices
from penstock.data.source import Array, Column, Source
from penstock.data.spec import Spec
from penstock.errors import SourceError, SourceNotFoundError

_CLASSES = Spec(np.dtype(np.int32), (None,))
_BOXES = Spec(np.dtype(np.float32), (None, 4))
_POLYGONS = (Spec(np.dtype(np.int32), (None, 3)), Spec(np.dtype(np.float32), (None, 2)))


@dataclass(frozen=True)
class CocoOptions:
    """What is read of the annotations, and how; `fn.readers.coco` describes each."""

    ratio: bool = False
    ltrb: bool = False
    size_threshold: float = 0.1
    include_iscrowd: bool = True
    skip_empty: bool = False
    avoid_class_remapping: bool = False
    polygon_masks: bool = False
    image_ids: bool = False


@dataclass
class _Image:
    number: int
    name: str
    size: tuple[float, float]
    boxes: list[list[float]] = field(default_factory=list[list[float]])
    classes: list[int] = field(default_factory=list[int])
    polygons: list[tuple[int, list[float]]] = field(default_factory=list[tuple[int, list[float]]])


class CocoSource(Source):
    """Image files with their objects, in the order of the images' numbers.

    Args:
        root: the folder with the images.
        annotations: the JSON file.
        names: the images to read, in that order; None for all.
        options: what is read.

    Raises:
        SourceNotFoundError: there is no such folder, annotations file, or first image.
        SourceError: the annotations are damaged, or no image is left.
    """

    def __init__(self, root: str, annotations: str, names: tuple[str, ...] | None, options: CocoOptions) -> None:
        if not Path(root).is_dir():
            raise SourceNotFoundError(f"file_root is no folder: {root!r}")
        found = _parse(annotations, options)
        if names is not None:
            by_name = {image.name: image for image in found}
            missing = [name for name in names if name not in by_name]
            if missing:
                raise SourceError(f"the image {missing[0]!r} is not in {annotations!r}", fix="leave it out of images")
            found = [by_name[name] for name in names]
        if options.skip_empty:
            found = [image for image in found if image.boxes]
        if not found:
            raise SourceError(f"no images are left of {annotations!r}", given=str(options))
        self._files = FileSource(root, [os.fsencode(image.name) for image in found], [0] * len(found))
        if not os.path.lexists(self.describe(0)):
            raise SourceNotFoundError(f"there is no file {self.describe(0)!r}", fix="file_root is the images' folder")
        self._columns = tuple(zip(*(_values(image, options) for image in found), strict=True))
        self._ids = np.array([[image.number] for image in found], np.int32)
        masks = _POLYGONS if options.polygon_masks else ()
        ids = (Spec(np.dtype(np.int32), (1,)),) if options.image_ids else ()
        self.specs = (Spec(np.dtype(np.uint8), (None,)), _BOXES, _CLASSES, *masks, *ids)

    def __len__(self) -> int:
        return len(self._files)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The encoded images, boxes, classes, then what else was asked for."""
        rows = indices.tolist()
        columns: list[Column] = [[self._files.content(row) for row in rows]]
        columns += [[column[row] for row in rows] for column in self._columns]
        if len(columns) < len(self.specs):
            columns.append(np.take(self._ids, indices, axis=0, out=out[-1], mode="clip"))
        return tuple(columns)

    def describe(self, index: int) -> str:
        """The image's path."""
        return self._files.describe(index)

    def same_data(self, other: Source) -> bool:
        """Whether the same images have the same objects."""
        same = isinstance(other, CocoSource) and self._files.same_data(other._files)  # noqa: SLF001  # one class
        return same and self.fingerprint() == other.fingerprint()

    def fingerprint(self) -> str:
        """The images' names and numbers, and their objects."""
        digest = hashlib.sha256(self._files.fingerprint().encode() + self._ids.astype("<i4").tobytes())
        for column in self._columns:
            for value in column:
                digest.update(len(value).to_bytes(8, "little") + value.tobytes())
        return f"coco:{len(self)}:{digest.hexdigest()[:16]}"


def _parse(path: str, options: CocoOptions) -> list[_Image]:
    """The images in the order of their numbers, with the objects that the options leave.

    Raises:
        SourceNotFoundError: there is no file.
        SourceError: it is no JSON, or not what COCO has; the entry is named.
    """
    try:
        content: Any = json.loads(Path(path).read_bytes())
        entries = {name: content[name] for name in ("images", "annotations", "categories")}
        if not all(isinstance(each, list) for each in entries.values()):
            raise TypeError
    except FileNotFoundError:
        raise SourceNotFoundError(f"annotations_file is no file: {path!r}") from None
    except OSError as error:
        raise SourceError(f"{path!r} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path!r} is no JSON: {error}") from error
    except (KeyError, TypeError):
        raise SourceError(
            f"{path!r} has no COCO annotations", expected='{"images": [...], "annotations": [...], "categories": [...]}'
        ) from None
    images: dict[int, _Image] = {}
    classes: dict[int, int] = {}
    kind, place = "images", 0
    try:
        for place, each in enumerate(entries[kind]):  # noqa: B007  # an error names it
            number = _whole(each["id"])
            if number in images:
                raise ValueError(f"the image {number} is there twice")
            size = (_number(each["width"]), _number(each["height"]))
            images[number] = _Image(number, str(each["file_name"]), size)
        kind = "categories"
        for place, each in enumerate(entries[kind]):
            number = _whole(each["id"])
            classes[number] = number if options.avoid_class_remapping else place + 1
        kind = "annotations"
        for place, each in enumerate(entries[kind]):  # noqa: B007  # likewise
            image = images.get(_whole(each["image_id"]))
            if image is not None:
                _add(image, each, classes, options)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise SourceError(f"{path!r} is damaged: entry {place} of {kind!r}: {reason}") from error
    return [images[number] for number in sorted(images)]


def _add(image: _Image, entry: Any, classes: dict[int, int], options: CocoOptions) -> None:
    """Add an object to its image, unless the options leave it out.

    Raises:
        KeyError: it lacks something.
        ValueError, TypeError: something is not what it should be.
    """
    box = [_number(value) for value in entry["bbox"]]
    if len(box) != 4:
        raise ValueError(f"a box of {len(box)} numbers")
    category = _whole(entry["category_id"])
    if category not in classes:
        raise ValueError(f"there is no category {category}")
    crowd = bool(entry.get("iscrowd", 0))
    if min(box[2:]) < options.size_threshold or (crowd and not options.include_iscrowd):
        return
    outline = entry.get("segmentation")
    if options.polygon_masks and isinstance(outline, list):
        polygons = [[_number(value) for value in polygon] for polygon in cast(list[Any], outline)]
        if any(len(polygon) % 2 for polygon in polygons):
            raise ValueError("a polygon with half a point")
        image.polygons += [(len(image.boxes), polygon) for polygon in polygons]
    image.boxes.append(box)
    image.classes.append(classes[category])


def _values(image: _Image, options: CocoOptions) -> tuple[Array, ...]:
    boxes = np.array(image.boxes, np.float32).reshape(-1, 4)
    if options.ltrb:
        boxes[:, 2:] += boxes[:, :2]
    size = np.array(image.size, np.float32)
    if options.ratio:
        if not min(image.size) > 0:
            raise SourceError(f"the image {image.name!r} has the size {image.size}, and ratio=True divides by it")
        boxes /= np.tile(size, 2)
    classes = np.array(image.classes, np.int32)
    if not options.polygon_masks:
        return boxes, classes
    stops = np.cumsum([len(polygon) // 2 for _, polygon in image.polygons], dtype=np.int32)
    polygons = np.empty((len(image.polygons), 3), np.int32)
    polygons[:, 0] = [number for number, _ in image.polygons]
    polygons[:, 1] = [0, *stops[:-1]] if len(stops) else []
    polygons[:, 2] = stops
    points = np.array([value for _, polygon in image.polygons for value in polygon], np.float32).reshape(-1, 2)
    return boxes, classes, polygons, points / size if options.ratio else points


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise ValueError(f"{value!r} is no number of 32 bits")
    return value
