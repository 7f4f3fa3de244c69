"""Every exception that penstock raises, and how its message is built.

One base class, `PenstockError`; each kind also derives from the built-in class that a caller would expect, and that
DALI raises for the same mistake. A message states what is wrong, what was given, what was expected, how to fix it,
and the line of the user's definition.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Callable, Iterable
from typing import Any, cast

__all__ = [
    "ArgumentTypeError",
    "CheckpointError",
    "ContextError",
    "DefinitionError",
    "InternalError",
    "JobError",
    "MissingExtraError",
    "MissingModuleError",
    "NotFiniteError",
    "PenstockError",
    "ResourceError",
    "SampleError",
    "SourceError",
    "SourceNotFoundError",
    "SourceNotReadyError",
    "StateError",
    "UnknownNameError",
    "UnknownReaderError",
    "UsageError",
]


class PenstockError(Exception):
    """Something penstock refuses or cannot do.

    Args:
        what: one sentence that states the problem.
        given: what was given.
        expected: what would have been right.
        fix: what to write instead.
        where: the line of the user's definition. What is raised without it gets it where the line is known.
    """

    def __init__(
        self,
        what: str,
        *,
        given: object = None,
        expected: object = None,
        fix: str | None = None,
        where: object | None = None,
    ) -> None:
        self.where = where
        lines = [what]
        lines += [f"  given:    {_cut(_text(given), 1000)}"] if given is not None else []
        lines += [f"  expected: {expected}"] if expected is not None else []
        lines += [f"  fix:      {fix}"] if fix is not None else []
        super().__init__("\n".join(lines))

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}\n  at:       {self.where}" if self.where is not None else message


class DefinitionError(PenstockError, ValueError):
    """A pipeline definition that cannot be right, found while it is traced: dtype, layout, axis, shape."""


class ArgumentTypeError(PenstockError, TypeError):
    """An argument of a kind that the function does not take, or one that it does not have."""


class UsageError(PenstockError, ValueError, AssertionError):
    """An iterator or pipeline given arguments that do not go together.

    DALI raises ValueError for some of these mistakes and AssertionError for others; programs may catch either.
    """


class UnknownNameError(PenstockError, AttributeError, ValueError):
    """A name that nothing has: an operator, an option."""


class UnknownReaderError(PenstockError, LookupError, RuntimeError):
    """A reader name that no reader of the pipeline has."""


class ContextError(PenstockError, RuntimeError):
    """A call in the wrong place: an operator outside a definition, a run of what was closed."""


class SourceError(PenstockError, RuntimeError):
    """A data set that cannot be opened, or is not what its reader reads."""


class SourceNotReadyError(SourceError):
    """A source in Python that fails, or ends, when it is asked what it gives. It may be ready for the first batch."""


class SourceNotFoundError(SourceError, FileNotFoundError):
    """A path that does not exist."""


class SampleError(PenstockError, RuntimeError):
    """One bad sample: it cannot be read, decoded, or brought to the shape that is needed.

    Args:
        what: one sentence that states the problem.
        index: the number of the sample in its data set, where it is known.
        source: what the data set calls the sample: its path, or its database and key.
        path: the file that holds it, where it is one.
        **more: as `PenstockError` takes it.
    """

    def __init__(
        self, what: str, *, index: int | None = None, source: str | None = None, path: str | None = None, **more: Any
    ) -> None:
        super().__init__(what, **more)
        self.index, self.source, self.path = index, source, path

    @staticmethod
    def of(index: int, source: str, what: str, path: str | None) -> SampleError:
        """The error for a sample of a data set, whose message names the sample by its number and `source`."""
        return SampleError(f"sample {index} ({source}) {what}", index=index, source=source, path=path)


class ResourceError(PenstockError, OSError):
    """Something is missing or too small: open files, memory, disk space, a module, the limit on a sample's bytes.

    No sample is to blame, so none is skipped or replaced for it.
    """


class StateError(PenstockError, ValueError):
    """A saved state that belongs to another definition or data set."""


class CheckpointError(PenstockError, OSError):
    """A checkpoint that cannot be written: no right, no room, no folder."""


class NotFiniteError(PenstockError, FloatingPointError):
    """A metric that is not a number, or infinite."""


class JobError(PenstockError, RuntimeError):
    """Another process of the job has failed, or has ended while this one needs it."""


class MissingExtraError(PenstockError, ImportError):
    """An optional dependency that is not installed.

    Args:
        package: the module that could not be imported.
        extra: the extra of penstock that brings it.
        needed_for: what wanted it.
    """

    def __init__(self, package: str, extra: str, needed_for: str) -> None:
        super().__init__(f"{needed_for} needs the package {package!r}", fix=f'pip install "penstock[{extra}]"')


class MissingModuleError(PenstockError, ModuleNotFoundError):
    """A module that DALI has and penstock has not."""


class InternalError(PenstockError, RuntimeError):
    """A fault of penstock or of a third party's operator, not of the user's program."""

    def __init__(
        self, what: str, *, given: object = None, expected: object = None, where: object | None = None
    ) -> None:
        super().__init__(
            f"[internal error] {what}", given=given, expected=expected, fix="please report it", where=where
        )
        self.what, self.given, self.expected = what, given, expected

    def in_context(self, outer: str, where: object) -> InternalError:
        """The same fault, said of what it happened in."""
        return InternalError(f"{outer}: {self.what}", given=self.given, expected=self.expected, where=where)


_RESOURCES = {
    errno.EMFILE: "fewer threads, processes or open files; `ulimit -n` shows how many files may be open",
    errno.ENFILE: "fewer processes or open files on this machine",
    errno.ENOMEM: "fewer threads or processes, smaller batches, or more memory",
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room on the disk, or ask for a larger quota",
}
"""Numbers of system errors that no sample is to blame for, and what helps."""


def resource_error(error: BaseException) -> ResourceError | None:
    """Return the error to raise where the environment, not a sample, is the cause of an error; else None.

    Environment is what fails for good samples, too: memory, open files, disk space, a module that cannot be imported,
    a loop that Numba cannot compile.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ResourceError):
            return ResourceError(str(cause.args[0]), where=cause.where)
        if (lack := _lack(cause)) is not None:
            said, fix = lack
            return ResourceError(f"no sample can be read or computed now: {said}", fix=fix)
        cause = cause.__cause__
    return None


def _lack(error: BaseException) -> tuple[str, str | None] | None:
    """What the environment lacks, if an error says so, and what helps."""
    if isinstance(error, OSError) and error.errno in _RESOURCES:
        return str(error.strerror), _RESOURCES[error.errno]
    if isinstance(error, MemoryError):
        return f"out of memory{f': {error}' if str(error) else ''}", _RESOURCES[errno.ENOMEM]
    if isinstance(error, PenstockError) and isinstance(error, ImportError):
        return str(error.args[0]), None  # it names the extra to install
    if isinstance(error, ImportError):
        return f"{type(error).__name__}: {error}", "install the module, or import it where the program begins"
    if type(error).__module__ == "numba.core.errors":  # by name, since importing Numba takes long
        return f"Numba cannot compile a loop: {error}", None
    return None


def error_text(error: Exception) -> str:
    """What the system said, where it is the system's error and says something; else the error's own text."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def short_repr(given: object) -> str:
    """An argument for messages: the beginning of what `repr` says of it.

    >>> short_repr([1, "a"])
    "[1, 'a']"
    """
    return _cut(_text(given, _beginning), 80)


def _beginning(given: object) -> str:
    """What `repr` says, or more than the beginning of that, where it would take long."""
    if isinstance(given, list | tuple) and len(cast(list[Any], given)) > 80:
        return repr(cast(list[Any], given)[:80])
    return repr(cast(object, given))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _text(given: object, form: Callable[[object], str] = str) -> str:
    try:
        return form(given)
    except Exception:  # noqa: BLE001  # a user's object may raise anything
        return f"something of type {type(given).__name__}"


def dali_object_hint(given: object) -> str | None:
    """What to do about an object of DALI's that was given where one of penstock's is needed; None for other objects."""
    return "it is DALI's: import it from penstock" if type(given).__module__.startswith("nvidia.dali") else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A sentence with the names nearest to `name`, or with all of them where none is near, or `name` is no text.

    >>> did_you_mean("flipp", ["flip", "reshape"])
    "did you mean 'flip'?"
    >>> did_you_mean("xyz", ["flip", "reshape"])
    'one of flip, reshape'
    """
    options = sorted(known)
    near = nearest_names(name, options) if isinstance(name, str) else None
    return near or (f"one of {', '.join(options)}" if options else "there are none")


def nearest_names(name: str, known: Iterable[str]) -> str | None:
    """A sentence with the names nearest to `name`; None where none is near.

    >>> nearest_names("flipp", ["flip", "reshape"])
    "did you mean 'flip'?"
    """
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else None
