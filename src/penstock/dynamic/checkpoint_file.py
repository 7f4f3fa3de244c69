"""Checkpoints of dynamic mode: the states of readers and generators, in one file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from string import Formatter
from typing import Any, cast

from penstock.core import with_call_site
from penstock.core.atomic_files import write_atomically
from penstock.errors import ArgumentTypeError, ContextError, StateError, UsageError, short_repr
from penstock.sources.storage.local_bytes import read_file

# Version of DALI's format, whose states are those of other readers and generators.
_VERSION = 2

# Prefix of the names that `register` chooses.
_NUMBERED = "__op_"


@dataclass(frozen=True)
class _Saved:
    """State of an object.

    Args:
        state: The state.
        kind: Name of the object's class; None if unknown.
        applied: True if the object has this state, or had it when it was collected.
    """

    state: Any
    kind: str | None
    applied: bool


class _Stage(Enum):
    """Origin of the states."""

    OPEN = "no states, or those of set_state"
    COLLECTED = "states of the registered objects"
    LOADED = "states of a file or text"


class _UnknownKeyError(StateError, KeyError):
    """A checkpoint has no such name."""

    __str__ = StateError.__str__  # that of KeyError would quote the message


class Checkpoint:
    """States of readers and generators by name: of everything that has `get_state` and `set_state`.

    To save, `register` the objects, `collect` their states, and `save`. To resume, `load`, and `register` the same
    objects under the same names: each gets its state at once.

    >>> import tempfile
    >>> from penstock import dynamic as ndd
    >>> pattern = tempfile.mkdtemp() + "/run_{seq}.json"
    >>> rng, checkpoint = ndd.random.RNG(7), ndd.checkpoint.Checkpoint()
    >>> checkpoint.register(rng, "rng")
    'rng'
    >>> rng.advance(5)
    >>> checkpoint.collect()
    >>> path = checkpoint.save(pattern)
    >>> other, resumed = ndd.random.RNG(0), ndd.checkpoint.Checkpoint()
    >>> resumed.load(pattern) == path, resumed.register(other, "rng"), other() == rng()
    (True, 'rng', True)
    """

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._saved: dict[str, _Saved] = {}
        self._stage = _Stage.OPEN
        self._next_number: int | None = None

    def clear(self) -> None:
        """Forget all objects and states."""
        self._objects.clear()
        self._saved.clear()
        self._stage, self._next_number = _Stage.OPEN, None

    @property
    def is_complete(self) -> bool:
        """True after `collect`."""
        return self._stage is _Stage.COLLECTED

    @property
    def is_loaded(self) -> bool:
        """True after `load` or `deserialize`."""
        return self._stage is _Stage.LOADED

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the registered objects."""
        return tuple(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, name: object) -> bool:
        return str(name) in self._objects

    @with_call_site
    def register(self, op: Any, name: str | None = None) -> str:
        """Add a reader or generator, and apply its state if one was loaded.

        Args:
            op: The object.
            name: Its name; by default the name it has, or ``__op_0``, ``__op_1``, ... in the order of the calls.

        Returns:
            The name.

        Raises:
            ArgumentTypeError: The object is neither a reader nor a generator, or the name belongs to an object or state
                of another class.
            ContextError: The object has another name, or the checkpoint is complete.
            StateError: The name is empty or reserved, or the loaded checkpoint does not have it.
        """
        if not hasattr(op, "get_state") or not hasattr(op, "set_state"):
            raise ArgumentTypeError(
                "a checkpoint holds readers and generators",
                given=short_repr(op),
                expected="an object with get_state and set_state",
            )
        if name is not None and (not name or name.startswith(_NUMBERED)):
            raise StateError(f"a name must not be empty or begin with {_NUMBERED!r}", given=repr(name))
        old = next((key for key, value in self._objects.items() if value is op), None)
        if old is not None and name not in (None, old):
            raise ContextError("the object is registered already", given=name, expected=old)
        key = old or name or f"{_NUMBERED}{len(self._objects)}"
        known = self._objects.get(key)
        if known is None:
            if self.is_complete:
                raise ContextError("the checkpoint is complete", given=key, fix="clear() before new names")
            if self.is_loaded and key not in self._saved:
                raise _UnknownKeyError("the checkpoint has no such name", given=key, expected=_listed(self._saved))
        elif type(known) is not type(op):
            raise ArgumentTypeError(
                f"{key!r} is the name of an object of another class",
                given=type(op).__qualname__,
                expected=type(known).__qualname__,
            )
        self._objects[key] = op
        self._apply(key)
        return key

    def _apply(self, key: str) -> None:
        saved = self._saved.get(key)
        if saved is None or saved.applied:
            return
        op = self._objects[key]
        if saved.kind is not None and type(op).__qualname__ != saved.kind:
            raise ArgumentTypeError(
                f"the state of {key!r} belongs to another class", given=type(op).__qualname__, expected=saved.kind
            )
        op.set_state(saved.state)
        self._saved[key] = _Saved(saved.state, saved.kind, applied=True)

    @with_call_site
    def get_state(self, name: str) -> Any:
        """Return the state that is stored for a registered object, or None.

        Raises:
            KeyError: No object has this name.
        """
        if name not in self._objects:
            raise _UnknownKeyError("no object has this name", given=name, expected=_listed(self._objects))
        return self._saved[name].state if name in self._saved else None

    @with_call_site
    def set_state(self, name: str, value: Any, op_type: type[Any] | str | None = None) -> None:
        """Store a state, which `register` or `restore` applies.

        Args:
            name: Name of a registered object, or of one to come.
            value: The state.
            op_type: Class of the object, or its name, which is then checked.

        Raises:
            KeyError: The checkpoint is complete, and no object has this name.
            ArgumentTypeError: `op_type` is neither a class nor a name.
        """
        if self.is_complete and name not in self._objects:
            raise _UnknownKeyError("no object has this name", given=name, expected=_listed(self._objects))
        if op_type is not None and not isinstance(cast(Any, op_type), str | type):
            raise ArgumentTypeError("op_type is a class or its name", given=short_repr(op_type))
        kind = op_type.__qualname__ if isinstance(op_type, type) else op_type
        self._saved[str(name)] = _Saved(value, kind, applied=False)

    @with_call_site
    def collect(self) -> None:
        """Store the state of every registered object.

        Raises:
            ContextError: A stored state does not belong to a registered object.
        """
        self._check_names(self._saved.keys() - self._objects.keys(), "no object has the name of a state")
        self._saved = {
            key: _Saved(op.get_state(), type(op).__qualname__, applied=True) for key, op in self._objects.items()
        }
        self._stage = _Stage.COLLECTED

    @with_call_site
    def restore(self) -> None:
        """Apply the stored states that have not been applied.

        Raises:
            ContextError: A state does not belong to a registered object, or an object lacks one.
        """
        if not self._saved:
            return
        self._check_names(self._saved.keys() - self._objects.keys(), "no object has the name of a state")
        self._check_names(self._objects.keys() - self._saved.keys(), "an object lacks a state")
        for key in tuple(self._saved):
            self._apply(key)

    def _check_names(self, wrong: set[str], message: str) -> None:
        if wrong:
            raise ContextError(message, given=_listed(sorted(wrong)), fix="register the same objects")

    @with_call_site
    def serialize(self) -> str:
        """Return the states as JSON.

        Raises:
            ContextError: There are none.
        """
        if not self._saved:
            raise ContextError("the checkpoint is empty", fix="collect()")
        states = {key: {"state": str(saved.state), "type": saved.kind} for key, saved in self._saved.items()}
        return json.dumps({"version": _VERSION, "states": states})

    @with_call_site
    def deserialize(self, data: str) -> None:
        """Replace the states by those of a text that `serialize` returned.

        Raises:
            StateError: The text is malformed, or of another version.
        """
        try:
            payload = json.loads(data)
            version, states = payload["version"], payload["states"]
            saved = {key: _saved_entry(entry) for key, entry in states.items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            raise StateError("not a checkpoint", given=short_repr(data), expected="the text of serialize()") from None
        if version != _VERSION:
            raise StateError("the checkpoint has another version", given=version, expected=_VERSION)
        self._saved, self._stage = saved, _Stage.LOADED

    @with_call_site
    def save(self, filename: str) -> str:
        """Write the states to a new file.

        Args:
            filename: Pattern of the path with one field `seq`, such as ``"run_{seq:04d}.json"``. The next free number
                replaces it.

        Returns:
            The path.

        Raises:
            ContextError: The checkpoint is empty.
            UsageError: The pattern lacks the field `seq`, or has another one.
        """
        text = self.serialize()
        files = dict(_matching_files(filename))
        number = max([*(key + 1 for key in files), self._next_number or 0])
        path = Path(filename.format(seq=number))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, [text.encode()])
        self._next_number = number + 1
        return str(path)

    @with_call_site
    def load(self, filename: str) -> str:
        """Read the states of the file with the highest number.

        Args:
            filename: Pattern of the path; see `save`.

        Returns:
            The path.

        Raises:
            FileNotFoundError: No file matches.
            StateError: The file is not a checkpoint.
            UsageError: The pattern lacks the field `seq`, or has another one.
        """
        files = dict(_matching_files(filename))
        if not files:
            raise _MissingCheckpointError("no checkpoint matches the pattern", given=filename)
        number = max(files)
        try:
            text = read_file(str(files[number])).tobytes().decode(errors="replace")
        except OSError as error:
            raise StateError("the checkpoint cannot be read", given=f"{files[number]}: {error.strerror}") from error
        self.deserialize(text)
        self._next_number = number + 1
        return str(files[number])


def _saved_entry(entry: Any) -> _Saved:
    """Return the state in an entry of a serialized checkpoint.

    Raises:
        TypeError: The name of its class is not text.
    """
    kind = entry.get("type")
    if not isinstance(kind, str | None):
        raise TypeError(kind)
    return _Saved(str(entry["state"]), kind, applied=False)


class _MissingCheckpointError(StateError, FileNotFoundError):
    """No file has the name of a checkpoint."""


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"


def _matching_files(pattern: str) -> Iterator[tuple[int, Path]]:
    """Yield the number and path of each file that a pattern matches."""
    try:
        parts = list(Formatter().parse(pattern))
        fields = [field for _, field, _, _ in parts if field is not None]
        pattern.format(seq=0)
    except (ValueError, KeyError, IndexError):
        fields = []
    if fields != ["seq"]:
        raise UsageError("the name of a checkpoint needs one field {seq}", given=pattern, expected="run_{seq:04d}.json")
    folder, name = Path(pattern).parent, Path(pattern).name
    if "{" not in name:
        raise UsageError("the number belongs to the name of the file, not of its folder", given=pattern)
    (before, _, _, _), *rest = Formatter().parse(name)
    after = "".join(text for text, _, _, _ in rest)
    expression = re.compile(f"{re.escape(before)}([0-9]+){re.escape(after)}")
    for path in folder.iterdir() if folder.is_dir() else ():
        match = expression.fullmatch(path.name)
        # Numbers of another width are not of this pattern.
        if match and path.name == name.format(seq=int(match[1])):
            yield int(match[1]), path
