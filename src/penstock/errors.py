"""Exceptions of penstock, the form of their messages, and the category of its warnings.

All derive from `PenstockError`, and also from the built-in class that a caller would expect and that DALI raises for
the same mistake. A message states what is wrong, what was given, what was expected, how to fix it, and the line of the
user's definition.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
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
    "PenstockWarning",
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
    """Base class of all exceptions of penstock.

    Args:
        what: A sentence that states the problem.
        given: The wrong value. Its text is cut to 1,000 characters.
        expected: The values that would be right.
        fix: The code to write instead.
        where: The line of the user's definition. `with_call_site` adds it to errors that lack it.

    Attributes:
        subject: The function that was called, such as "fn.resize", for the beginning of the message. `about` sets it.
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
        self.subject = ""
        lines = [what]
        # The text of a value may have megabytes, such as that of a long list.
        lines += [f"  given:    {_cut(_text(given), 1000)}"] if given is not None else []
        lines += [f"  expected: {expected}"] if expected is not None else []
        lines += [f"  fix:      {fix}"] if fix is not None else []
        super().__init__("\n".join(lines))

    def __reduce__(self) -> Any:
        """Pickle the message and the attributes: subclasses make their message from other arguments."""
        return _restored, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        message = f"{self.subject}: {self.args[0]}" if self.subject else str(self.args[0])
        return f"{message}\n  at:       {self.where}" if self.where is not None else message


def _restored(kind: type[PenstockError], args: tuple[Any, ...], attributes: dict[str, Any]) -> PenstockError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


@contextmanager
def about(subject: str) -> Generator[None]:
    """Begin the messages of errors with the name of the function that the user called.

    Of functions that call each other the outermost counts, since that is the one in the user's program.

    >>> with about("fn.resize"):
    ...     raise DefinitionError("the size is missing")
    Traceback (most recent call last):
    penstock.errors.DefinitionError: fn.resize: the size is missing
    """
    try:
        yield
    except PenstockError as error:
        error.subject = subject
        raise


class DefinitionError(PenstockError, ValueError):
    """Error in a pipeline definition, found while tracing it: a dtype, layout, axis or shape."""


class ArgumentTypeError(PenstockError, TypeError):
    """Argument of a wrong type, or an unknown argument."""


class UsageError(PenstockError, ValueError, AssertionError):
    """Arguments of an iterator or pipeline that exclude each other.

    DALI raises ValueError for some of these mistakes and AssertionError for others; programs may catch either.
    """


class UnknownNameError(PenstockError, AttributeError, ValueError):
    """Unknown name of an operator or option."""


class UnknownReaderError(PenstockError, LookupError, RuntimeError):
    """Unknown name of a reader."""


class ContextError(PenstockError, RuntimeError):
    """Call in the wrong place: an operator outside a definition, a node of another pipeline."""


class SourceError(PenstockError, RuntimeError):
    """Data set that cannot be opened, or has another format than its reader expects."""


class SourceNotReadyError(SourceError):
    """Python source that fails or ends while its specs are inferred. It may be ready for the first batch."""


class SourceNotFoundError(SourceError, FileNotFoundError):
    """Path that does not exist."""


class SampleError(PenstockError, RuntimeError):
    """Bad sample: it cannot be read, decoded, or brought to the required shape.

    Args:
        what: A sentence that states the problem.
        index: The index of the sample in its data set; None if unknown.
        source: The path of the sample, or its database and key; None if unknown.
        path: The file that holds the sample; None if there is none.
        **more: Arguments of `PenstockError`.
    """

    def __init__(
        self, what: str, *, index: int | None = None, source: str | None = None, path: str | None = None, **more: Any
    ) -> None:
        super().__init__(what, **more)
        self.index, self.source, self.path = index, source, path

    @staticmethod
    def of(index: int, source: str, what: str, path: str | None) -> SampleError:
        """Return the error for a sample; the message names it by its index and `source`."""
        return SampleError(f"sample {index} ({source}) {what}", index=index, source=source, path=path)


class ResourceError(PenstockError, OSError):
    """Missing or exhausted resource: open files, memory, disk space, a module, the limit on a sample's bytes.

    No sample is skipped or replaced because of it, since good samples would fail, too.
    """


class StateError(PenstockError, ValueError):
    """Saved state of another definition or data set."""


class CheckpointError(PenstockError, OSError):
    """Checkpoint that cannot be written: no permission, no disk space, no folder."""


class NotFiniteError(PenstockError, FloatingPointError):
    """Metric that is NaN or infinite."""


class JobError(PenstockError, RuntimeError):
    """Failure of another process of the job, or its end while this process needs it."""


class MissingExtraError(PenstockError, ImportError):
    """Optional dependency that is not installed.

    Args:
        package: The module that could not be imported.
        extra: The extra of penstock that installs it.
        needed_for: The feature that needs it.

    Attributes:
        command: The command that installs the extra.
    """

    def __init__(self, package: str, extra: str, needed_for: str) -> None:
        self.command = f'pip install "penstock[{extra}]"'
        super().__init__(f"{needed_for} needs the package {package!r}", fix=self.command)


class MissingModuleError(PenstockError, ModuleNotFoundError):
    """Module of DALI that penstock does not have."""


class InternalError(PenstockError, RuntimeError):
    """Bug in penstock or in a third party's operator, not in the user's program."""

    def __init__(
        self, what: str, *, given: object = None, expected: object = None, where: object | None = None
    ) -> None:
        super().__init__(
            f"[internal error] {what}", given=given, expected=expected, fix="please report it", where=where
        )
        self.what, self.given, self.expected = what, given, expected

    def in_context(self, outer: str, where: object) -> InternalError:
        """Return the same error with a message that names its context first."""
        return InternalError(f"{outer}: {self.what}", given=self.given, expected=self.expected, where=where)


class PenstockWarning(UserWarning):
    """Part of a program that runs, but probably does something else than intended."""


# Fix by the number of a system error. No sample is to blame for these: good samples would fail in the same way.
_RESOURCES = {
    errno.EMFILE: "fewer threads, processes or open files; `ulimit -n` shows how many files may be open",
    errno.ENFILE: "fewer processes or open files on this machine",
    errno.ENOMEM: "fewer threads or processes, smaller batches, or more memory",
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room on the disk, or ask for a larger quota",
}


def resource_error(error: BaseException) -> ResourceError | None:
    """Return the error to raise if the environment, not a sample, caused an error; otherwise None.

    The environment fails for good samples, too: memory, open files, disk space, a module that cannot be imported, a
    loop that Numba cannot compile.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ResourceError):
            return ResourceError(str(cause.args[0]), where=cause.where)
        if (shortage := _shortage(cause)) is not None:
            reason, fix = shortage
            return ResourceError(f"no sample can be read or computed now: {reason}", fix=fix)
        cause = cause.__cause__
    return None


def _shortage(error: BaseException) -> tuple[str, str | None] | None:
    """Return the reason and the fix if the environment caused an error; otherwise None."""
    if isinstance(error, OSError) and error.errno in _RESOURCES:
        return str(error.strerror), _RESOURCES[error.errno]
    if isinstance(error, MemoryError):
        return f"out of memory{f': {error}' if str(error) else ''}", _RESOURCES[errno.ENOMEM]
    if isinstance(error, PenstockError) and isinstance(error, ImportError):
        return str(error.args[0]), None  # the message names the extra to install
    if isinstance(error, ImportError):
        return f"{type(error).__name__}: {error}", "install the module, or import it where the program begins"
    # By name: importing Numba takes about as long as a first batch.
    if type(error).__module__ == "numba.core.errors":
        return f"Numba cannot compile a loop: {error}", None
    return None


def error_text(error: Exception) -> str:
    """Return the message of the operating system if an error has one; otherwise the error's text."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def short_repr(value: object) -> str:
    """Return the `repr` of a value for a message, cut to 80 characters.

    >>> short_repr([1, "a"])
    "[1, 'a']"
    """
    return _cut(_text(value, _beginning), 80)


def _beginning(value: object) -> str:
    # The `repr` of a list of millions of paths would take seconds, and only 80 characters of it are shown.
    if isinstance(value, list | tuple) and len(cast(list[Any], value)) > 80:
        return repr(cast(list[Any], value)[:80])
    return repr(cast(object, value))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _text(value: object, form: Callable[[object], str] = str) -> str:
    try:
        return form(value)
    except Exception:  # noqa: BLE001  # a user's object may raise anything
        return f"an object of type {type(value).__name__}"


def dali_object_hint(value: object) -> str | None:
    """Return the fix for an object of DALI's package; None for other objects."""
    # Porting a program, one easily leaves `from nvidia.dali import types`: its enums have the same names as ours.
    return "it is DALI's: import it from penstock" if type(value).__module__.startswith("nvidia.dali") else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a fix with the names nearest to `name`; with all of them if none is near or `name` is not a string.

    >>> did_you_mean("flipp", ["flip", "reshape"])
    "did you mean 'flip'?"
    >>> did_you_mean("xyz", ["flip", "reshape"])
    'one of flip, reshape'
    """
    options = sorted(known)
    near = nearest_names(name, options) if isinstance(name, str) else None
    return near or (f"one of {', '.join(options)}" if options else "there are none")


def nearest_names(name: str, known: Iterable[str]) -> str | None:
    """Return a fix with the names nearest to `name`; None if none is near.

    >>> nearest_names("flipp", ["flip", "reshape"])
    "did you mean 'flip'?"
    """
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else None
