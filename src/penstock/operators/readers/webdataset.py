"""readers.webdataset: samples in tar files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, cast

import numpy as np

from penstock.data.paths import Path, as_paths
from penstock.data.source import shared, stamp_of
from penstock.data.webdataset import Components, WebdatasetSource
from penstock.errors import DefinitionError, did_you_mean, shown
from penstock.graph.call import Location
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode
from penstock.operators.readers.loader import LoaderArguments, load
from penstock.types import DALIDataType, as_dtype

_MISSING = ("empty", "skip", "error")


@operator("readers.webdataset")
def webdataset(
    *,
    paths: Location[Path | Sequence[Path]],
    ext: str | Sequence[str],
    index_paths: Location[Path | Sequence[Path] | None] = None,
    missing_component_behavior: str = "empty",
    case_sensitive_extensions: bool = True,
    dtypes: DALIDataType | Any = None,
    **loader: Unpack[LoaderArguments],
) -> DataNode | list[DataNode]:
    """Read samples from tar files in the manner of WebDataset.

    Files that follow each other and share their names up to the first dot are one sample; the rest of the name is the
    extension. ``7.jpg`` and ``7.seg.png`` are two components of one sample, "jpg" and "seg.png". Hidden files do not
    count.

    Args:
        paths: a tar file, or several, read one after the other; not compressed.
        ext: an extension per output, or several between semicolons, of which the first that a sample has is read.
        index_paths: an index for each file, as DALI's ``wds2idx`` writes them. Without them all headers are read when
            the reader is made; give them where that takes too long.
        missing_component_behavior: what becomes of samples that lack a component: it is "empty", they are left out
            ("skip"), or the reader is refused ("error").
        case_sensitive_extensions: whether upper and lower case of extensions differ.
        dtypes: as what the bytes of each output are read, uint8 by default; one type is for all.
        **loader: order and shard, as `penstock.operators.readers.loader.LoaderArguments` describes them.

    Returns:
        A node per entry of `ext`, of shape (?,).

    Raises:
        SourceNotFoundError: a file does not exist.
        SourceError: a file is no tar file, is compressed, cut short or damaged, a sample has two files of one name, or
            no sample is left.
        DefinitionError: no extensions, another number of types than of extensions, or of indexes than of files.
        SampleError: while running, a file that has been written to, or whose bytes are not of the type.

    Example:
        >>> import io, penstock, tarfile, tempfile
        >>> from penstock import fn
        >>> path = tempfile.mkdtemp() + "/train.tar"
        >>> with tarfile.open(path, "w") as file:
        ...     for name in ("1.jpg", "1.cls", "2.jpg", "2.cls"):
        ...         entry = tarfile.TarInfo(name)
        ...         entry.size = 4
        ...         file.addfile(entry, io.BytesIO(int(name[0]).to_bytes(4, "little")))
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     jpegs, labels = fn.readers.webdataset(
        ...         paths=path, ext=["jpg", "cls"], dtypes=[penstock.types.UINT8, penstock.types.INT32])
        ...     pipeline.set_outputs(labels)
        >>> pipeline.run()[0].as_array().tolist()
        [[1], [2]]
    """
    files, indexes = as_paths(paths), as_paths(index_paths)
    wanted = [ext] if isinstance(ext, str) else list(ext)
    missing = missing_component_behavior or "empty"
    if not files or not wanted:
        raise DefinitionError(f"fn.readers.webdataset: {'ext' if files else 'paths'} is empty")
    if missing not in _MISSING:
        raise DefinitionError(
            "fn.readers.webdataset: no such missing_component_behavior",
            given=shown(missing), expected=", ".join(_MISSING), fix=did_you_mean(missing, _MISSING),
        )  # fmt: skip
    if indexes and len(indexes) != len(files):
        raise DefinitionError(
            "fn.readers.webdataset: an index per file", given=f"{len(indexes)} for {len(files)} files",
            fix="leave index_paths out, and they are made",
        )  # fmt: skip
    given: list[Any] = list(cast(list[Any], dtypes)) if isinstance(dtypes, list | tuple) else [dtypes]
    kinds = tuple(np.dtype(np.uint8) if each is None else as_dtype(each) for each in given)
    if len(kinds) not in (1, len(wanted)):
        raise DefinitionError("fn.readers.webdataset: a type per extension", given=len(kinds), expected=len(wanted))
    cased = bool(case_sensitive_extensions)
    extensions = tuple(frozenset((each if cased else each.lower()).split(";")) for each in wanted)
    source = shared(
        WebdatasetSource,
        files,
        indexes,
        Components(extensions, cased, missing),
        kinds if len(kinds) == len(wanted) else kinds * len(wanted),
        stamp=stamp_of(*files, *indexes),
    )
    first, *others = load(source, loader)
    return [first, *others] if others else first
