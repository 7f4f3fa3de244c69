"""readers.webdataset: samples in tar files, in the convention of WebDataset."""

from collections.abc import Sequence
from typing import Any, Literal, Unpack, cast

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph import DataLocation, DataNode, operator
from penstock.operators.decoders.image import image
from penstock.operators.decoders.numpy import numpy as decode_numpy
from penstock.operators.readers.paths import check_not_empty, pair_indexes
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader, shuffled_once
from penstock.sources.files.path_arguments import Path, as_shards
from penstock.sources.formats.tar.webdataset_source import NUMBERS, Components, WebdatasetSource, kind_of
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps
from penstock.types import DALIDataType, as_dtype

_JPEG = ("jpg", "jpeg", "jpe", "jfif", "jp2", "j2k", "j2c", "jpc", "jpf", "jpx")
# Extensions of the formats that `fn.decoders.image` reads.
_IMAGES = (*_JPEG, "png", "apng", "bmp", "tif", "tiff", "webp", "pbm", "pgm", "ppm", "pnm")
# Decoders by extension, after the conventions of WebDataset. Extensions that are not here, such as "pyd", stay bytes.
_DECODERS = {**dict.fromkeys(_IMAGES, "image"), **dict.fromkeys(NUMBERS, "number"), "npy": "array"}


@operator("readers.webdataset")
def webdataset(
    *,
    paths: DataLocation[Path | Sequence[Path]],
    ext: str | Sequence[str],
    index_paths: DataLocation[Path | Sequence[Path] | None] = None,
    missing_component_behavior: Literal["empty", "skip", "error", ""] = "empty",
    case_sensitive_extensions: bool = True,
    dtypes: DALIDataType | Any = None,
    decode: bool = False,
    **loader: Unpack[ReaderArguments],
) -> DataNode | list[DataNode]:
    """Read samples from tar files in the convention of WebDataset.

    Consecutive files whose names are equal up to the first dot are one sample; the rest of the name is the extension.
    ``7.jpg`` and ``7.seg.png`` are two components of one sample, "jpg" and "seg.png". Hidden files are skipped.

    With `decode`, the extension determines the type, as in WebDataset: `fn.decoders.image` decodes images (jpg, png,
    webp, ...), `fn.decoders.numpy` decodes npy, and cls, cls2, class, count, index, inx and id become int64 scalars.
    Text (txt, json) stays bytes, because arrays cannot hold text or dictionaries; parse it with
    ``json.loads(bytes(x))`` in a `fn.python_function`. All other components stay bytes; pickles are never loaded.

    Args:
        paths: A tar file, a folder of them, a glob, or a brace pattern such as ``train-{000..012}.tar``; or a list of
            these, read one after the other. Files must not be compressed. In an object store, a folder ends with a
            slash.
        ext: An extension per output. Alternatives are separated by semicolons; the first that a sample has is read.
        index_paths: An index per file, as DALI's ``wds2idx`` writes them; also a folder, glob or pattern. Indexes
            belong to the files of the same names, or to those at the same places if names differ. Without indexes, all
            headers are read when the reader is created; give indexes if that takes too long.
        missing_component_behavior: Handling of samples that lack a component: "empty" returns an empty array, "skip"
            leaves the sample out, "error" rejects the data set.
        case_sensitive_extensions: If True, extensions distinguish upper and lower case.
        dtypes: Type of each output, uint8 by default; one for all or a list. Bytes are reinterpreted as this type; but
            components with an extension of text or numbers (cls, txt, ...) are parsed if it is an integer type other
            than uint8, unless they are binary. With `decode`, the type of numbers, arrays and pixels; None keeps
            theirs.
        decode: If True, components are decoded by their extensions.
        **loader: See `ReaderArguments`.

    Returns:
        A node per entry of `ext`, of shape (n,) unless it is decoded.

    Raises:
        SourceNotFoundError: A file does not exist.
        SourceError: A file is not a tar file, is compressed, truncated or damaged, an index belongs to another file, a
            sample has two files of one name, or no samples remain.
        DefinitionError: `ext` is empty, the number of dtypes is not that of extensions, or that of indexes not that of
            files; with `decode`, the extensions of one output need different decoders, or the first array is damaged.
        SampleError: While running, a file was changed, its bytes are not of the type or cannot be decoded, or a sample
            lacks a component to decode.

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
    entries = [ext] if isinstance(ext, str) else list(ext)
    check_not_empty(paths=files, ext=entries)
    indexes = pair_indexes("index_paths", indexes, files, ".tar")
    listed: list[Any] = list(cast(list[Any], dtypes)) if isinstance(dtypes, list | tuple) else [dtypes]
    if len(listed) not in (1, len(entries)):
        raise DefinitionError("dtypes must have one entry per ext", given=len(listed), expected=len(entries))
    types = [None if dtype is None else as_dtype(dtype) for dtype in listed * (len(entries) // len(listed))]
    cased = [entry if case_sensitive_extensions else entry.lower() for entry in entries]
    extensions = tuple(frozenset(entry.split(";")) for entry in cased)
    decoders = [_decoder_of(names) if decode else "" for names in extensions]
    source = open_shared(
        WebdatasetSource,
        files,
        indexes,
        # DALI's default is "", which stands for "empty".
        Components(extensions, case_sensitive_extensions, missing_component_behavior or "empty"),
        tuple(map(_stored_dtype, decoders, types)),
        # The source parses numbers while it reads; images and arrays are decoded by operators after it.
        frozenset(output for output, decoder in enumerate(decoders) if decoder == "number"),
        stamp=file_stamps(*files, *indexes),
    )
    # Decoders are ordinary nodes after the reader, so that `fn.resize` and crops can fuse with them.
    nodes = list(map(_decode, apply_reader(source, shuffled_once(loader)), decoders, types))
    return nodes if len(nodes) > 1 else nodes[0]


def _decoder_of(extensions: frozenset[str]) -> str:
    """Return the decoder of the components of an output: "image", "array", "number", or "" for none.

    Raises:
        DefinitionError: The extensions need different decoders, so that the output would not have one type.
    """
    kinds = {_DECODERS.get(kind_of(extension), "") for extension in extensions}
    if len(kinds) > 1:
        raise DefinitionError(
            "all extensions of one output must have the same decoder",
            given=";".join(sorted(extensions)),
            fix="an output per extension, or decode=False",
        )
    return kinds.pop()


def _stored_dtype(decoder: str, dtype: np.dtype[Any] | None) -> np.dtype[Any]:
    """Return the type that the source reads an output as, before it is decoded."""
    if decoder == "number":
        return dtype or np.dtype(np.int64)
    return dtype if dtype and not decoder else np.dtype(np.uint8)


def _decode(data: DataNode, decoder: str, dtype: np.dtype[Any] | None) -> DataNode:
    """Return the decoded values of an output."""
    if decoder == "image":
        return image(data) if dtype is None else image(data, dtype=dtype)
    return decode_numpy(data, dtype=dtype) if decoder == "array" else data
