"""Orbax handler for iterators, with which a `CheckpointManager` saves model, optimizer and iterator together."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from penstock.core import optional_import
from penstock.errors import StateError, UsageError
from penstock.graph import check_annotations
from penstock.iterate import DataIterator
from penstock.sources.storage.local_bytes import read_file

_FILE = "iterator.json"


class IteratorCheckpointHandler:
    """Orbax `CheckpointHandler` for the state of a `DataIterator`.

    `IteratorSave` and `IteratorRestore` are its arguments, for an item of `ocp.args.Composite`, or for
    `ocp.Checkpointer` and `ocp.AsyncCheckpointer`. The state is the same in all processes, so one file holds it, and
    it can be restored on any devices and processes.

    Args:
        primary_host: Process that writes the file; None if each process writes to its own storage. As in Orbax's
            `MultiprocessingOptions`.

    Raises:
        MissingExtraError: Orbax is not installed.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import orbax.checkpoint as ocp
        >>> from penstock import train
        >>> data = train.batches(np.arange(32.0), 8, shuffle=True)
        >>> _ = next(data)
        >>> with ocp.CheckpointManager(tempfile.mkdtemp()) as manager:
        ...     model = {"w": np.ones(3)}
        ...     args = ocp.args.Composite(model=ocp.args.StandardSave(model), data=train.IteratorSave(data))
        ...     _ = manager.save(1, args=args)
        ...     second = next(data)["x"]
        ...     other = train.batches(np.arange(32.0), 8, shuffle=True)
        ...     args = ocp.args.Composite(model=ocp.args.StandardRestore(model), data=train.IteratorRestore(other))
        ...     _ = manager.restore(1, args=args)
        >>> bool((next(other)["x"] == second).all())
        True
    """

    # Orbax only calls these methods. Deriving from its class would import Orbax with `penstock.train`.

    @check_annotations
    def __init__(self, *, primary_host: int | None = 0) -> None:
        # Orbax looks up the classes of arguments when it receives the handler; making them registers them.
        args_classes()
        self._primary_host = primary_host

    @classmethod
    def typestr(cls) -> str:
        """Return the name under which Orbax records the handler."""
        return f"{cls.__module__}.{cls.__qualname__}"

    def save(self, directory: Path, args: IteratorSave) -> None:
        """Write the state to a directory."""
        if self._primary_host in (None, jax.process_index()):
            (directory / _FILE).write_text(args.state)

    async def async_save(self, directory: Path, args: IteratorSave) -> list[Any]:
        """Write the state to a directory in the background, for `ocp.AsyncCheckpointer`.

        Returns:
            The futures of the save, in Orbax's terms.
        """
        ocp = optional_import.import_extra("orbax.checkpoint", "train", "train.IteratorCheckpointHandler")

        async def write() -> None:
            self.save(directory, args)

        # Orbax may create the directory in the background too; this future waits for it.
        return [ocp.future.CommitFutureAwaitingContractedSignals(write(), name="penstock_iterator_save")]

    def restore(self, directory: Path, args: IteratorRestore | None = None) -> Any:
        """Restore an iterator and return it, or return the state if the arguments do not name one.

        Raises:
            StateError: The directory does not contain the state of an iterator, or it belongs to another one.
        """
        path = directory / _FILE
        try:
            state = json.loads(read_file(str(path)).tobytes())
        except (OSError, ValueError) as error:
            raise StateError(
                f"the directory does not contain the state of an iterator: {directory}",
                given=str(error),
                fix="the item that was saved with train.IteratorSave",
            ) from error
        if args is None or args.item is None:
            return state
        args.item.set_state(state)
        return args.item

    def metadata(self, directory: Path) -> None:
        """Return no metadata."""

    def finalize(self, directory: Path) -> None:
        """Do nothing: Orbax renames the directory."""

    def close(self) -> None:
        """Do nothing: the handler holds no resources."""


def check_has_state(iterator: Any) -> DataIterator:
    """Return the iterator.

    Raises:
        UsageError: It does not have a state to save.
    """
    if not isinstance(iterator, DataIterator):
        raise UsageError(
            "a checkpoint needs an iterator with a state",
            given=type(iterator).__name__,
            fix="train.batches or data_iterator",
        )
    return iterator


@cache
def args_classes() -> dict[str, type]:
    """Return the classes of arguments by name. Their base class is Orbax's, which is optional and slow to import.

    Raises:
        MissingExtraError: Orbax is not installed.
    """
    ocp = optional_import.import_extra("orbax.checkpoint", "train", "train.IteratorCheckpointHandler")

    @ocp.args.register_with_handler(IteratorCheckpointHandler, for_save=True)
    @dataclass
    class IteratorSave(ocp.args.CheckpointArgs):
        """Arguments to save an iterator with Orbax. See `IteratorCheckpointHandler`.

        The state is that of the time of the call. In a job of several processes, call it after a step in which all
        of them take part, as for `DataIterator.get_state`.

        Args:
            item: The iterator.

        Raises:
            UsageError: The iterator does not have a state.
        """

        __qualname__ = "IteratorSave"  # the name in messages of Orbax
        item: DataIterator
        state: str = field(init=False, repr=False)

        def __post_init__(self) -> None:
            # Here, because Orbax may call the handler on another thread, and only the thread of the consumer may
            # wait for devices.
            self.state = check_has_state(self.item).checkpoints()[0].decode()

    @ocp.args.register_with_handler(IteratorCheckpointHandler, for_restore=True)
    @dataclass
    class IteratorRestore(ocp.args.CheckpointArgs):
        """Arguments to restore an iterator with Orbax. See `IteratorCheckpointHandler`.

        Args:
            item: Iterator over the same definition and data, on any devices. Without it, Orbax returns the state,
                for `DataIterator.set_state`.
        """

        __qualname__ = "IteratorRestore"
        item: DataIterator | None = None

        def __post_init__(self) -> None:
            if self.item is not None:
                check_has_state(self.item)

    return {"IteratorSave": IteratorSave, "IteratorRestore": IteratorRestore}


if TYPE_CHECKING:

    class IteratorSave:
        """See `args_classes`."""

        state: str

        def __init__(self, item: DataIterator) -> None: ...

    class IteratorRestore:
        """See `args_classes`."""

        item: DataIterator | None

        def __init__(self, item: DataIterator | None = None) -> None: ...
