"""readers.coco: images with boxes, classes and outlines of the objects in them."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Unpack

from penstock.data.coco import CocoOptions, CocoSource
from penstock.data.source import shared, stamp_of
from penstock.errors import DefinitionError
from penstock.graph.call import Location
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode
from penstock.operators.readers.loader import LoaderArguments, load

Path = str | PathLike[str]


@operator("readers.coco")
def coco(
    *,
    file_root: Location[Path],
    annotations_file: Location[Path],
    images: Location[Sequence[str] | None] = None,
    ratio: bool = False,
    ltrb: bool = False,
    size_threshold: float = 0.1,
    include_iscrowd: bool = True,
    skip_empty: bool = False,
    avoid_class_remapping: bool = False,
    polygon_masks: bool = False,
    image_ids: bool = False,
    save_img_ids: bool = False,
    **loader: Unpack[LoaderArguments],
) -> tuple[DataNode, ...]:
    """Read the images of a COCO data set, and the objects that are annotated in them.

    Images come in the order of their numbers in the annotations; objects in the order of the annotations.

    Args:
        file_root: the folder to which the names of the images are relative.
        annotations_file: the JSON file, such as ``instances_train2017.json``.
        images: the names of the images to read, in that order; all by default.
        ratio: whether boxes and points are in parts of the image's width and height, not in pixels.
        ltrb: whether boxes are (left, top, right, bottom), not (left, top, width, height).
        size_threshold: objects whose width or height, in pixels, is less are left out.
        include_iscrowd: whether objects count that stand for many.
        skip_empty: whether images without objects are left out.
        avoid_class_remapping: whether classes are the categories' own numbers; else the first category of the file is
            1, the second 2, and so on.
        polygon_masks: whether to read outlines. Objects whose outline is run-length encoded have none.
        image_ids: whether to read the images' numbers.
        save_img_ids: an older name of `image_ids`.
        **loader: order and shard, as `penstock.operators.readers.loader.LoaderArguments` describes them.

    Returns:
        The images' bytes, uint8 of shape (?,); boxes, float32 (?, 4); classes, int32 (?,). With `polygon_masks` also
        int32 (?, 3), per polygon the object in its image, its first point and the one after its last; and the points,
        float32 (?, 2), as (x, y). With `image_ids` at last the image's number, int32 (1,).

    Raises:
        SourceNotFoundError: a path does not exist.
        SourceError: the annotations are damaged, an image of `images` is not in them, or none is left.
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
        raise DefinitionError("fn.readers.coco: images is a list of names", given=repr(images), fix=f"[{images!r}]")
    options = CocoOptions(
        ratio=bool(ratio),
        ltrb=bool(ltrb),
        size_threshold=float(size_threshold),
        include_iscrowd=bool(include_iscrowd),
        skip_empty=bool(skip_empty),
        avoid_class_remapping=bool(avoid_class_remapping),
        polygon_masks=bool(polygon_masks),
        image_ids=bool(image_ids or save_img_ids),
    )
    path, names = fspath(annotations_file), None if images is None else tuple(images)
    return load(shared(CocoSource, fspath(file_root), path, names, options, stamp=stamp_of(path)), loader)
