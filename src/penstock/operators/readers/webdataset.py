"""readers.webdataset: samples in tar files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, cast

import numpy as np

from penstock.errors import DefinitionError, did_you_mean, short_repr
from penstock.graph.arguments.argument_marks import DataLocation
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.decoders.image import image
from penstock.operators.decoders.numpy import numpy as decode_numpy
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_shards
from penstock.sources.formats.tar.webdataset_source import NUMBERS, Components, WebdatasetSource, kind_of
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps
from penstock.types import DALIDataType, as_dtype

_MISSING = ("empty", "skip", "error")
_JPEG = ("jpg", "jpeg", "jpe", "jfif", "jp2", "j2k", "j2c", "jpc", "jpf", "jpx")
_IMAGES = (*_JPEG, "png", "apng", "bmp", "tif", "tiff", "webp", "pbm", "pgm", "ppm", "pnm")
"""Extensions of images that are decoded: of formats that `fn.decoders.image` reads."""
_HOW = {**dict.fromkeys(_IMAGES, "image"), **dict.fromkeys(NUMBERS, "number"), "npy": "array"}


@operator("readers.webdataset")
def webdataset(
    *,
    paths: DataLocation[Path | Sequence[Path]],
    ext: str | Sequence[str],
    index_paths: DataLocation[Path | Sequence[Path] | None] = None,
    missing_component_behavior: str = "empty",
    case_sensitive_extensions: bool = True,
    dtypes: DALIDataType | Any = None,
    decode: bool = False,
    **loader: Unpack[ReaderArguments],
) -> DataNode | list[DataNode]:
    """Read samples from tar files in the manner of WebDataset.

    Files that follow each other and share their names up to the first dot are one sample; the rest of the name is the
    extension. ``7.jpg`` and ``7.seg.png`` are two components of one sample, "jpg" and "seg.png". Hidden files do not
    count.

    With `decode`, a component is what its extension says, as in WebDataset: images (jpg, png, webp, ...) are decoded by
    `fn.decoders.image`, npy by `fn.decoders.numpy`, and cls, cls2, class, count, index, inx and id are whole numbers, a
    scalar int64 each. Text (txt, json) stays as its bytes, since arrays hold no text and no dictionaries:
    ``json.loads(bytes(x))`` in a `fn.python_function` reads it. All else stays as it is; nothing is unpickled.

    Args:
        paths: a tar file, a folder of them, a glob, or a brace pattern such as ``train-{000..012}.tar``; or several,
            read one after the other. Not compressed. In an object store, a folder ends with a slash.
        ext: an extension per output, or several between semicolons, of which the first that a sample has is read.
        index_paths: an index for each file, as DALI's ``wds2idx`` writes them; also a folder, glob or pattern.
            Without them all headers are read when the reader is made; give them where that takes too long.
        missing_component_behavior: what becomes of samples that lack a component: it is "empty", they are left out
            ("skip"), or the reader is refused ("error").
        case_sensitive_extensions: whether upper and lower case of extensions differ.
        dtypes: as what the bytes of each output are read, uint8 by default; one type is for all. With another integer
            type, the text of a number is that number if its extension is one of text or numbers (cls, txt, ...). With
            `decode`, the type of numbers, arrays and pixels; None for their own.
        decode: whether components are decoded by their extensions.
        **loader: See `ReaderArguments`.

    Returns:
        A node per entry of `ext`, of shape (?,).

    Raises:
        SourceNotFoundError: a file does not exist.
        SourceError: a file is no tar file, is compressed, cut short or damaged, a sample has two files of one name, or
            no sample is left.
        DefinitionError: no extensions, another number of types than of extensions, or of indexes than of files; with
            `decode`, extensions of one output that are decoded in different ways, or a first array that is damaged.
        SampleError: while running, a file that has been written to, or whose bytes are not of the type, or cannot be
            decoded; a sample that lacks a component to be decoded.

    Example:
        >>> import io, penstock, tarfile, tempfile
        >>> from penstock import fn
        >>> folder = tempfile.mkdtemp()
        >>> with tarfile.open(folder + "/train-0.tar", "w") as file:
        ...     for name, content in {"1.txt": b"one", "1.cls": b"1", "2.txt": b"two", "2.cls": b"2"}.items():
        ...         entry = tarfile.TarInfo(name)
        ...         entry.size = len(content)
        ...         file.addfile(entry, io.BytesIO(content))
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     texts, classes = fn.readers.webdataset(paths=folder, ext=["txt", "cls"], decode=True)
        ...     pipeline.set_outputs(texts, classes)
        >>> texts, classes = pipeline.run()
        >>> [bytes(text) for text in texts], classes.as_array().tolist()
        ([b'one', b'two'], [1, 2])
    """
    files, indexes = as_shards(paths, ".tar"), as_shards(index_paths, ".idx")
    wanted = [ext] if isinstance(ext, str) else list(ext)
    missing = missing_component_behavior or "empty"
    if not files or not wanted:
        raise DefinitionError(f"fn.readers.webdataset: {'ext' if files else 'paths'} is empty")
    if missing not in _MISSING:
        raise DefinitionError(
            "fn.readers.webdataset: no such missing_component_behavior",
            given=short_repr(missing), expected=", ".join(_MISSING), fix=did_you_mean(missing, _MISSING),
        )  # fmt: skip
    if indexes and len(indexes) != len(files):
        raise DefinitionError(
            "fn.readers.webdataset: an index per file", given=f"{len(indexes)} for {len(files)} files",
            fix="leave index_paths out, and they are made",
        )  # fmt: skip
    given: list[Any] = list(cast(list[Any], dtypes)) if isinstance(dtypes, list | tuple) else [dtypes]
    if len(given) not in (1, len(wanted)):
        raise DefinitionError("fn.readers.webdataset: a type per extension", given=len(given), expected=len(wanted))
    types = [None if each is None else as_dtype(each) for each in given * (len(wanted) // len(given))]
    cased = bool(case_sensitive_extensions)
    extensions = tuple(frozenset((each if cased else each.lower()).split(";")) for each in wanted)
    decoded = [_decoded(each) if decode else "" for each in extensions]
    source = open_shared(
        WebdatasetSource,
        files,
        indexes,
        Components(extensions, cased, missing),
        tuple(map(_stored, decoded, types)),
        frozenset(output for output, how in enumerate(decoded) if how == "number"),
        stamp=file_stamps(*files, *indexes),
    )
    nodes = [_decode(*each) for each in zip(apply_reader(source, loader), decoded, types, strict=True)]
    return nodes if len(nodes) > 1 else nodes[0]


def _decoded(extensions: frozenset[str]) -> str:
    """How the components of an output are decoded: "image", "array", "number", or "" for those that are not.

    Raises:
        DefinitionError: not all in the same way.
    """
    kinds = {_HOW.get(kind_of(each), "") for each in extensions}
    if len(kinds) > 1:
        raise DefinitionError(
            "fn.readers.webdataset: extensions of one output are decoded in different ways",
            given=";".join(sorted(extensions)),
            fix="an output for each, or decode=False",
        )
    return kinds.pop()


def _stored(how: str, dtype: np.dtype[Any] | None) -> np.dtype[Any]:
    """As what the bytes of an output are read, before they are decoded."""
    if how == "number":
        return dtype or np.dtype(np.int64)
    return dtype if dtype and not how else np.dtype(np.uint8)


def _decode(data: DataNode, how: str, dtype: np.dtype[Any] | None) -> DataNode:
    """The decoded values of an output."""
    if how == "image":
        return image(data) if dtype is None else image(data, dtype=dtype)
    return decode_numpy(data, dtype=dtype) if how == "array" else data
