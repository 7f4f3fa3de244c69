"""Preprocessed COCO annotations in DALI's format: a folder written by `save_preprocessed_annotations_dir`.

Each file contains the number of its entries (uint32) and then the entries. Boxes and points have the form of the
options with which they were written; options for reading do not change them.
"""

import contextlib
import struct
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.core.atomic_files import write_atomically
from penstock.errors import SourceError, SourceNotFoundError
from penstock.sources.formats.coco.coco_annotations import AnnotatedImage
from penstock.sources.formats.coco.segmentation_masks import Segmentation, parse_segmentation, run_lengths
from penstock.sources.storage.disk_cache import read_input

NAMES = "filenames.dat"
_RUNS = "masks_rles.dat"
# Files that only some options write.
_MORE = (
    *("original_ids", "polygon_data", "polygon_offset", "polygons_count"),
    *("vertices", "vertices_offset", "vertices_count"),
    *("heights", "widths", "mask_count", "masks_offset", "masks_rles", "masks_rles_idx"),
)


def read_preprocessed(folder: str, *, polygons: bool, pixels: bool, numbers: bool) -> list[AnnotatedImage]:
    """Return the images in the order in which they were written.

    Args:
        folder: Folder of the files.
        polygons: True to read polygons.
        pixels: True to read all outlines.
        numbers: True to read the image ids; otherwise images are numbered from 0.

    Raises:
        SourceNotFoundError: A file is missing.
        SourceError: A file is damaged, or does not match the others.
    """
    # File names may contain any bytes; `os.fsencode` restores them.
    names = _content(folder, NAMES).decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
    count = len(names)
    boxes, classes = _entries(folder, "boxes", np.float32).reshape(-1, 4), _entries(folder, "labels", np.int32)
    objects = _parts(folder, "offsets", "counts", np.int32, count, len(boxes))
    if len(boxes) != len(classes):
        raise _damaged(folder, "boxes.dat", f"{len(boxes)} boxes and {len(classes)} classes")
    ids = _entries(folder, "original_ids", np.int32) if numbers else np.arange(count)
    if len(ids) != count:
        raise _damaged(folder, "original_ids.dat", f"{len(ids)} numbers of {count} images")
    images = [
        AnnotatedImage(int(number), name, (0, 0), boxes[part].tolist(), classes[part].tolist())
        for number, name, part in zip(ids, names, objects, strict=True)
    ]
    if polygons or pixels:
        _add_polygons(folder, images)
    if pixels:
        _add_outlines(folder, images)
    return images


def write_preprocessed(
    folder: str,
    names: Sequence[bytes],
    values: Sequence[Sequence[Array]],
    ids: Array | None,
    outlined: Sequence[AnnotatedImage] = (),
) -> None:
    """Write a folder for `read_preprocessed`. A folder with the same content is not touched.

    Args:
        folder: Folder to write to; other annotations in it are replaced.
        names: Names of the images.
        values: For each image the boxes and classes, and with outlines the polygons and points.
        ids: Image ids, or None to omit them.
        outlined: Images whose sizes and run lengths are written.

    Raises:
        SourceNotFoundError: The folder does not exist.
        SourceError: The folder cannot be written, or a name contains a line break.
    """
    place = Path(folder)
    if not place.is_dir():
        raise SourceNotFoundError(f"save_preprocessed_annotations_dir is not a folder: {folder!r}", fix="create it")
    broken = next((name for name in names if b"\n" in name), None)
    if broken is not None:
        raise SourceError(f"preprocessed annotations cannot contain the image {broken!r}: its name has a line break")
    boxes, classes, *outlines = zip(*values, strict=True)
    entries = {"boxes": np.concatenate(boxes).ravel(), "labels": np.concatenate(classes)}
    entries |= _places("offsets", "counts", np.int32, boxes)
    if ids is not None:
        entries["original_ids"] = ids
    if outlines:
        polygons, points = outlines
        entries |= {"polygon_data": np.concatenate(polygons), "vertices": np.concatenate(points)}
        entries |= _places("polygon_offset", "polygons_count", np.int64, polygons)
        entries |= _places("vertices_offset", "vertices_count", np.int64, points)
    if outlined:
        width, height = np.array([image.size for image in outlined], np.int32).T
        numbers = [_with_runs(image) for image in outlined]
        entries |= {"widths": width, "heights": height, "masks_rles_idx": np.array(list(chain(*numbers)), np.int32)}
        entries |= _places("masks_offset", "mask_count", np.int64, numbers)
    contents = {
        f"{name}.dat": len(rows).to_bytes(4, "little") + rows.astype(rows.dtype.newbyteorder("<")).tobytes()
        for name, rows in entries.items()
    }
    contents |= _run_lengths(outlined)
    contents[NAMES] = b"".join(name + b"\n" for name in names)
    try:
        names_of_files = [*contents, *(f"{name}.dat" for name in _MORE)]
        existing = {name: (place / name).read_bytes() for name in names_of_files if (place / name).is_file()}
        # An identical folder is not rewritten: that could disturb a process that reads it.
        if existing == contents:
            return
        for name in (NAMES, *(existing.keys() - contents.keys())):
            # The file of names is removed first and written last, so that a partial folder is not readable.
            (place / name).unlink(missing_ok=True)
        for name, content in contents.items():
            write_atomically(place / name, [content])
            # Temporary files are private to the user; the result gets the folder's read permissions.
            with contextlib.suppress(OSError):
                (place / name).chmod(place.stat().st_mode & 0o666)
    except OSError as error:
        raise SourceError(f"{folder!r} cannot be written: {error.strerror}") from error


def _with_runs(image: AnnotatedImage) -> list[int]:
    """Return the numbers of an image's objects that have run lengths."""
    return [number for number, (_, outline) in enumerate(image.outlines) if outline.runs is not None]


def _run_lengths(outlined: Sequence[AnnotatedImage]) -> dict[str, bytes]:
    """Return the file of run lengths; each entry begins with height and width of its image and the number of runs."""
    parts: list[bytes] = []
    for image in outlined:
        for number in _with_runs(image):
            try:
                counts = np.array(run_lengths(image.outlines[number][1].runs), "<u4")
            except (ValueError, OverflowError) as error:
                raise SourceError(f"the image {image.name!r} is annotated with {error}") from error
            width, height = map(int, image.size)
            parts.append(struct.pack("<3q", height, width, len(counts)) + counts.tobytes())
    return {_RUNS: len(parts).to_bytes(4, "little") + b"".join(parts)} if outlined else {}


def _places(starts: str, counts: str, dtype: Any, column: Sequence[Sequence[Any] | Array]) -> dict[str, Array]:
    """Return the index of each image's first entry, and the number of its entries."""
    lengths = np.array([len(entries) for entries in column], dtype)
    return {starts: np.cumsum(lengths, dtype=dtype) - lengths, counts: lengths}


def _add_polygons(folder: str, images: list[AnnotatedImage]) -> None:
    outlines = _entries(folder, "polygon_data", np.int32, 3)
    points = _entries(folder, "vertices", np.float32, 2)
    kinds = np.int64, len(images)
    of_image = _parts(folder, "polygon_offset", "polygons_count", *kinds, len(outlines))
    points_of = _parts(folder, "vertices_offset", "vertices_count", *kinds, len(points))
    for image, part, corners in zip(images, of_image, points_of, strict=True):
        image_points = points[corners]
        for number, start, stop in outlines[part].tolist():
            if not (0 <= number < len(image.boxes) and 0 <= start <= stop <= len(image_points)):
                raise _damaged(folder, "polygon_data.dat", f"a polygon of {image.name!r} refers to missing points")
            image.polygons.append((number, image_points[start:stop].ravel().tolist()))


def _add_outlines(folder: str, images: list[AnnotatedImage]) -> None:
    sizes = np.stack([_entries(folder, name, np.int32) for name in ("widths", "heights")], 1).tolist()
    numbers = _entries(folder, "masks_rles_idx", np.int32)
    of_image = _parts(folder, "masks_offset", "mask_count", np.int64, len(images), len(numbers))
    content, at, runs = _content(folder, _RUNS), 4, list[tuple[int, int, list[int]]]()
    for _ in range(int.from_bytes(content[:4], "little")):
        if len(content) < at + 24:
            raise _damaged(folder, _RUNS, "it is cut short")
        height, width, count = struct.unpack_from("<3q", content, at)
        # Checked against the bytes that are left, so that a damaged count cannot allocate memory.
        if not 0 <= count <= (len(content) - at - 24) // 4:
            raise _damaged(folder, _RUNS, f"{count} run lengths")
        runs.append((width, height, np.frombuffer(content, "<u4", count, at + 24).tolist()))
        at += 24 + 4 * count
    if not (len(sizes) == len(images) and len(runs) == len(numbers) and at == len(content)):
        raise _damaged(folder, _RUNS, f"{len(runs)} masks for {len(numbers)} objects of {len(sizes)} images")
    for image, size, part in zip(images, sizes, of_image, strict=True):
        image.size = size[0], size[1]
        polygons: list[list[list[float]]] = [[] for _ in image.boxes]
        for number, polygon in image.polygons:
            polygons[number].append(polygon)
        try:
            outlines = [parse_segmentation(polygon_list) for polygon_list in polygons]
        except ValueError as error:
            raise _damaged(folder, "vertices.dat", f"{image.name!r} has {error}") from error
        for number, (width, height, counts) in zip(numbers[part].tolist(), runs[part], strict=True):
            if not (0 <= number < len(outlines) and [width, height] == size):
                raise _damaged(folder, _RUNS, f"a mask of {image.name!r} belongs to another image")
            outlines[number] = Segmentation(runs=counts)
        image.outlines[:] = zip(image.classes, outlines, strict=True)


def _parts(folder: str, starts: str, counts: str, dtype: Any, images: int, most: int) -> list[slice]:
    """Return the slice of entries of each image."""
    first, number = (_entries(folder, name, dtype).astype(np.int64) for name in (starts, counts))
    if not len(first) == len(number) == images:
        raise _damaged(folder, f"{counts}.dat", f"{len(number)} numbers of {images} images")
    # `first > most - number` instead of `first + number > most`, which could overflow int64 in a damaged file.
    if (first < 0).any() or (number < 0).any() or (first > most - number).any():
        raise _damaged(folder, f"{counts}.dat", "an image refers to missing entries")
    return [slice(start, start + length) for start, length in zip(first.tolist(), number.tolist(), strict=True)]


def _entries(folder: str, name: str, dtype: Any, width: int = 1) -> Array:
    """Return the entries of a file, of `width` numbers each."""
    content = _content(folder, f"{name}.dat")
    count = int.from_bytes(content[:4], "little")
    size = np.dtype(dtype).itemsize
    if len(content) != 4 + count * width * size:
        raise _damaged(folder, f"{name}.dat", f"{len(content)} bytes for {count} entries")
    values: Array = np.frombuffer(content, np.dtype(dtype).newbyteorder("<"), offset=4)
    if not np.isfinite(values).all():
        raise _damaged(folder, f"{name}.dat", "numbers that are not finite")
    return values.reshape(-1, width) if width > 1 else values


def _content(folder: str, name: str) -> bytes:
    try:
        return read_input(_path(folder, name), "annotations file")
    except SourceNotFoundError as error:
        raise SourceNotFoundError(
            f"preprocessed_annotations does not contain {name}: {folder!r}",
            fix="write the folder again with the same masks and ids, or pass annotations_file",
        ) from error


def _path(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def _damaged(folder: str, name: str, what: str) -> SourceError:
    return SourceError(f"{_path(folder, name)!r} is damaged: {what}")
