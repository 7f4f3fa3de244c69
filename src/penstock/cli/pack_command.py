"""The command `penstock pack photos packed`: write the samples of a reader as shards."""

from __future__ import annotations

import argparse
import inspect
import os
import re
import runpy
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from penstock import fn
from penstock.core import optional_import
from penstock.errors import DefinitionError, MissingExtraError, PenstockError, UsageError, short_repr
from penstock.graph import DataNode, Reader, Trace
from penstock.pack import PackJob, Reencoding, pack
from penstock.pack.shard_formats import EXTENSION
from penstock.sources.storage.object_store import is_object, is_remote

# No folders, because the shards of a pack belong to one; and no hidden files, which readers ignore.
_TITLE = re.compile(r"[\w-][\w .-]*")


def add_to(commands: Any) -> None:
    """Add the command to an `argparse` parser."""
    parser = commands.add_parser(
        "pack",
        help="write the samples of a reader as tar or ArrayRecord files",
        description="Writes samples in random order as shards, in parallel, and verifies them. Run the same command "
        "again to resume after an interruption.",
    )
    parser.add_argument(
        "source",
        help="a folder above one folder per class; a text file with a path and a class number per line, both also in "
        "object stores (s3://bucket/folder); or program.py:function, a function that returns the outputs of a reader",
    )
    parser.add_argument("target", type=_folder, help="the folder for the shards, on a local disk")
    parser.add_argument("--format", choices=("tar", "array_record"), default="tar", help="tar for WebDataset (tar)")
    parser.add_argument("--title", default="data", help="prefix of the names of shards (data)")
    parser.add_argument(
        "--names",
        help="a name for each value, such as jpg,cls: the extensions in tar files; "
        "image,label by default for array_record",
    )
    parser.add_argument(
        "--samples-per-shard", type=_positive, default=1000, metavar="N", help="most samples per shard (1000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the order (0)")
    parser.add_argument("--in-order", action="store_true", help="keep the order of the data set")
    parser.add_argument("--resize-shorter", type=_positive, metavar="N", help="shrink images to N pixels")
    parser.add_argument("--quality", type=_quality, metavar="Q", help="re-encode images as JPEG (90 for resized ones)")
    parser.add_argument("--on-error", choices=("raise", "skip"), default="raise", help="policy for bad samples (raise)")
    parser.add_argument("--threads", type=_positive, default=os.cpu_count() or 1, help="parallel shards (one per core)")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Pack. Returns 0 if all shards are written and verified."""
    progress, job = _progress(), None
    try:
        job = _job(parsed)
        written, skipped = pack(job, parsed.target, parsed.threads, progress)
    except (PenstockError, OSError) as error:
        progress.close()
        if isinstance(error, PenstockError) and not _program(parsed.source):
            error.where = None  # not a line of the user's program
        message = str(error)
        if isinstance(error, OSError) and not isinstance(error, PenstockError):
            done = "read" if job is None else "written"
            path = error.filename or (parsed.source if job is None else parsed.target)
            message = f"{path} cannot be {done}: {error.strerror or error}"
        print(f"penstock pack: {message}", file=sys.stderr)
        if job is not None and not isinstance(error, UsageError | DefinitionError):
            print("complete shards are kept; run the same command again to continue", file=sys.stderr)
        # 2 for wrong usage, as `argparse` exits.
        return 2 if isinstance(error, UsageError | DefinitionError) else 1
    except KeyboardInterrupt:
        progress.close()
        print("penstock pack: interrupted; run the same command again to continue", file=sys.stderr)
        # 128 + SIGINT, as shells report it.
        return 130
    progress.close()
    if not written:
        print(f"penstock pack: all {skipped} samples were left out: {parsed.target} has no data", file=sys.stderr)
        return 1
    omitted = f", {skipped} left out" if skipped else ""
    print(f"{written} samples in {job.shards} shards{omitted}, verified: {parsed.target}")
    return 0


def _job(parsed: argparse.Namespace) -> PackJob:
    """Return the job for the command line.

    Raises:
        PenstockError: the source cannot be packed.
    """
    names, nodes = _outputs(parsed.source, parsed.names.split(",") if parsed.names else None, parsed.format)
    if parsed.format == "tar" and not all(name is None or EXTENSION.fullmatch(name) for name in names):
        raise UsageError(
            "names of values in tar files must be extensions", given=",".join(map(str, names)),
            expected="letters, digits, points, - and _; at most 32", fix="--names jpg,cls",
        )  # fmt: skip
    if not _TITLE.fullmatch(parsed.title):
        raise UsageError(
            "the title must be the beginning of a file name", given=repr(parsed.title),
            expected="letters, digits, points, -, _ and spaces; the first one a letter, a digit, - or _",
        )  # fmt: skip
    operators = {node.value.node for node in nodes}
    reader = nodes[0].value.node.operator
    if len(operators) != 1 or not isinstance(reader, Reader):
        computed = next((node.value for node in nodes if not isinstance(node.value.node.operator, Reader)), None)
        raise DefinitionError(
            "penstock pack writes what one reader returns, before anything is computed from it",
            given=computed if len(operators) == 1 else f"values of {', '.join(map(str, operators))}",
            fix="--resize-shorter and --quality for images; fn.readers.mix for several readers",
        )
    if reader.num_shards > 1:
        raise DefinitionError("all shards are packed at once", given=f"num_shards={reader.num_shards}")
    # Seeds of sample orders are unsigned.
    order = replace(reader, shuffle=not parsed.in_order).order(parsed.seed % (1 << 64))
    return PackJob(
        reader.source,
        order,
        tuple(names),
        tuple(node.value.index for node in nodes),
        parsed.format,
        parsed.title,
        parsed.samples_per_shard,
        Reencoding(parsed.resize_shorter, parsed.quality),
        skip=parsed.on_error == "skip",
    )


def _outputs(source: str, names_option: list[str] | None, form: str) -> tuple[list[str | None], list[DataNode]]:
    """Return the names and nodes of the values to pack."""
    with Trace("pack").active():
        result = _definition(source)()
    default_names: list[str | None] | None = None
    if isinstance(result, Mapping):
        named = cast(Mapping[str | None, Any], result)
        default_names, nodes = [*named], list(named.values())
    else:
        nodes = list(cast(Any, result)) if isinstance(result, tuple | list) else [result]
        # Readers of Example messages ask for one name, whatever the extension of a file.
        default_names = None if _program(source) else [None, "cls"] if form == "tar" else ["image", "label"]
    if not nodes or not all(isinstance(node, DataNode) for node in nodes):
        raise DefinitionError("the definition must return the outputs of a reader", given=short_repr(result))
    names = default_names if names_option is None else names_option
    if names is None or len(names) != len(nodes):
        raise UsageError(
            "each value needs a name", given=names_option and ",".join(names_option), expected=f"{len(nodes)} names",
            fix="--names, or a definition that returns a dictionary of nodes",
        )  # fmt: skip
    # The keys of the user's dictionary may have any type.
    texts = [name for name in cast(list[Any], names) if name is not None]
    if len(set(names)) != len(names) or not all(isinstance(name, str) and name.strip() == name != "" for name in texts):
        raise UsageError("the names of values must be distinct texts that are not empty", given=names)
    return [*names], nodes


def _definition(source: str) -> Callable[[], Any]:
    """Return a function that calls the reader."""
    program, name = _program(source) or ("", "")
    if program:
        if not Path(program).is_file():
            raise UsageError(f"the file does not exist: {program!r}")
        # As `python program.py` does, so that the program can import its neighbors.
        sys.path.insert(0, str(Path(program).resolve().parent))
        # Not "__main__", so that the main block of the program does not run.
        definition: Any = runpy.run_path(program, run_name="penstock_pack").get(name)
        # `@pipeline_def` and `@data_iterator` keep the function that they decorate.
        definition = getattr(definition, "definition", definition)
        if not callable(definition):
            raise UsageError(f"{program!r} has no function {name!r}")
        function = cast(Callable[[], Any], inspect.unwrap(definition))
        try:
            inspect.signature(function).bind()
        except TypeError as error:
            raise UsageError(f"{name} must not need arguments: {error}", fix="add default values") from None
        return function
    if Path(source).is_dir() or (is_remote(source) and not is_object(source)):
        return lambda: fn.readers.file(file_root=source)
    if Path(source).is_file() or is_remote(source):
        return lambda: fn.readers.file(file_list=source)
    raise UsageError(f"the folder or file does not exist: {source!r}", fix="use program.py:function for other readers")


def _program(source: str) -> tuple[str, str] | None:
    """Split `program.py:function`; None for other sources."""
    program, _, name = source.rpartition(":")
    return (program, name) if program.endswith(".py") else None


def _progress() -> _Lines:
    """Return a bar on a terminal if tqdm is installed, otherwise lines."""
    if sys.stderr.isatty():
        with suppress(MissingExtraError):
            return _Bar(optional_import.import_extra("tqdm", "train", "the progress bar of penstock pack").tqdm)
    return _Lines()


class _Lines:
    """Progress as a line for each tenth of the work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._what, self._total, self._done = "", 0, 0

    def begin(self, what: str, total: int, done: int) -> None:
        """Begin a phase of `total` samples, of which `done` are complete."""
        self._what, self._total, self._done = what, total, done

    def advance(self, samples: int) -> None:
        """Add completed samples; print a line at each tenth of the phase."""
        # The threads of the job call this.
        with self._lock:
            before, self._done = self._done, self._done + samples
            if self._done * 10 // max(self._total, 1) > before * 10 // max(self._total, 1):
                self.note(f"{self._what}: {self._done} of {self._total} samples")

    def note(self, text: str) -> None:
        """Print a line."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Do nothing: lines need no cleanup."""


class _Bar(_Lines):
    """Progress as a bar of tqdm."""

    def __init__(self, tqdm: Any) -> None:
        super().__init__()
        self._tqdm = tqdm
        self._bar: Any = None

    def begin(self, what: str, total: int, done: int) -> None:
        """Begin a bar."""
        self.close()
        self._bar = self._tqdm(total=total, initial=done, desc=what, unit=" samples")

    def advance(self, samples: int) -> None:
        """Advance the bar."""
        with self._lock:
            self._bar.update(samples)

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._tqdm.write(text, file=sys.stderr)

    def close(self) -> None:
        """Close the bar, which stays on the screen."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _folder(text: str) -> Path:
    if is_remote(text):
        raise argparse.ArgumentTypeError(f"{text} is not a local folder: pack to a local folder, then copy the shards")
    return Path(text)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def _quality(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{number} is not from 1 to 100")
    return number
