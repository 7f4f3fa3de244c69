"""The annotations of COCO: the JSON file with the boxes, classes and outlines of objects in images.

The format: https://cocodataset.org/#format-data
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, cast

from penstock.errors import SourceError, SourceNotFoundError
from penstock.sources.formats.coco.segmentation_masks import Segmentation, parse_segmentation
from penstock.sources.storage.disk_cache import read_bytes


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
    count_coordinates: bool = False
    pixelwise_masks: bool = False
    image_ids: bool = False
    preprocessed: bool = False
    save_to: str | None = None


@dataclass
class AnnotatedImage:
    """An image with its objects."""

    number: int
    name: str
    size: tuple[float, float]
    boxes: list[list[float]] = field(default_factory=list[list[float]])
    classes: list[int] = field(default_factory=list[int])
    polygons: list[tuple[int, list[float]]] = field(default_factory=list[tuple[int, list[float]]])
    outlines: list[tuple[int, Segmentation]] = field(default_factory=list[tuple[int, Segmentation]])


def load_annotations(path: str, options: CocoOptions) -> list[AnnotatedImage]:
    """The images in the order of their numbers, with the objects that the options leave.

    Raises:
        SourceNotFoundError: there is no file.
        SourceError: it is no JSON, or not what COCO has; the entry is named.
    """
    try:
        content: Any = json.loads(read_bytes(path))
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
    images: dict[int, AnnotatedImage] = {}
    classes: dict[int, int] = {}
    kind, place = "images", 0
    try:
        for place, each in enumerate(entries[kind]):  # noqa: B007  # an error names it
            number = _whole(each["id"])
            if number in images:
                raise ValueError(f"the image {number} is there twice")
            size = (_number(each["width"]), _number(each["height"]))
            images[number] = AnnotatedImage(number, str(each["file_name"]), size)
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


def _add(image: AnnotatedImage, entry: Any, classes: dict[int, int], options: CocoOptions) -> None:
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
    if options.pixelwise_masks:
        image.outlines.append((classes[category], parse_segmentation(outline)))
    image.boxes.append(box)
    image.classes.append(classes[category])


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise ValueError(f"{value!r} is no number of 32 bits")
    return value
