"""`penstock pack photos packed`: any reader's samples as shards."""

from __future__ import annotations

import argparse
import inspect
import os
import runpy
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from penstock import fn
from penstock.core import optional_import
from penstock.errors import DefinitionError, MissingExtraError, PenstockError, UsageError, short_repr
from penstock.graph.ir.operator import Reader
from penstock.graph.tracing.trace import DataNode, Trace
from penstock.pack import PackJob, Reencoding, pack
from penstock.sources.storage.object_store import is_object, is_remote


def add_to(commands: Any) -> None:
    """Add the command to an `argparse` parser."""
    parser = commands.add_parser(
        "pack",
        help="write what a reader reads as tar or ArrayRecord files",
        description="Writes samples in random order as shards, in parallel, and verifies them. What was killed goes on "
        "where it was by the same command.",
    )
    parser.add_argument(
        "source",
        help="a folder above one folder per class; a text file with a path and a class number per line, both also in "
        "object stores (s3://bucket/folder); or program.py:function, a function that returns what a reader returned",
    )
    parser.add_argument("target", type=_folder, help="the folder for the shards, on a local disk")
    parser.add_argument("--format", choices=("tar", "array_record"), default="tar", help="tar, as WebDataset has it")
    parser.add_argument("--title", default="data", help="what the names of shards begin with (data)")
    parser.add_argument("--names", help="a name for each value, such as jpg,cls: the extensions in tar files")
    parser.add_argument("--samples-per-shard", type=_positive, default=1000, metavar="N", help="at most (1000)")
    parser.add_argument("--seed", type=int, default=0, help="what selects the order (0)")
    parser.add_argument("--in-order", action="store_true", help="keep the order of the data set")
    parser.add_argument("--resize-shorter", type=_positive, metavar="N", help="make images smaller, to N pixels")
    parser.add_argument("--quality", type=_quality, metavar="Q", help="encode images anew as JPEG (90 where resized)")
    parser.add_argument("--on-error", choices=("raise", "skip"), default="raise", help="of a bad sample (raise)")
    parser.add_argument("--threads", type=_positive, default=os.cpu_count() or 1, help="shards at the same time (all)")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Pack; the exit code is 0 where all shards are there and verified."""
    progress = _Bar() if sys.stderr.isatty() else _Lines()
    try:
        job = _job(parsed)
        written, skipped = pack(job, parsed.target, parsed.threads, progress)
    except (PenstockError, OSError) as error:
        progress.close()
        what = str(error)
        if isinstance(error, OSError) and not isinstance(error, PenstockError):
            what = f"{error.filename or parsed.target} cannot be written: {error.strerror or error}"
        print(f"penstock pack: {what}", file=sys.stderr)
        if not isinstance(error, UsageError | DefinitionError):
            print("complete shards are kept: the same command goes on from there", file=sys.stderr)
        return 2 if isinstance(error, UsageError | DefinitionError) else 1
    except KeyboardInterrupt:
        progress.close()
        print("penstock pack: interrupted; the same command goes on from there", file=sys.stderr)
        return 130
    progress.close()
    left = f", {skipped} left out" if skipped else ""
    print(f"{written} samples in {job.shards} shards{left}, verified: {parsed.target}")
    return 0


def _job(parsed: argparse.Namespace) -> PackJob:
    """What the command line asks for.

    Raises:
        PenstockError: it cannot be packed.
    """
    given = parsed.names.split(",") if parsed.names else None
    names, nodes = _outputs(parsed.source, given)
    operators = {node.value.node for node in nodes}
    reader = nodes[0].value.node.operator
    if len(operators) != 1 or not isinstance(reader, Reader):
        computed = next(node.value for node in nodes if not isinstance(node.value.node.operator, Reader))
        raise DefinitionError(
            "penstock pack writes what one reader returns, before anything is computed from it",
            given=computed if len(operators) == 1 else f"values of {', '.join(map(str, operators))}",
            fix="--resize-shorter and --quality for images; fn.readers.mix for several readers",
        )
    if reader.num_shards > 1:
        raise DefinitionError("all shards are packed at once", given=f"num_shards={reader.num_shards}")
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


def _outputs(source: str, given: list[str] | None) -> tuple[list[str | None], list[DataNode]]:
    """The names and nodes of what is packed."""
    with Trace("pack").active():
        found = _definition(source)()
    own: list[str | None] | None = None
    if isinstance(found, Mapping):
        named = cast(Mapping[str | None, Any], found)
        own, nodes = [*named], list(named.values())
    else:
        nodes = list(cast(Any, found)) if isinstance(found, tuple | list) else [found]
        own = [None, "cls"] if not _program(source) else None
    if not nodes or not all(isinstance(node, DataNode) for node in nodes):
        raise DefinitionError("the definition returns what a reader returned", given=short_repr(found))
    names = own if given is None else given
    if names is None or len(names) != len(nodes):
        raise UsageError(
            "a name for each value", given=given and ",".join(given), expected=f"{len(nodes)} names",
            fix="--names, or a dictionary of nodes as what the definition returns",
        )  # fmt: skip
    if len(set(names)) != len(names) or not all(name is None or name.strip() == name != "" for name in names):
        raise UsageError("the names of values are distinct, and none is empty", given=names)
    return [*names], nodes


def _definition(source: str) -> Callable[[], Any]:
    """A function that calls the reader."""
    program, name = _program(source) or ("", "")
    if program:
        if not Path(program).is_file():
            raise UsageError(f"there is no file {program!r}")
        sys.path.insert(0, str(Path(program).resolve().parent))
        made: Any = runpy.run_path(program, run_name="penstock_pack").get(name)
        made = getattr(made, "definition", made)
        if not callable(made):
            raise UsageError(f"{program!r} has no function {name!r}")
        function = cast(Callable[[], Any], inspect.unwrap(made))
        try:
            inspect.signature(function).bind()
        except TypeError as error:
            raise UsageError(f"{name} is called without arguments: {error}", fix="default values") from None
        return function
    if Path(source).is_dir() or (is_remote(source) and not is_object(source)):
        return lambda: fn.readers.file(file_root=source)
    if Path(source).is_file() or is_remote(source):
        return lambda: fn.readers.file(file_list=source)
    raise UsageError(f"there is neither a folder nor a file {source!r}", fix="program.py:function for other readers")


def _program(source: str) -> tuple[str, str] | None:
    """The program and the function that are named."""
    program, _, name = source.rpartition(":")
    return (program, name) if program.endswith(".py") else None


class _Lines:
    """A line for each tenth of the work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._what, self._total, self._done = "", 0, 0

    def begin(self, what: str, total: int, done: int) -> None:
        """Begin a stretch of `total` samples, of which `done` are done."""
        self._what, self._total, self._done = what, total, done

    def advance(self, samples: int) -> None:
        """Count `samples` more as done; print a line at each tenth of the stretch."""
        with self._lock:
            before, self._done = self._done, self._done + samples
            if self._done * 10 // max(self._total, 1) > before * 10 // max(self._total, 1):
                self.note(f"{self._what}: {self._done} of {self._total} samples")

    def note(self, text: str) -> None:
        """Print `text`."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the progress: lines leave nothing open."""


class _Bar(_Lines):
    """A bar of tqdm's, where it is installed."""

    _bar: Any = None

    def begin(self, what: str, total: int, done: int) -> None:
        """A bar begins."""
        super().begin(what, total, done)
        self.close()
        try:
            tqdm = optional_import.import_extra("tqdm", "train", "the progress bar of penstock pack")
        except MissingExtraError:
            return
        self._bar = tqdm.tqdm(total=total, initial=done, desc=what, unit=" samples")

    def advance(self, samples: int) -> None:
        """The bar grows."""
        if self._bar is None:
            super().advance(samples)
            return
        with self._lock:
            self._bar.update(samples)

    def note(self, text: str) -> None:
        """A line above the bar."""
        if self._bar is None:
            super().note(text)
        else:
            self._bar.write(text, file=sys.stderr)

    def close(self) -> None:
        """The bar stays as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _folder(text: str) -> Path:
    if is_remote(text):
        raise argparse.ArgumentTypeError(f"{text} is no local folder: copy the shards there when they are packed")
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
