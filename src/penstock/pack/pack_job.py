"""Packing: writes the samples of a source as shards, in parallel, with resume and verification."""

import hashlib
import os
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from penstock.core import Array, short_digest
from penstock.core.atomic_files import fsync_directory
from penstock.errors import DefinitionError, SampleError, SourceError, UsageError, resource_error, short_repr
from penstock.pack.image_check import CHECKED, check_image
from penstock.pack.manifest import PackManifest
from penstock.pack.reencoding import Reencoding
from penstock.pack.shard_formats import EXTENSION, FORMATS, Format, Member
from penstock.sources.combine.subset import SubsetSource
from penstock.sources.formats.tar.webdataset_source import NUMBERS, kind_of
from penstock.sources.order.sample_order import SampleOrder
from penstock.sources.sample_digest import sample_digest
from penstock.sources.source import ReadCost, Source

# Samples per read: enough for a source to merge neighboring byte ranges, few enough to keep in memory in every thread.
_READ = 32


class Progress(Protocol):
    """Receiver of progress reports."""

    def begin(self, what: str, total: int, done: int) -> None:
        """Start a phase of `total` samples, `done` of which are finished already."""

    def advance(self, samples: int) -> None:
        """Add `samples` finished samples. Several threads call this."""

    def note(self, text: str) -> None:
        """Show a message to the user."""


@dataclass(frozen=True)
class PackJob:
    """Samples to pack, and the format of the shards.

    Args:
        source: The data set.
        order: Order of the samples; one epoch is packed.
        names: Names of the values: extensions in tar files. None for the first one uses the extension of the
            sample's file.
        columns: Positions of the packed values in the source.
        format: "tar" or "array_record".
        title: Prefix of the names of shards.
        samples_per_shard: Largest number of samples in a shard.
        recoding: Resizing and encoding of the first value, if it is an image.
        skip: True leaves out samples that cannot be read or are damaged; otherwise they end the job.
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
        """Number of samples."""
        return self.order.epoch_length

    @property
    def shards(self) -> int:
        """Number of shards. Their sizes differ by at most one sample."""
        return -(-self.samples // self.samples_per_shard)

    def positions(self, shard: int) -> range:
        """Return the positions in the order that a shard contains."""
        return range(self.samples * shard // self.shards, self.samples * (shard + 1) // self.shards)

    def settings(self) -> dict[str, Any]:
        """Return the settings that must be equal for a run to resume another one."""
        return {
            "version": 2,
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
    """Write the missing shards and verify all of them.

    A complete shard is renamed to its final name and then listed in the manifest, so a later run resumes an interrupted
    one and writes the same files.

    Args:
        job: Samples and format.
        folder: Directory of the shards, created if missing.
        threads: Number of shards written concurrently.
        progress: Receives reports from all threads.

    Returns:
        Number of packed samples, and of samples left out.

    Raises:
        SampleError: A sample cannot be read, or cannot be decoded for resizing, or is a damaged JPEG, PNG or WebP file.
        SourceError: A shard on disk differs from what was written. It is removed; the next run writes it again.
        UsageError: The folder contains another pack, or another process is packing into it; or the samples of complete
            shards have changed.
        OSError: The folder is not writable.
    """
    shards = _Shards(job, FORMATS[job.format](), folder, progress)
    with PackManifest(folder, job.settings()) as manifest:
        for partial in folder.glob(f".{job.title}-*.partial*"):
            partial.unlink()
        todo = [shard for shard in range(job.shards) if shard not in manifest.shards or not shards.exists(shard)]
        waiting = sum(len(job.positions(shard)) for shard in todo)
        complete = sorted({*range(job.shards)} - {*todo})
        if complete:
            progress.begin("comparing", job.samples - waiting, 0)
        for shard, content in _run(shards.compare, complete, threads, shards.stop):
            if content != manifest.shards[shard]["content"]:
                raise UsageError(
                    f"{str(folder)!r} contains shards of other content",
                    given=f"{shards.path(shard).name}: its samples have changed since they were packed",
                    fix="another folder, or delete this one to pack all samples again",
                )
        progress.begin("packing", job.samples, job.samples - waiting)
        with closing(_run(shards.write, todo, threads, shards.stop)) as written:
            for entry in written:
                manifest.add(entry)
        entries = [manifest.shards[shard] for shard in range(job.shards)]
        samples = sum(entry["samples"] for entry in entries)
        progress.begin("verifying", samples, 0)
        faults = [(shard, fault) for shard, fault in _run(shards.verify, entries, threads, shards.stop) if fault]
        for shard, _ in faults:
            shards.path(shard).unlink(missing_ok=True)
            manifest.forget(shard)
        if faults:
            shard, fault = faults[0]
            raise SourceError(
                f"{len(faults)} of {job.shards} shards are not what was written, and were removed",
                given=f"{shards.path(shard).name}: {fault}",
                fix="run the same command again to write them again; check the disk",
            )
    return samples, sum(entry["skipped"] for entry in entries)


def _run(work: Any, shards: Iterable[Any], threads: int, stop: threading.Event) -> Generator[Any]:
    """Yield the results of `work` as shards finish. The first failure cancels the others."""
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
    """Raised in a thread after another shard has failed."""


class _Shards:
    """Writer and verifier of shards, shared by all threads."""

    def __init__(self, job: PackJob, form: Format, folder: Path, progress: Progress) -> None:
        self.stop = threading.Event()
        self._job, self._form, self._folder, self._progress = job, form, folder, progress

    def path(self, shard: int) -> Path:
        """Return the path of a shard."""
        return self._folder / f"{self._job.title}-{shard:05d}-of-{self._job.shards:05d}{self._form.suffix}"

    def exists(self, shard: int) -> bool:
        """Return True if the files of a shard exist."""
        path = self.path(shard)
        return all(file.is_file() for file in (path, *self._form.companions(path)))

    def compare(self, shard: int) -> tuple[int, str]:
        """Return the number of a complete shard, and the digest of what its samples are now."""
        content = self._content(shard)
        self._progress.advance(len(self._job.positions(shard)))
        return shard, content

    def _content(self, shard: int) -> str:
        """Return a digest that changes when the samples of a shard do.

        Files count with their times of modification or ETags. Unless ETags identify the content, that of 16 samples
        counts, too: reading all of them would take as long as packing.
        """
        job = self._job
        indices = job.order.indices(0, np.asarray(job.positions(shard)))
        states = [job.source.sample_state(index) for index in indices.tolist()]
        if job.source.cost is ReadCost.STORE and None not in states:
            return short_digest(repr(states))
        return short_digest(repr(states), sample_digest(SubsetSource(job.source, indices)))

    def write(self, shard: int) -> dict[str, Any]:
        """Write a shard and return its entry in the manifest."""
        # Before the samples are read, so that what changes meanwhile is found by the next run.
        content = self._content(shard)
        path = self.path(shard)
        partial = path.with_name(f".{path.name}.partial{path.suffix}")
        files = [*zip(self._form.companions(partial), self._form.companions(path), strict=True), (partial, path)]
        count = _Count()
        # A reader of the folder must never see half a shard, and its index must exist before it does.
        try:
            self._form.write(partial, count.of(self._samples(shard)))
            for written, name in files:
                written.replace(name)
        except BaseException:
            for written, _ in files:
                written.unlink(missing_ok=True)
            raise
        # Without this, a crash could lose the new names although the manifest lists the shard.
        fsync_directory(self._folder)
        skipped = len(self._job.positions(shard)) - count.samples
        return {
            "shard": shard,
            "samples": count.samples,
            "skipped": skipped,
            "content": content,
            "sha256": count.digest.hexdigest(),
        }

    def verify(self, entry: Mapping[str, Any]) -> tuple[int, str | None]:
        """Return the number of a shard and its fault on disk, or None. `entry` is its entry in the manifest."""
        shard, count = entry["shard"], _Count()
        try:
            for member in self._form.read(self.path(shard)):
                if self.stop.is_set():
                    raise _StoppedError
                count.add(member)
        except (OSError, ValueError) as error:
            return shard, f"it cannot be read: {error}"
        self._progress.advance(entry["samples"])
        return shard, None if count.digest.hexdigest() == entry["sha256"] else "its content is not what was written"

    def _samples(self, shard: int) -> Iterator[list[Member]]:
        job = self._job
        positions = job.positions(shard)
        for first in range(positions.start, positions.stop, _READ):
            chunk = np.arange(first, min(first + _READ, positions.stop))
            indices = job.order.indices(0, chunk)
            columns, errors = job.source.read_tolerant(indices, [None] * len(job.source.specs))
            for row, (position, index) in enumerate(zip(chunk.tolist(), indices.tolist(), strict=True)):
                if self.stop.is_set():
                    raise _StoppedError
                try:
                    if row in errors:
                        raise errors[row]
                    values = self._values(index, [np.asarray(columns[column][row]) for column in job.columns])
                except SampleError as error:
                    # A full disk or a missing library is a failure of the machine; no sample is left out for it.
                    if (failure := resource_error(error)) is not None:
                        raise failure from error
                    if not job.skip:
                        raise
                    self._progress.note(f"left out: {error}")
                    self._progress.advance(1)
                    continue
                yield self._form.members(f"{position:09d}", values)
                self._progress.advance(1)

    def _values(self, index: int, values: list[Array]) -> dict[str, Array]:
        """Return the values of a sample by name, with the first one encoded again if requested."""
        job = self._job
        first = job.names[0]
        if first is None:
            suffix = os.path.splitext(job.source.source_info(index))[1].lower().lstrip(".")  # noqa: PTH122  # may be a URL
            # What follows a dot may be part of a name, such as "portrait of Mr. Smith", or the name of another value.
            is_extension = EXTENSION.fullmatch(suffix) and suffix not in job.names
            first = {"jpeg": "jpg"}.get(suffix, suffix) if is_extension else "bin"
        if job.recoding:
            if values[0].dtype != np.uint8 or values[0].ndim != 1:
                raise DefinitionError(
                    "only encoded images can be resized or encoded again", given=f"{values[0].dtype}{values[0].shape}"
                )
            try:
                data, is_new = job.recoding(values[0].tobytes())
            except ValueError as error:
                problem = f"cannot be resized or encoded: {error}"
                raise SampleError.of(index, job.source.describe(index), problem, job.source.path(index)) from error
            values[0] = np.frombuffer(data, np.uint8)
            first = "jpg" if is_new and job.names[0] is None else first
        result = dict(zip((first, *map(str, job.names[1:])), values, strict=True))
        self._check_images(index, result)
        for name, column in zip(result, job.columns, strict=True):
            spec = job.source.specs[column]
            # Bytes of variable length may be the text of a number; an array of one byte is the number.
            if kind_of(name) not in NUMBERS or spec.dtype != np.uint8:
                continue
            if spec.shape == (1,):
                result[name] = result[name].astype(np.int64)
            elif spec.shape == (None,) and column in job.source.array_values and job.format == "tar":
                raise DefinitionError(
                    f"{name!r} stores a whole number as text, and a uint8 array may be a number or a text",
                    given=f"{short_repr(result[name].tolist())} of item {index}",
                    fix="int64 for numbers, bytes for their text",
                )
        return result

    def _check_images(self, index: int, values: Mapping[str, Array]) -> None:
        """Check the values of a sample that are image files.

        Raises:
            SampleError: One of them is damaged.
        """
        job, path = self._job, self._job.source.path(index)
        for place, (name, value) in enumerate(values.items()):
            # The first value of a reader of files is the file, whatever its name in the shards.
            names = {kind_of(name), kind_of(path or "") if job.columns[place] == 0 else ""}
            if names.isdisjoint(CHECKED) or value.dtype != np.uint8 or value.ndim != 1 or (job.recoding and not place):
                continue
            try:
                check_image(value)
            except ValueError as error:
                raise SampleError.of(index, job.source.describe(index), f"cannot be decoded: {error}", path) from error


class _Count:
    """Counter and checksum of the samples that pass through it."""

    def __init__(self) -> None:
        self.samples, self.digest = 0, hashlib.sha256()

    def of(self, samples: Iterable[list[Member]]) -> Iterator[list[Member]]:
        """Yield the samples unchanged."""
        for sample in samples:
            self.samples += 1
            for member in sample:
                self.add(member)
            yield sample

    def add(self, member: Member) -> None:
        """Add a member to the checksum."""
        name, data = member
        # The length separates a name and its data from the next pair, which keeps the checksum unambiguous.
        self.digest.update(f"{name}\0{len(data)}\0".encode())
        self.digest.update(data)
