"""A pack: which samples go into which shard, in which order; written in parallel, continued, and verified."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from penstock.core.atomic_files import fsync_directory
from penstock.core.columns import Array
from penstock.errors import DefinitionError, SampleError, SourceError, resource_error
from penstock.pack.manifest import PackManifest
from penstock.pack.reencoding import Reencoding
from penstock.pack.shard_formats import FORMATS, Format, Member
from penstock.sources.order.sample_order import SampleOrder
from penstock.sources.source import Source

_READ = 32
"""How many samples are read at a time."""


class Progress(Protocol):
    """Who is told how far it is."""

    def begin(self, what: str, total: int, done: int) -> None:
        """A stretch of work begins: `total` samples, of which `done` are done already."""
        ...

    def advance(self, samples: int) -> None:
        """`samples` more are done. Called by several threads."""
        ...

    def note(self, text: str) -> None:
        """Something that the user should know."""
        ...


@dataclass(frozen=True)
class PackJob:
    """What is packed, and how.

    Args:
        source: the data set.
        order: the order of its samples; one epoch is packed.
        names: of its values: extensions in tar files. None for the first stands for the extension of the file that
            holds the sample.
        columns: the numbers of the values that are packed.
        format: "tar" or "array_record".
        title: what the names of shards begin with.
        samples_per_shard: how many samples a shard has, at most.
        recoding: what becomes of the first value, if it is an image to be encoded anew.
        skip: whether samples that cannot be read are left out; else they end the job.
    """

    source: Source
    order: SampleOrder
    names: tuple[str | None, ...]
    columns: tuple[int, ...]
    format: str = "tar"
    title: str = "data"
    samples_per_shard: int = 1000
    recoding: Reencoding = field(default_factory=Reencoding)
    skip: bool = False

    @property
    def samples(self) -> int:
        """How many samples are packed."""
        return self.order.epoch_length

    @property
    def shards(self) -> int:
        """How many shards there will be, of even sizes."""
        return -(-self.samples // self.samples_per_shard)

    def positions(self, shard: int) -> range:
        """The positions of the order that a shard has."""
        return range(self.samples * shard // self.shards, self.samples * (shard + 1) // self.shards)

    def settings(self) -> dict[str, Any]:
        """What tells the pack from others."""
        return {
            "version": 1,
            "source": self.source.fingerprint(),
            "samples": self.samples,
            "order": f"shuffled by seed {self.order.seed}" if self.order.shuffle else "in order",
            "names": list(self.names),
            "columns": list(self.columns),
            "format": self.format,
            "title": self.title,
            "shards": self.shards,
            "resize_shorter": self.recoding.resize_shorter,
            "quality": self.recoding.quality,
            "bad samples": "left out" if self.skip else "refused",
        }


def pack(job: PackJob, folder: Path, threads: int, progress: Progress) -> tuple[int, int]:
    """Write the shards that are not there yet, and verify all of them.

    A shard gets its name when it is complete and on the disk, and then a line in the ledger. So a run that is killed
    is continued by another, and gives the same files.

    Args:
        job: what is packed.
        folder: where the shards go; made if need be.
        threads: how many shards are written at the same time.
        progress: is told.

    Returns:
        How many samples there are, and how many were left out.

    Raises:
        SampleError: a sample cannot be read, or is no image and should be resized.
        SourceError: a shard on the disk is not what was written; it is removed, and made anew by the next run.
        UsageError: the folder holds something else, or another process is packing into it.
        OSError: the folder cannot be written to.
    """
    form = FORMATS[job.format]()
    with PackManifest(folder, job.settings()) as ledger:
        for left in folder.glob(f".{job.title}-*.partial*"):
            left.unlink()
        todo = [n for n in range(job.shards) if n not in ledger.shards or not _path(job, form, folder, n).is_file()]
        waiting = sum(len(job.positions(shard)) for shard in todo)
        progress.begin("packing", job.samples, job.samples - waiting)
        writer = _Writer(job, form, folder, progress)
        with closing(_each(writer.shard, todo, threads, writer.stop)) as written:
            for entry in written:
                ledger.add(entry)
        entries = [ledger.shards[shard] for shard in range(job.shards)]
        samples = sum(entry["samples"] for entry in entries)
        progress.begin("verifying", samples, 0)

        def check(shard: int) -> tuple[int, str | None]:
            return shard, _fault(_path(job, form, folder, shard), form, ledger.shards[shard], writer.stop, progress)

        faults = [(shard, fault) for shard, fault in _each(check, range(job.shards), threads, writer.stop) if fault]
        for shard, _ in faults:
            _path(job, form, folder, shard).unlink(missing_ok=True)
            ledger.forget(shard)
        if faults:
            shard, fault = faults[0]
            raise SourceError(
                f"{len(faults)} of {job.shards} shards are not what was written, and are removed",
                given=f"{_path(job, form, folder, shard).name}: {fault}",
                fix="the same command again makes them anew; check the disk",
            )
    return samples, sum(entry["skipped"] for entry in entries)


def _path(job: PackJob, form: Format, folder: Path, shard: int) -> Path:
    return folder / f"{job.title}-{shard:05d}-of-{job.shards:05d}{form.suffix}"


def _each(work: Any, shards: Iterable[int], threads: int, stop: threading.Event) -> Generator[Any]:
    """What `work` gives for each shard, as they are done. The first failure stops all."""
    with ThreadPoolExecutor(threads, "penstock-pack") as pool:
        futures = [pool.submit(work, shard) for shard in shards]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            stop.set()
            for future in futures:
                future.cancel()
            raise


class _StoppedError(Exception):
    """Another shard has failed."""


class _Writer:
    """Writes shards. Several threads use it."""

    def __init__(self, job: PackJob, form: Format, folder: Path, progress: Progress) -> None:
        self.stop = threading.Event()
        self._job, self._form, self._folder, self._progress = job, form, folder, progress

    def shard(self, shard: int) -> dict[str, Any]:
        """Write a shard; its entry in the ledger."""
        path = _path(self._job, self._form, self._folder, shard)
        partial = path.with_name(f".{path.name}.partial{path.suffix}")
        files = [*zip(self._form.companions(partial), self._form.companions(path), strict=True), (partial, path)]
        count = _Count()
        try:
            self._form.write(partial, count.of(self._samples(shard)))
            for written, name in files:
                written.replace(name)
        except BaseException:
            for written, _ in files:
                written.unlink(missing_ok=True)
            raise
        fsync_directory(self._folder)
        skipped = len(self._job.positions(shard)) - count.samples
        return {"shard": shard, "samples": count.samples, "skipped": skipped, "sha256": count.digest.hexdigest()}

    def _samples(self, shard: int) -> Iterator[list[Member]]:
        job = self._job
        positions = job.positions(shard)
        for first in range(positions.start, positions.stop, _READ):
            here = np.arange(first, min(first + _READ, positions.stop))
            indices = job.order.indices(0, here)
            columns, errors = job.source.read_tolerant(indices, [None] * len(job.source.specs))
            for row, (position, index) in enumerate(zip(here.tolist(), indices.tolist(), strict=True)):
                if self.stop.is_set():
                    raise _StoppedError
                try:
                    if row in errors:
                        raise errors[row]
                    values = self._values(index, [np.asarray(columns[column][row]) for column in job.columns])
                except SampleError as error:
                    if (lack := resource_error(error)) is not None:
                        raise lack from error
                    if not job.skip:
                        raise
                    self._progress.note(f"left out: {error}")
                    self._progress.advance(1)
                    continue
                yield self._form.members(f"{position:09d}", values)
                self._progress.advance(1)

    def _values(self, index: int, given: list[Array]) -> dict[str, Array]:
        """The values of a sample by name."""
        job = self._job
        first = job.names[0]
        if first is None:
            suffix = os.path.splitext(job.source.source_info(index))[1].lower().lstrip(".")  # noqa: PTH122  # no path
            first = {"jpeg": "jpg", "": "bin"}.get(suffix, suffix)
        if job.recoding:
            if given[0].dtype != np.uint8 or given[0].ndim != 1:
                raise DefinitionError(
                    "only encoded images are resized and encoded anew", given=f"{given[0].dtype}{given[0].shape}"
                )
            try:
                data, new = job.recoding(given[0].tobytes())
            except ValueError as error:
                what = f"cannot be resized or encoded: {error}"
                raise SampleError.of(index, job.source.describe(index), what, job.source.path(index)) from error
            given[0] = np.frombuffer(data, np.uint8)
            first = "jpg" if new and job.names[0] is None else first
        return dict(zip((first, *map(str, job.names[1:])), given, strict=True))


class _Count:
    """Counts samples as they pass, and hashes them."""

    def __init__(self) -> None:
        self.samples, self.digest = 0, hashlib.sha256()

    def of(self, samples: Iterable[list[Member]]) -> Iterator[list[Member]]:
        """The samples."""
        for sample in samples:
            self.samples += 1
            for member in sample:
                self.add(member)
            yield sample

    def add(self, member: Member) -> None:
        """Hash a member."""
        name, data = member
        self.digest.update(f"{name}\0{len(data)}\0".encode())
        self.digest.update(data)


def _fault(path: Path, form: Format, entry: dict[str, Any], stop: threading.Event, progress: Progress) -> str | None:
    """What is wrong with a shard on the disk."""
    count = _Count()
    try:
        for member in form.read(path):
            if stop.is_set():
                raise _StoppedError
            count.add(member)
    except (OSError, ValueError) as error:
        return f"it cannot be read: {error}"
    progress.advance(entry["samples"])
    return None if count.digest.hexdigest() == entry["sha256"] else "its content is not what was written"
