"""readers.coco: images with boxes, labels and masks of COCO data sets."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import TypeVar, Unpack

from penstock.errors import DefinitionError
from penstock.graph import DataLocation, DataNode, operator
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.formats.coco.coco_annotations import CocoOptions
from penstock.sources.formats.coco.coco_source import CocoSource
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps

Place = str | PathLike[str]
T = TypeVar("T")

# Options that apply to preprocessed annotations, too. The others took effect when these were written.
_READ_OPTIONS = ("polygon_masks", "count_coordinates", "pixelwise_masks", "image_ids")


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
    """Read the images of a COCO data set and the annotations of their objects.

    Images come in the order of their IDs; the objects of an image in the order of the annotations.

    Args:
        file_root: Folder that the file names of the images are relative to.
        annotations_file: JSON file, such as ``instances_train2017.json``.
        preprocessed_annotations: Folder that DALI or Penstock wrote with `save_preprocessed_annotations_dir`, in place
            of `annotations_file`. The options at that time determine boxes and vertices, so only `polygon_masks`,
            `masks` and `image_ids` can be combined with it.
        images: File names of the images to read, in this order; all images by default.
        ratio: If True, boxes and vertices are fractions of the width and height of the image instead of pixels.
        ltrb: If True, boxes are (left, top, right, bottom) instead of (left, top, width, height).
        size_threshold: Least width and height of an object, in pixels; smaller objects are left out.
        include_iscrowd: If True, crowd annotations are included.
        skip_empty: If True, images without objects are left out.
        avoid_class_remapping: If True, labels are the category IDs. By default, the first category of the file is 1,
            the second 2, and so on.
        polygon_masks: If True, polygons are returned. Objects with run-length encoded masks do not have any.
        masks: Older form of `polygon_masks`, and effective with it: offsets count coordinates, two per vertex.
        pixelwise_masks: If True, the label of each pixel is returned, from polygons and run-length encoded masks; where
            objects overlap, the largest label. Requires the extra `coco`. (DALI loses some objects if an image has
            several of one class and one of them is run-length encoded.)
        image_ids: If True, image IDs are returned.
        save_img_ids: Older name of `image_ids`.
        save_preprocessed_annotations: If True, the annotations are written in DALI's form, for
            `preprocessed_annotations`. Cannot be combined with both `pixelwise_masks` and `ratio`.
        save_preprocessed_annotations_dir: Existing folder to write to. Annotations in it are replaced, including masks
            and IDs that are not read this time.
        meta_files_path: Older name of `preprocessed_annotations`.
        dump_meta_files: Older name of `save_preprocessed_annotations`.
        dump_meta_files_path: Older name of `save_preprocessed_annotations_dir`.
        **loader: See `ReaderArguments`.

    Returns:
        Bytes of the images, uint8 (n,); boxes, float32 (objects, 4); labels, int32 (objects,). With `polygon_masks`,
        polygons, int32 (polygons, 3): the index of the object, of the first vertex, and of the one after the last (with
        `masks` twice the latter two); and vertices, float32 (vertices, 2), as (x, y). With `pixelwise_masks`, labels of
        pixels, int32 (height, width, 1), layout HWC, 0 for the background. With `image_ids`, the ID, int32 (1,), as the
        last output.

    Raises:
        DefinitionError: Both kinds of masks are requested; not exactly one kind of annotations is given; an option
            cannot be combined with preprocessed annotations; one of the two arguments that save annotations lacks the
            other; or an argument is given by both its names.
        MissingExtraError: `pixelwise_masks` without pycocotools.
        SourceNotFoundError: A path does not exist.
        SourceError: The annotations are damaged or cannot be saved, an entry of `images` is not in them, or no image
            remains.
        SampleError: While running, an image cannot be read.

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
    if (polygon_masks or masks) and pixelwise_masks:
        raise DefinitionError("polygon_masks and pixelwise_masks cannot be combined", fix="leave one out")
    preprocessed_annotations = _renamed(
        "preprocessed_annotations", preprocessed_annotations, "meta_files_path", meta_files_path
    )
    save = _renamed("save_preprocessed_annotations", save_preprocessed_annotations, "dump_meta_files", dump_meta_files)
    save_to = _renamed(
        "save_preprocessed_annotations_dir", save_preprocessed_annotations_dir,
        "dump_meta_files_path", dump_meta_files_path,
    )  # fmt: skip
    # save=False with a folder is allowed, to switch saving off in one place.
    if (save and save_to is None) or (save is None and save_to is not None):
        raise DefinitionError(
            "save_preprocessed_annotations and save_preprocessed_annotations_dir must be set together",
            given=f"save_preprocessed_annotations={save}, save_preprocessed_annotations_dir={save_to!r}",
            fix="give both, or neither",
        )
    # The saved vertices would be fractions of the size, but masks are drawn from vertices in pixels.
    if save and pixelwise_masks and ratio:
        raise DefinitionError(
            "pixelwise_masks, which are in pixels, cannot be saved together with ratio=True", fix="leave one out"
        )
    options = CocoOptions(
        ratio=ratio,
        ltrb=ltrb,
        size_threshold=float(size_threshold),
        include_iscrowd=include_iscrowd,
        skip_empty=skip_empty,
        avoid_class_remapping=avoid_class_remapping,
        polygon_masks=polygon_masks or masks,
        count_coordinates=masks,
        pixelwise_masks=pixelwise_masks,
        image_ids=image_ids or save_img_ids,
        save_to=fspath(save_to) if save and save_to is not None else None,
    )
    names = None if images is None else tuple(images)
    if (annotations_file is None) == (preprocessed_annotations is None):
        raise DefinitionError(
            "exactly one of annotations_file and preprocessed_annotations must be set",
            given="neither" if annotations_file is None else "both",
            fix="give one of them",
        )
    if annotations_file is not None:
        path = fspath(annotations_file)
        source = open_shared(CocoSource, fspath(file_root), path, names, options, stamp=file_stamps(path))
        return apply_reader(source, loader)
    assert preprocessed_annotations is not None
    folder = fspath(preprocessed_annotations)
    read_options = CocoOptions(**{name: getattr(options, name) for name in _READ_OPTIONS}, preprocessed=True)
    # Boxes and labels were computed when the files were written. Other options cannot change them any more.
    if names is not None or replace(options, preprocessed=True) != read_options:
        raise DefinitionError(
            "options of preprocessed annotations cannot be changed after they were written",
            given=str(options) if names is None else "images",
            fix="give annotations_file, or leave out all options but the masks and image_ids",
        )
    # DALI and Penstock write one .dat file per kind of annotation.
    stamp = file_stamps(*sorted(Path(folder).glob("*.dat")))
    return apply_reader(open_shared(CocoSource, fspath(file_root), folder, None, read_options, stamp=stamp), loader)


def _renamed(name: str, value: T | None, older: str, older_value: T | None) -> T | None:
    """Return the value of an argument that also has an older name."""
    if value is not None and older_value is not None:
        raise DefinitionError(f"{older} is an older name of {name}", fix=f"leave out {older}")
    return older_value if value is None else value
