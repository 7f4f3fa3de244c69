"""COCO annotations: the JSON file with boxes, classes and outlines of objects.

Format: https://cocodataset.org/#format-data
"""

import json
import os
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from penstock.errors import SourceError, short_repr
from penstock.sources.formats.coco.segmentation_masks import Segmentation, parse_segmentation
from penstock.sources.storage.disk_cache import read_input

# Numbers become float32, and sizes of images int32.
_LARGEST = float(np.finfo(np.float32).max)
_LARGEST_SIZE = 2**31 - 1


@dataclass(frozen=True)
class CocoOptions:
    """Options of `fn.readers.coco`, where each is documented."""

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


def load_annotations(path: str, options: CocoOptions) -> tuple[list[AnnotatedImage], dict[int, str]]:
    """Return the images sorted by id, with the objects that the options select; and the names of the classes.

    Raises:
        SourceNotFoundError: The file does not exist.
        SourceError: It is not JSON or lacks a field; the message names the entry.
    """
    text = read_input(path, "annotations_file")
    try:
        content: Any = json.loads(text)
        entries = {name: content[name] for name in ("images", "annotations", "categories")}
        if not all(isinstance(entry, list) for entry in entries.values()):
            raise TypeError
    # Deeply nested JSON exceeds the recursion limit of the parser.
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path!r} is not valid JSON: {error}") from error
    except (KeyError, TypeError):
        raise SourceError(
            f"{path!r} does not contain COCO annotations",
            expected='{"images": [...], "annotations": [...], "categories": [...]}',
        ) from None
    images: dict[int, AnnotatedImage] = {}
    classes: dict[int, int] = {}
    names: dict[int, str] = {}
    kind, place = "images", 0
    try:
        for place, entry in enumerate(entries[kind]):  # noqa: B007  # an error names it
            number = _whole(entry["id"])
            if number in images:
                raise ValueError(f"duplicate image id {number}")
            size = (_number(entry["width"], _LARGEST_SIZE), _number(entry["height"], _LARGEST_SIZE))
            images[number] = AnnotatedImage(number, str(entry["file_name"]), size)
            os.fsencode(images[number].name)  # fails for half a surrogate pair, which no file name contains
        kind = "categories"
        for place, entry in enumerate(entries[kind]):
            number = _whole(entry["id"])
            # DALI numbers the categories from 1 in the order of the file, because COCO's ids have gaps.
            classes[number] = number if options.avoid_class_remapping else place + 1
            if "name" in entry:
                names[classes[number]] = str(entry["name"])
        kind = "annotations"
        for place, entry in enumerate(entries[kind]):  # noqa: B007  # an error names it
            image = images.get(_whole(entry["image_id"]))
            if image is not None:
                _add(image, entry, classes, options)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"missing {error}" if isinstance(error, KeyError) else str(error)
        raise SourceError(f"{path!r} is damaged: entry {place} of {kind!r}: {reason}") from error
    return [images[number] for number in sorted(images)], names


def _add(image: AnnotatedImage, entry: Any, classes: dict[int, int], options: CocoOptions) -> None:
    """Add an object to its image if the options select it.

    Raises:
        KeyError: A field is missing.
        ValueError, TypeError: A field is invalid.
    """
    box = [_number(value) for value in entry["bbox"]]
    if len(box) != 4:
        raise ValueError(f"a box has {len(box)} numbers instead of 4")
    category = _whole(entry["category_id"])
    if category not in classes:
        raise ValueError(f"unknown category {category}")
    # Checked above: a damaged object is an error even if the options would leave it out.
    crowd = bool(entry.get("iscrowd", 0))
    if min(box[2:]) < options.size_threshold or (crowd and not options.include_iscrowd):
        return
    outline = entry.get("segmentation")
    if options.polygon_masks and isinstance(outline, list):
        polygons = [[_number(value) for value in polygon] for polygon in cast(list[Any], outline)]
        if any(len(polygon) % 2 for polygon in polygons):
            raise ValueError("a polygon has an odd number of coordinates")
        image.polygons += [(len(image.boxes), polygon) for polygon in polygons]
    if options.pixelwise_masks:
        image.outlines.append((classes[category], parse_segmentation(outline)))
        size = [int(image.size[1]), int(image.size[0])]
        if isinstance(outline, dict) and (mask_size := cast(dict[str, Any], outline).get("size", size)) != size:
            raise ValueError(f"a mask has the size {mask_size} (height, width), and its image {size}")
    image.boxes.append(box)
    image.classes.append(classes[category])


def _number(value: Any, largest: float = _LARGEST) -> float:
    # bool is a subclass of int. Python's JSON parser accepts NaN and Infinity.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= largest:
        raise ValueError(f"{short_repr(value)} is not a number of at most {largest:g}")
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise ValueError(f"{value!r} is not a 32-bit integer")
    return value
