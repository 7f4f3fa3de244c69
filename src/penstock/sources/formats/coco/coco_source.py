"""COCO data sets: image files, and a JSON file with boxes, classes and outlines of objects.

Format: https://cocodataset.org/#format-data
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core import Array, Column, Indices, Spec, optional_import, short_digest
from penstock.errors import SampleError, SourceError, SourceNotFoundError
from penstock.sources.files.file_source import FileSource
from penstock.sources.formats.coco.coco_annotations import AnnotatedImage, CocoOptions, load_annotations
from penstock.sources.formats.coco.preprocessed_annotations import read_preprocessed, write_preprocessed
from penstock.sources.formats.coco.segmentation_masks import Segmentation, class_map
from penstock.sources.record_source import RecordSource
from penstock.sources.storage.object_store import is_remote

# Position of the classes among the values of a sample.
_CLASSES_VALUE = 2
_CLASSES = Spec(np.dtype(np.int32), (None,))
_BOXES = Spec(np.dtype(np.float32), (None, 4))
_PIXELS = Spec(np.dtype(np.int32), (None, None, 1), "HWC")
_POLYGONS = (Spec(np.dtype(np.int32), (None, 3)), Spec(np.dtype(np.float32), (None, 2)))

# Classes and outlines of an image's objects, and the image's width and height.
_Outlined = tuple[list[tuple[int, Segmentation]], tuple[float, float]]


class CocoSource(RecordSource[FileSource]):
    """Image files with their objects, sorted by image id.

    Args:
        root: Folder with the images.
        annotations: JSON file, or folder of preprocessed annotations if `options.preprocessed`.
        names: Names of the images to read, in this order; None for all.
        options: Values to read, and their form.

    Raises:
        SourceNotFoundError: The folder, the annotations file, the first image or the folder to save to does not exist.
        SourceError: The annotations are damaged or cannot be saved, or no image is left.
        MissingExtraError: Pixelwise masks are requested, but pycocotools is not installed.
    """

    def __init__(self, root: str, annotations: str, names: tuple[str, ...] | None, options: CocoOptions) -> None:
        if not is_remote(root) and not Path(root).is_dir():
            raise SourceNotFoundError(f"file_root is not a folder: {root!r}")
        if options.pixelwise_masks:
            optional_import.import_extra("pycocotools.mask", "coco", "pixelwise_masks=True")
        self._class_names: Mapping[int, str] = {}
        if options.preprocessed:
            images = read_preprocessed(
                annotations,
                polygons=options.polygon_masks,
                pixels=options.pixelwise_masks,
                numbers=options.image_ids,
            )
        else:
            images, self._class_names = load_annotations(annotations, options)
        if names is not None:
            by_name = {image.name: image for image in images}
            missing = [name for name in names if name not in by_name]
            if missing:
                raise SourceError(f"the image {missing[0]!r} is not in {annotations!r}", fix="remove it from images")
            images = [by_name[name] for name in names]
        if options.skip_empty:
            images = [image for image in images if image.boxes]
        if not images:
            raise SourceError(f"no images are left of {annotations!r}", given=str(options))
        paths = [os.fsencode(image.name) for image in images]
        super().__init__(FileSource(root, paths, [0] * len(images)))
        self.records.check_first("file_root must be the folder of the images")
        values = [_values(image, options) for image in images]
        self._ids = np.array([[image.number] for image in images], np.int32)
        if options.save_to is not None:
            _save(options.save_to, images, self._ids, options)
        if options.count_coordinates:
            # As DALI's option count_coordinates: offsets count coordinates instead of points, two per point.
            for _, _, polygons, _ in values:
                polygons[:, 1:] *= 2
        self._columns = tuple(zip(*values, strict=True))
        self._outlines: list[_Outlined] | None = None
        if options.pixelwise_masks:
            self._outlines = [(image.outlines, image.size) for image in images]
        masks = _POLYGONS if options.polygon_masks else (_PIXELS,) if options.pixelwise_masks else ()
        ids = (Spec(np.dtype(np.int32), (1,)),) if options.image_ids else ()
        self.specs = (Spec(np.dtype(np.uint8), (None,)), _BOXES, _CLASSES, *masks, *ids)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the encoded images, boxes and classes, then the other requested values."""
        rows: list[int] = indices.tolist()
        columns: list[Column] = [self.records.contents(indices)]
        columns += [[column[row] for row in rows] for column in self._columns]
        if outlined := self._outlines:
            columns.append([self._pixels(row, outlined[row]) for row in rows])
        if len(columns) < len(self.specs):
            columns.append(np.take(self._ids, indices, axis=0, out=out[-1], mode="clip"))
        return tuple(columns)

    def _pixels(self, index: int, outlined: _Outlined) -> Array:
        outlines, (width, height) = outlined
        try:
            return class_map(outlines, int(height), int(width))
        except ValueError as error:
            raise SampleError(
                f"{self.describe(index)!r} is annotated with {error}", index=index, path=self.describe(index)
            ) from error

    def class_names(self, value: int) -> Mapping[int, str]:
        """Return the names of the categories. Preprocessed annotations have none."""
        return self._class_names if value == _CLASSES_VALUE else {}

    def identity(self) -> tuple[Any, ...]:
        """Return the image files, and the fingerprint for their objects."""
        return self.records, self.fingerprint()

    def fingerprint(self) -> str:
        """Hash the names and ids of the images, and their objects."""
        values = [value for column in self._columns for value in column]
        # The length separates values, so that moving an object to the next image changes the hash.
        objects = chain.from_iterable((len(value).to_bytes(8, "little"), value) for value in values)
        outlines = "" if self._outlines is None else repr(self._outlines)
        return f"coco:{len(self)}:{short_digest(self.records.fingerprint(), self._ids, *objects, outlines)}"


def _save(folder: str, images: Sequence[AnnotatedImage], numbers: Array, options: CocoOptions) -> None:
    pixels = options.pixelwise_masks
    if pixels:
        for image in images:
            # Preprocessed annotations store the polygons of masks in the files of polygons.
            shapes = enumerate(outline.polygons for _, outline in image.outlines)
            image.polygons = [(number, list(polygon)) for number, polygons in shapes for polygon in polygons]
    outlined = replace(options, polygon_masks=options.polygon_masks or pixels)
    values = [_values(image, outlined) for image in images]
    names = [os.fsencode(image.name) for image in images]
    write_preprocessed(folder, names, values, numbers if options.image_ids else None, images if pixels else ())


def _values(image: AnnotatedImage, options: CocoOptions) -> tuple[Array, ...]:
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
