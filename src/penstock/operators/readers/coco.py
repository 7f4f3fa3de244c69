"""readers.coco: images with boxes, classes and outlines of the objects in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TypeVar, Unpack

from penstock.errors import DefinitionError, short_repr
from penstock.graph.arguments.argument_marks import DataLocation
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.formats.coco.coco_annotations import CocoOptions
from penstock.sources.formats.coco.coco_source import CocoSource
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps

Place = str | PathLike[str]
T = TypeVar("T")

_KEPT = ("polygon_masks", "count_coordinates", "pixelwise_masks", "image_ids")
"""The options that preprocessed annotations are read with."""


@operator("readers.coco")
def coco(
    *,
    file_root: DataLocation[Place],
    annotations_file: DataLocation[Place | None] = None,
    preprocessed_annotations: DataLocation[Place | None] = None,
    images: DataLocation[Sequence[str] | None] = None,
    ratio: bool = False,
    ltrb: bool = False,
    size_threshold: float = 0.1,
    include_iscrowd: bool = True,
    skip_empty: bool = False,
    avoid_class_remapping: bool = False,
    polygon_masks: bool = False,
    masks: bool = False,
    pixelwise_masks: bool = False,
    image_ids: bool = False,
    save_img_ids: bool = False,
    save_preprocessed_annotations: bool | None = None,
    save_preprocessed_annotations_dir: DataLocation[Place | None] = None,
    meta_files_path: DataLocation[Place | None] = None,
    dump_meta_files: bool | None = None,
    dump_meta_files_path: DataLocation[Place | None] = None,
    **loader: Unpack[ReaderArguments],
) -> list[DataNode]:
    """Read the images of a COCO data set, and the objects that are annotated in them.

    Images come in the order of their numbers in the annotations; objects in the order of the annotations.

    Args:
        file_root: the folder to which the names of the images are relative.
        annotations_file: the JSON file, such as ``instances_train2017.json``.
        preprocessed_annotations: instead of it, a folder that DALI or Penstock wrote with
            `save_preprocessed_annotations_dir`. Boxes and points are as the options said then, so only `polygon_masks`,
            `masks` and `image_ids` go with it.
        images: the names of the images to read, in that order; all by default.
        ratio: whether boxes and points are in parts of the image's width and height, not in pixels.
        ltrb: whether boxes are (left, top, right, bottom), not (left, top, width, height).
        size_threshold: objects whose width or height, in pixels, is less are left out.
        include_iscrowd: whether objects count that stand for many.
        skip_empty: whether images without objects are left out.
        avoid_class_remapping: whether classes are the categories' own numbers; else the first category of the file is
            1, the second 2, and so on.
        polygon_masks: whether to read outlines. Objects whose outline is run-length encoded have none.
        masks: an older form of `polygon_masks`, also where both are given: where a polygon starts and ends is counted
            in coordinates, two for each point.
        pixelwise_masks: whether to read the class of each pixel, from outlines of either kind; where objects overlap,
            the largest number. Needs the extra `coco`. (Of several objects of one class in an image, DALI loses some
            where one is run-length encoded.)
        image_ids: whether to read the images' numbers.
        save_img_ids: an older name of `image_ids`.
        save_preprocessed_annotations: whether to write what is read of the annotations, in DALI's form, for
            `preprocessed_annotations`; not with both `pixelwise_masks` and `ratio`.
        save_preprocessed_annotations_dir: the folder to write to, which exists. What it has of other annotations is
            replaced, also masks and numbers that are not read this time.
        meta_files_path: an older name of `preprocessed_annotations`.
        dump_meta_files: an older name of `save_preprocessed_annotations`.
        dump_meta_files_path: an older name of `save_preprocessed_annotations_dir`.
        **loader: See `ReaderArguments`.

    Returns:
        The images' bytes, uint8 of shape (?,); boxes, float32 (?, 4); classes, int32 (?,). With `polygon_masks` also
        int32 (?, 3), per polygon the object in its image, its first point and the one after its last (with `masks`
        twice that); and the points, float32 (?, 2), as (x, y). With `pixelwise_masks` also the classes of pixels, int32
        (height, width, 1), "HWC", 0 where no object is. With `image_ids` at last the image's number, int32 (1,).

    Raises:
        DefinitionError: both kinds of masks are asked for; not one kind of annotations is given; options that
            preprocessed annotations cannot take; one of the two arguments that save them without the other; an argument
            by its older name and by its name.
        MissingExtraError: `pixelwise_masks` without pycocotools.
        SourceNotFoundError: a path does not exist.
        SourceError: the annotations are damaged or cannot be saved, an image of `images` is not in them, or none is
            left.
        SampleError: while running, an image that cannot be read.

    Example:
        >>> import json, penstock, tempfile
        >>> from pathlib import Path
        >>> from penstock import fn
        >>> root = Path(tempfile.mkdtemp())
        >>> _ = (root / "cat.jpg").write_bytes(b"...")
        >>> _ = (root / "train.json").write_text(json.dumps({
        ...     "images": [{"id": 1, "file_name": "cat.jpg", "width": 100, "height": 50}],
        ...     "annotations": [{"image_id": 1, "category_id": 17, "bbox": [10, 20, 30, 15]}],
        ...     "categories": [{"id": 17, "name": "cat"}]}))
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     jpegs, boxes, labels = fn.readers.coco(file_root=root, annotations_file=root / "train.json", ltrb=True)
        ...     pipeline.set_outputs(boxes, labels)
        >>> [output.at(0).tolist() for output in pipeline.run()]
        [[[10.0, 20.0, 40.0, 35.0]], [1]]
    """
    if isinstance(images, str):
        raise DefinitionError(
            "fn.readers.coco: images is a list of names", given=short_repr(images), fix=f"[{images!r}]"
        )
    if (polygon_masks or masks) and pixelwise_masks:
        raise DefinitionError("fn.readers.coco gives masks as polygons or as pixels, not both", fix="choose one")
    preprocessed_annotations = _renamed(
        "preprocessed_annotations", preprocessed_annotations, "meta_files_path", meta_files_path
    )
    save = _renamed("save_preprocessed_annotations", save_preprocessed_annotations, "dump_meta_files", dump_meta_files)
    save_to = _renamed(
        "save_preprocessed_annotations_dir", save_preprocessed_annotations_dir,
        "dump_meta_files_path", dump_meta_files_path,
    )  # fmt: skip
    if (save and save_to is None) or (save is None and save_to is not None):
        raise DefinitionError(
            "fn.readers.coco: save_preprocessed_annotations and save_preprocessed_annotations_dir go together",
            given=f"save_preprocessed_annotations={save}, save_preprocessed_annotations_dir={save_to!r}",
            fix="give both, or neither",
        )
    if save and pixelwise_masks and ratio:
        raise DefinitionError(
            "fn.readers.coco saves pixelwise_masks in pixels, and ratio=True divides by the size", fix="leave one out"
        )
    options = CocoOptions(
        ratio=bool(ratio),
        ltrb=bool(ltrb),
        size_threshold=float(size_threshold),
        include_iscrowd=bool(include_iscrowd),
        skip_empty=bool(skip_empty),
        avoid_class_remapping=bool(avoid_class_remapping),
        polygon_masks=bool(polygon_masks or masks),
        count_coordinates=bool(masks),
        pixelwise_masks=bool(pixelwise_masks),
        image_ids=bool(image_ids or save_img_ids),
        save_to=fspath(save_to) if save and save_to is not None else None,
    )
    names = None if images is None else tuple(images)
    if (annotations_file is None) == (preprocessed_annotations is None):
        raise DefinitionError(
            "fn.readers.coco reads annotations_file or preprocessed_annotations",
            given="neither" if annotations_file is None else "both",
            fix="give one of them",
        )
    if annotations_file is not None:
        path = fspath(annotations_file)
        return apply_reader(
            open_shared(CocoSource, fspath(file_root), path, names, options, stamp=file_stamps(path)), loader
        )
    assert preprocessed_annotations is not None
    folder, kept = fspath(preprocessed_annotations), _KEPT
    asked = CocoOptions(**{name: getattr(options, name) for name in kept}, preprocessed=True)
    if names is not None or replace(options, preprocessed=True) != asked:
        raise DefinitionError(
            "preprocessed annotations are as the options said with which they were written",
            given=str(options) if names is None else "images",
            fix="give annotations_file, or leave out all options but the masks and image_ids",
        )
    stamp = file_stamps(*sorted(Path(folder).glob("*.dat")))
    return apply_reader(open_shared(CocoSource, fspath(file_root), folder, None, asked, stamp=stamp), loader)


def _renamed(name: str, value: T | None, older: str, given: T | None) -> T | None:
    """The value of an argument that has an older name, too."""
    if value is not None and given is not None:
        raise DefinitionError(f"fn.readers.coco: {older} is an older name of {name}", fix=f"leave out {older}")
    return given if value is None else value
