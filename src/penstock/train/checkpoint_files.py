"""Files of checkpoints: atomic saves with checksums, verified before they are loaded."""

import errno
import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from penstock.core.atomic_files import fsync_directory, fsync_file
from penstock.core.file_lock import lock_folder
from penstock.errors import CheckpointError, StateError, UsageError, error_text
from penstock.sources.storage.object_store import is_remote

_SUMS = "checksums.json"
_ABOUT = "training.json"
_UNFINISHED = ".unfinished-"
_log = logging.getLogger("penstock")


class Monitor(NamedTuple):
    """Metric that ranks checkpoints.

    Args:
        name: Name of the metric.
        mode: "min" if smaller values are better, "max" if larger ones are.
    """

    name: str
    mode: Literal["min", "max"]

    def best_first(self, metrics: Mapping[int, Mapping[str, float]]) -> list[int]:
        """Return the steps that have the metric, the best one first. NaN counts as missing.

        Of equal values, the earlier step is better, as in Keras and Lightning.

        >>> Monitor("loss", "min").best_first({1: {"loss": 0.5}, 2: {"loss": 0.1}, 3: {}, 4: {"loss": 0.1}})
        [2, 4, 1]
        """
        values = {step: record[self.name] for step, record in metrics.items() if self.name in record}
        sign = -1 if self.mode == "max" else 1
        return sorted(
            (step for step, value in values.items() if not math.isnan(value)),
            key=lambda step: (sign * values[step], step),
        )


class CheckpointFiles:
    """Directory of checkpoints, with a subdirectory per step.

    A checkpoint is written under a temporary name with the checksums of its files, and renamed when it is on disk. Only
    process 0 of a job uses this class; the others write their arrays to the directory it chooses.

    Args:
        folder: The directory.
        keep: Largest number of checkpoints; None for any number.
        monitor: Metric whose best checkpoints are kept, beside the latest one; None keeps the latest ones.

    Raises:
        UsageError: The directory is the URL of an object store.
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int | None = None, monitor: Monitor | None = None) -> None:
        if is_remote(folder):
            fix = "a folder of a network file system, or copy the checkpoints to the store"
            raise UsageError("checkpoints need a local or mounted directory", given=str(folder), fix=fix)
        self.folder, self._keep, self._monitor = Path(folder).absolute(), keep, monitor
        # Unlocks the unfinished save. If the process dies, the kernel unlocks it.
        self._unlock: Callable[[], None] | None = None

    def prepare(self) -> None:
        """Create the directory, remove unfinished saves of killed processes, and check that it is writable.

        Raises:
            CheckpointError: The directory is not writable, or something else has the name of a save.
        """
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check_names()
            for path in self.folder.glob(f"{_UNFINISHED}*"):
                if not _in_use(path):
                    shutil.rmtree(path, ignore_errors=True)
        # Permissions do not tell whether a disk is full or read-only, so write a file.
        trial = self.begin("trial")
        try:
            with self._writing():
                _write(trial / "trial", "written")
        finally:
            self.abandon(trial)

    def _check_names(self) -> None:
        # A save takes the place of an older one, which is a directory; a file there would end the training at its step.
        for path in self.folder.iterdir():
            if _step_of(path) is not None and not path.is_dir():
                raise CheckpointError(
                    f"something else has the name of a save: {path}",
                    given="a link to nothing" if path.is_symlink() else "a file",
                    expected="a folder that train.Checkpoint has written",
                    fix="move it elsewhere, or give the training a folder of its own",
                )

    def begin(self, name: object) -> Path:
        """Create the directory of an unfinished save.

        Raises:
            CheckpointError: The directory cannot be created.
        """
        path = self.folder / f"{_UNFINISHED}{name}-{os.getpid()}"
        with self._writing():
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            self._unlock = lock_folder(path)
        return path

    def commit(self, unfinished: Path, step: int, about: Any) -> None:
        """Turn an unfinished save into a checkpoint, then remove those that are not to be kept.

        Raises:
            OSError: The checkpoint cannot be written; see `failed`.
        """
        try:
            _write(unfinished / _ABOUT, json.dumps(about))
            names = sorted(path.relative_to(unfinished).as_posix() for path in unfinished.rglob("*") if path.is_file())
            sums = {name: [(unfinished / name).stat().st_size, _digest(unfinished / name, sync=True)] for name in names}
            _write(unfinished / _SUMS, json.dumps({"version": 1, "files": sums}))
            # The rename must not reach the disk before the contents: a crash would leave a named but empty checkpoint.
            for path in [unfinished, *filter(Path.is_dir, unfinished.rglob("*"))]:
                fsync_directory(path)
            self._remove(self.folder / str(step))
            unfinished.rename(self.folder / str(step))
            fsync_directory(self.folder)
        finally:
            self._release()
        # Only now: until the new checkpoint is on disk, an old one is the only one.
        for old in self._not_kept(step):
            self._remove(self.folder / str(old))

    def _not_kept(self, latest: int) -> list[int]:
        """Return the steps of the checkpoints to remove."""
        steps = self.steps()
        if self._keep is None:
            return []
        if self._monitor is None:
            return steps[: -self._keep]
        best = self._monitor.best_first({step: self.metrics(step) for step in steps})
        # Checkpoints within an epoch do not have the metric. Until enough have it, a resume falls back to these.
        others = sorted(set(steps) - set(best), reverse=True)
        return sorted(set(steps) - {latest, *(best + others)[: self._keep]})

    def abandon(self, unfinished: Path, *, shared: bool = False) -> None:
        """Remove an unfinished save. If it is shared with other processes, the next start removes it.

        They may still write to it, and Orbax hangs if its directory disappears.
        """
        # `ignore_errors`, because an error that led here matters more to the user.
        self._release()
        if not shared:
            shutil.rmtree(unfinished, ignore_errors=True)

    def steps(self) -> list[int]:
        """Return the steps of all checkpoints, also damaged ones, in ascending order."""
        if not self.folder.is_dir():
            return []
        steps = ((_step_of(path), path) for path in self.folder.iterdir())
        return sorted(step for step, path in steps if step is not None and path.is_dir())

    def latest_step(self) -> int | None:
        """Return the step of the latest intact checkpoint, or None without any. Damaged ones are renamed.

        Raises:
            StateError: All checkpoints are damaged, or another program wrote them.
        """
        intact, damaged = self._latest_intact()
        for step, damage in damaged.items():
            aside = self.folder / f"{step}.damaged"
            shutil.rmtree(aside, ignore_errors=True)
            (self.folder / str(step)).rename(aside)
            _log.warning(
                "the save of step %d is damaged (%s); taking that of step %d. The damaged one is now %s",
                step, damage, intact, aside,
            )  # fmt: skip
        return intact

    def intact_step(self, step: int | Literal["best"] | None) -> int:
        """Return the step of an intact checkpoint to read: the latest one for None. Changes no files.

        Raises:
            StateError: The checkpoint does not exist or is damaged; the best one is not known.
        """
        if step is None:
            intact, damaged = self._latest_intact()
            if intact is None:
                raise StateError(f"the folder does not contain checkpoints: {self.folder}", fix="the folder of a run")
            for other, damage in damaged.items():
                _log.warning("the save of step %d is damaged (%s); taking that of step %d", other, damage, intact)
            return intact
        if step == "best":
            step = self._best_step()
        # A chosen checkpoint is not replaced by another one.
        damage = self._damage(step) if step in self.steps() else "it does not exist"
        if damage is not None:
            raise StateError(
                f"the save of step {step} cannot be read from {self.folder}",
                given=damage,
                expected=f"one of {', '.join(map(str, self.steps()))}",
                fix="another step, or step=None for the latest intact one",
            )
        return step

    def _best_step(self) -> int:
        steps = self.steps()
        monitors = [monitor for step in steps if (monitor := self._read(step).get("monitor")) is not None]
        # The latest run may have had another monitor than those before.
        best = Monitor(*monitors[-1]).best_first({step: self.metrics(step) for step in steps}) if monitors else []
        if not best:
            raise StateError(
                f"the best checkpoint of {self.folder} is not known",
                given=f"{len(steps)} checkpoints without a monitored value",
                fix='train.Checkpoint(..., monitor="val_accuracy", mode="max"), or the number of a step',
            )
        return best[0]

    def _latest_intact(self) -> tuple[int | None, dict[int, str]]:
        """Return the step of the latest intact checkpoint, and the damage of later ones by step."""
        damaged: dict[int, str] = {}
        for step in reversed(self.steps()):
            if (damage := self._damage(step)) is None:
                return step, damaged
            damaged[step] = damage
        # Nothing is renamed if all are damaged: the directory may belong to another program.
        if damaged:
            self._refuse(damaged)
        return None, damaged

    def metadata(self, step: int) -> Any:
        """Return the metadata of a checkpoint."""
        return json.loads((self.folder / str(step) / _ABOUT).read_text())

    def metrics(self, step: int) -> Mapping[str, float]:
        """Return the metrics of a checkpoint; none if its metadata are damaged."""
        return self._read(step).get("metrics", {})

    def _read(self, step: int) -> Mapping[str, Any]:
        """Return the metadata of a checkpoint; none if they are damaged."""
        try:
            _check_file(self.folder / str(step) / _ABOUT)
            metadata = self.metadata(step)
        except (OSError, ValueError):
            return {}
        return metadata if isinstance(metadata, dict) else {}

    def _refuse(self, damaged: dict[int, str]) -> None:
        if not any((self.folder / str(step) / _SUMS).exists() for step in damaged):
            raise StateError(
                f"the folder of the checkpoint holds something else: {self.folder}",
                given=f"sub-folders {', '.join(map(str, sorted(damaged)))} that train.Checkpoint did not write",
                expected="an empty folder, a new one, or one that train.Checkpoint has written to",
                fix="give the training a folder of its own",
            )
        raise StateError(
            f"no save in {self.folder} is whole",
            given="; ".join(f"step {step}: {damage}" for step, damage in damaged.items()),
            fix="restore the folder from a copy, or start again with another one",
        )

    def _damage(self, step: int) -> str | None:
        """Return the damage of a checkpoint, or None if it is intact."""
        folder = self.folder / str(step)
        try:
            _check_file(folder / _SUMS)
            sums = json.loads((folder / _SUMS).read_bytes())["files"]
            for name, (size, digest) in sums.items():
                path = folder / name
                if not path.is_file():
                    return f"{name} is missing"
                # Cheaper than the checksum, and a better message for a truncated file.
                if path.stat().st_size != size:
                    return f"{name} has {path.stat().st_size} bytes of {size}"
                if _digest(path) != digest:
                    return f"{name} has changed since it was written"
        except FileNotFoundError:
            return f"{_SUMS} is missing"
        except OSError as error:
            return str(error)
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"{_SUMS} is damaged"
        return None

    def _remove(self, path: Path) -> None:
        """Remove a checkpoint. It is renamed first, so that a partial one does not have a checkpoint's name."""
        if path.is_dir():
            going = path.with_name(f"{_UNFINISHED}{path.name}-{os.getpid()}-old")
            path.rename(going)
            shutil.rmtree(going, ignore_errors=True)

    def _release(self) -> None:
        if self._unlock is not None:
            self._unlock()
            self._unlock = None

    @contextmanager
    def _writing(self) -> Generator[None]:
        """Report errors of the file system as `CheckpointError`."""
        try:
            yield
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: Exception) -> CheckpointError:
        kept = self.steps()
        return CheckpointError(
            f"the checkpoint cannot be written: {_reason(error)}",
            given=f"{self.folder}, " + (f"whose last save is that of step {kept[-1]}" if kept else "with no save"),
            fix="a folder that can be written to, on a disk with room",
        )

    def failed(self, unfinished: Path, error: Exception, *, shared: bool = False) -> CheckpointError:
        """Abandon a save that could not be written, and return the error to raise."""
        self.abandon(unfinished, shared=shared)
        return self._unwritable(error)


def _step_of(path: Path) -> int | None:
    """Return the step of a path that is named like a save, otherwise None.

    >>> [_step_of(Path(name)) for name in ("16", "016", "16.damaged")]
    [16, None, None]
    """
    return int(path.name) if path.name.isdecimal() and path.name == str(int(path.name)) else None


def _check_file(path: Path) -> None:
    """Raise an OSError if the path is not a file: reading a pipe would wait for a writer, perhaps forever."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path.name} is not a file")


def _reason(error: Exception) -> str:
    """Return the reason of a failure to write, without the long paths that Orbax and TensorStore name before it."""
    text = error_text(error)
    reasons = map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOTDIR))
    return next((reason for reason in reasons if reason in text), text)


def _digest(path: Path, *, sync: bool = False) -> str:
    with path.open("rb") as file:
        # Orbax has written these files, so they may not be on disk yet.
        if sync:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        fsync_file(file)


def _in_use(folder: Path) -> bool:
    """Return True if a living process is writing a save there."""
    try:
        lock_folder(folder)()
    except OSError as error:  # another process holds the lock, or has removed the directory
        return isinstance(error, BlockingIOError)
    return False
