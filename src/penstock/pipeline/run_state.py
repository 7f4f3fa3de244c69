"""State of a run at a position, of an iterator or of `Pipeline.run`: a few numbers, as plain JSON."""

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cached_property
from math import gcd
from typing import Any, cast

import numpy as np

from penstock.core import CallSite
from penstock.core.dataclass import dataclass
from penstock.core.warn_once import warn_once
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.errors import StateError, UsageError, short_repr
from penstock.graph.identity.fingerprint import CanonicalDefinition
from penstock.pipeline.file_sizes import file_sizes_digest
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.source import Source
from penstock.sources.storage.file_folders import without_folders
from penstock.types import LastBatchPolicy

VERSION = 2

# Maximum size of a state in bytes of JSON, without the arrays that operators carry.
_LIMIT = 1000

# Entries that only some states have; older ones lack "order_seed", "calls" and "files".
_OPTIONAL = ("order_seed", "calls", "files", "ended", "bad", "operators", "batch_size")

_SEEDS, _EPOCHS, _ROWS = 1 << 64, 1 << 32, 1 << 62

_AS_IT_WAS = "pass on what get_state() returned as it was"


@dataclass(frozen=True)
class StateIdentity:
    """Identity of the iterator or pipeline to which states belong.

    Args:
        definition: The definition.
        dataset: Fingerprint of the data that it reads.
        readers: Number of readers.
        room: Maximum size of the entry ``bad`` in bytes of JSON; 0 without such an entry.
        sources: The data sets, unless each shard has its own.
        batch_size: Number of rows of a batch, if the position of a source may depend on it; otherwise None.
        source_positions: Returns what the positions of sources depend on, for a schedule.
    """

    definition: CanonicalDefinition
    dataset: str
    readers: int
    room: int = 0
    sources: tuple[Source, ...] = ()
    batch_size: int | None = None
    source_positions: Callable[[Schedule], Any] = lambda schedule: None  # noqa: ARG005  # no sources

    def state(
        self,
        step: BatchStep,
        schedule: Schedule,
        seed: int,
        order_seed: int,
        readings: Iterable[ShardedReader],
        operators: Sequence[Sequence[Any]] | None,
        bad: Mapping[str, Any] | None = None,
        *,
        ended: bool = False,
    ) -> dict[str, Any]:
        """Return the state at a step: at most 1 KB of JSON, and the arrays that operators carry.

        It does not depend on the batch size: the end of an epoch is at its last row, and padding of the last batch does
        not count.

        Args:
            step: The step.
            schedule: The steps of the iterator.
            seed: Seed of random numbers.
            order_seed: Seed of the readers' orders.
            readings: The readers.
            operators: Arrays that operators carry; None if there are none.
            bad: Counts of bad samples, if they are tolerated.
            ended: True if an external source has ended the epoch at this step.
        """
        readers = list(readings)
        totals = [reader.samples_passed(total) for reader, total in zip(readers, step.consumed, strict=True)]
        step = replace(step, consumed=tuple(totals))
        state: dict[str, Any] = {} if operators is None else {"operators": [list(leaves) for leaves in operators]}
        state |= {} if bad is None else {"bad": bad}
        state |= {"ended": True} if ended else {}
        row = schedule.length if schedule.is_epoch_end(step) else step.row
        return state | self._entries(step, row or 0, seed, order_seed, _order_of(readers)) | {"calls": self._calls}

    def _entries(self, step: BatchStep, row: int, seed: int, order_seed: int, order: str) -> dict[str, Any]:
        return {
            "version": VERSION,
            "definition": self.definition.fingerprint,
            "dataset": self.dataset,
            "order": order,
            "seed": seed,
            "order_seed": order_seed,
            "epoch": step.epoch,
            "row": row,
            "totals": list(step.consumed),
            **({"files": self._files} if self._files else {}),
            **({} if self.batch_size is None else {"batch_size": self.batch_size}),
        }

    @cached_property
    def _files(self) -> str:
        """Digest of the sizes of files, once per iterator: `get_state` may be called after every batch."""
        return file_sizes_digest(self.sources)

    @cached_property
    def _calls(self) -> str:
        """Text of the definition as far as it fits, so that an error can name the call that changed."""
        # With the largest numbers, so that the text has the same length at every step and the limit always holds.
        parts = {"calls": "", "bad": "", "ended": True}
        largest = self._entries(BatchStep(_EPOCHS, _ROWS, (_ROWS,) * self.readers, 0), _ROWS, _SEEDS, _SEEDS, "0" * 8)
        return _pack(self.definition.calls, _LIMIT - self.room - len(json.dumps(largest | parts)))

    def step(
        self,
        state: Mapping[str, Any],
        schedule: Schedule,
        readings: Callable[[int], Iterable[ShardedReader]],
        *,
        new_definition: bool,
    ) -> tuple[BatchStep, int, int]:
        """Return the step of a state, the seed of random numbers, and the seed of the order.

        Args:
            state: Result of `state`, of this iterator or another.
            schedule: The steps of this iterator.
            readings: Returns the readers for a seed of the order.
            new_definition: True if the definition may differ.

        Raises:
            StateError: It is not a state, it belongs to another definition or data set, or no batch begins there.
        """
        _check_form(state)
        # States of earlier versions do not tell files of one name in several folders apart.
        if state["dataset"] not in (self.dataset, without_folders(self.dataset)):
            raise StateError(
                "the state belongs to another dataset",
                given=f"{state['dataset']} in the state",
                expected=f"{self.dataset} here",
                fix="restore it into an iterator over the data that it was taken from",
            )
        if state["definition"] != self.definition.fingerprint and not new_definition:
            raise self._changed(state)
        # A warning, since a repaired file is a reason to resume, not an obstacle.
        if "files" in state and self._files and state["files"] != self._files:
            warn_once(
                "files of a state",
                "files of the data set have other sizes than when the state was saved",
                fix="check that these are the files that you mean; the training continues with them",
            )
        seed = _number(state, "seed", _SEEDS - 1)
        # Older states have one seed for both.
        order_seed = _number(state, "order_seed", _SEEDS - 1) if "order_seed" in state else seed
        epoch = _number(state, "epoch", 0 if schedule.length is None and not schedule.length_unknown else _EPOCHS - 1)
        row = _number(state, "row", _ROWS)
        totals = tuple(_number(state, "totals", _ROWS, total) for total in state["totals"])
        if len(totals) != self.readers:
            raise StateError("the state has another number of readers", given=len(totals), expected=self.readers)
        readers = list(readings(order_seed))
        # Between two epochs no epoch is half read, so another order neither repeats nor skips a sample.
        if state["order"] != _order_of(readers) and not (new_definition and row in (0, schedule.length)):
            raise StateError(
                "the readers of this iterator visit the samples in another order than those of the state",
                given=f"row {row} of epoch {epoch}",
                fix="reader_name, shuffling, seeds and shards as they were, size=-1 if the iterator was endless; or a "
                "state from the end of an epoch, with set_state(state, new_definition=True)",
            )
        # After the check of the order: the row of an endless iterator may be past the end of an epoch.
        _number(state, "row", _ROWS if schedule.length is None else schedule.length)
        step = schedule.step_at(epoch, row, _positions(readers, totals))
        # States of earlier versions lack the entry.
        if self.batch_size is not None and (epoch or row):
            size = _number(state, "batch_size", _ROWS) if "batch_size" in state else self.batch_size
            other, begins = schedule.with_batch_size(size), row == schedule.length or not row % schedule.stride
            same = other is not None and self.source_positions(other) == self.source_positions(schedule)
            if size != self.batch_size and not (same and begins):
                raise StateError(
                    "the state was taken under another batch size, on which the position in a list depends",
                    given=f"batch_size={self.batch_size}",
                    expected=f"{size}, as in the state, because fn.external_source continues a list from batch to "
                    "batch and from epoch to epoch",
                    fix=f"batch_size={size}; or fn.readers.items, which resumes under any batch size",
                )
        # The end of an epoch is a position under every batch size, so the check below does not apply.
        if row == schedule.length:
            return schedule.end(step), seed, order_seed
        if schedule.policy in (LastBatchPolicy.DROP, LastBatchPolicy.PARTIAL) and row % schedule.stride:
            size = gcd(row, schedule.stride) * schedule.batch_size // schedule.stride
            raise StateError(
                "the state was taken under another batch size, and no batch of this iterator begins there",
                given=f"row {row} of an epoch of {schedule.length}, batch_size={schedule.batch_size}",
                expected=f"a multiple of {schedule.stride}, so that {schedule.policy.name} ends all epochs alike",
                fix=f"a batch_size that divides {row}, such as {size}; a state from the end of an epoch; or "
                "LastBatchPolicy.FILL or PAD, which resume anywhere",
            )
        return step, seed, order_seed

    def _changed(self, state: Mapping[str, Any]) -> StateError:
        """Return the error for the state of another definition."""
        value, expected, where = _difference(state.get("calls"), self.definition)
        return StateError(
            "the state belongs to another definition",
            given=value or f"{state['definition']} in the state",
            expected=expected or f"{self.definition.fingerprint} here",
            fix="restore it into the definition that it was taken from; or set_state(state, new_definition=True), "
            "which resumes at the same position in the data with this one",
            where=where,
        )


def _positions(readings: Sequence[ShardedReader], totals: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple([reading.positions_passed(total) for reading, total in zip(readings, totals, strict=True)])
    except ValueError as error:
        raise StateError(
            "the state was taken under another batch size, and a reader with pad_last_batch=True ends its epochs with "
            "a batch",
            given=error,
            fix="the batch_size that it had, or one that divides it",
        ) from None


def _order_of(readings: Iterable[ShardedReader]) -> str:
    """Return a digest of the order of the data."""
    orders = [(reading.is_leader, reading.orders[0]) for reading in readings]
    # The seed of readers that do not shuffle does not change their order.
    facts = [(leads, o.shuffle and o.seed, o.pad_last, o.shards, o.stick_to_shard) for leads, o in orders]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:8]


def decode_checkpoint(checkpoint: Any, *, debug: bool) -> Mapping[str, Any]:
    """Return the state in a checkpoint.

    Args:
        checkpoint: JSON, or a state itself.
        debug: True if it is for a pipeline in debug mode, which computes batches that have no position.

    Raises:
        UsageError: It is for debug mode.
        StateError: It is something else.
    """
    if debug:
        raise UsageError("a pipeline in debug mode cannot be restored", given="checkpoint", fix="debug=False")
    if isinstance(checkpoint, str | bytes):
        try:
            checkpoint = json.loads(checkpoint)
        except ValueError as error:
            raise StateError(
                "this is not a checkpoint",
                given=short_repr(checkpoint),
                expected="JSON, as checkpoint() of a pipeline or checkpoints() of an iterator returned it",
            ) from error
    _check_form(checkpoint)
    return cast(Mapping[str, Any], checkpoint)


def encode_checkpoint(state: Mapping[str, Any]) -> bytes:
    """Return a state as JSON."""
    return json.dumps(state, default=_encode_array).encode()


def _check_form(state: Any) -> None:
    if not isinstance(state, Mapping):
        raise StateError(
            "this is not the state of an iterator",
            given=f"{short_repr(state)} of type {type(state).__name__}",
            expected="the dictionary that get_state() returned",
            fix="json.loads, if it is JSON text",
        )
    entries = ("version", "definition", "dataset", "order", "seed", "epoch", "row", "totals")
    version = cast(Mapping[str, Any], state).get("version", VERSION)
    missing = [entry for entry in entries if entry not in state]
    unknown = [repr(entry) for entry in cast(Mapping[Any, Any], state) if entry not in (*entries, *_OPTIONAL)]
    if missing or version != VERSION:
        raise StateError(
            "this is not the state of an iterator",
            given=f"version {version}" if version != VERSION else f"without {', '.join(missing)}",
            expected=f"what get_state() returned, version {VERSION}",
        )
    if unknown:
        raise StateError(
            "the state has entries that this version does not know",
            given=", ".join(unknown),
            fix="pass on what get_state() returned as it was, and keep your own entries beside it",
        )
    totals = cast(Any, state["totals"])
    if not isinstance(totals, list | tuple):
        raise StateError(
            "totals in a state are whole numbers", given=short_repr(totals), expected="one for each reader"
        )
    ended = cast(Any, state.get("ended", True))
    if not isinstance(ended, bool):
        raise StateError("ended in a state is a boolean", given=short_repr(ended), fix=_AS_IT_WAS)


def _number(state: Mapping[str, Any], name: str, largest: int, value: Any = None) -> int:
    number = state[name] if value is None else value
    # NumPy integers are valid and have `__index__`. So does a bool, which is never a position.
    if isinstance(number, bool) or not hasattr(number, "__index__") or not 0 <= int(number) <= largest:
        raise StateError(
            f"{name} in a state is a whole number",
            given=f"{number!r:.60}",
            expected=f"0 to {largest}",
            fix=_AS_IT_WAS,
        )
    return int(number)


def _pack(calls: Sequence[str], room: int) -> str:
    """Return lines in at most `room` characters: as compressed text, or a short hash per line, or ""."""
    # The text names the call that changed; hashes still tell its number, and the fingerprint alone decides.
    text = "text:" + base64.b85encode(zlib.compress("\n".join(calls).encode(), 9)).decode()
    hashes = "hash:" + "".join(map(_short, calls))
    return next((packed for packed in (text, hashes) if len(packed) <= room), "")


def _unpack(packed: Any) -> tuple[list[str], bool]:
    """Return the lines that were packed, or their hashes; and True if they are hashes."""
    form, _, content = packed.partition(":") if isinstance(packed, str) else ("", "", "")
    if form == "hash":
        return [content[start : start + _SHORT] for start in range(0, len(content), _SHORT)], True
    try:
        # At most 1 MiB: a few bytes of a damaged or hostile state could otherwise expand to fill the memory.
        text = zlib.decompressobj().decompress(base64.b85decode(content), 1 << 20) if form == "text" else b""
        return text.decode().splitlines(), False
    except (ValueError, zlib.error):
        return [], False


_SHORT = 4


def _short(call: str) -> str:
    return hashlib.sha256(call.encode()).hexdigest()[:_SHORT]


def _difference(packed: Any, definition: CanonicalDefinition) -> tuple[str | None, str | None, CallSite | None]:
    """Return the first call in which a definition differs from a packed one: the old and new call, and its line."""
    then, hashed = _unpack(packed)
    now = [_short(call) for call in definition.calls] if hashed else list(definition.calls)
    # Without `autojunk`, difflib does not ignore lines that occur often in a long definition.
    changes = [code for code in SequenceMatcher(None, then, now, autojunk=False).get_opcodes() if code[0] != "equal"]
    if not then or not changes:
        return None, None, None
    _, first, end, start, stop = changes[0]
    was = "no such call" if first == end else f"another call, number {first + 1}," if hashed else then[first]
    others = len(changes) - 1
    more = f" (and {others} more difference{'s' * (others > 1)})" if others else ""
    last = "no such call" if start == stop else definition.calls[start]
    return f"{was} in the state", f"{last} here{more}", definition.lines[start] if start < stop else None


def _encode_array(array: Any) -> dict[str, Any]:
    """Return an array as JSON."""
    values = np.asarray(array)
    return {
        "dtype": str(values.dtype),
        "shape": list(values.shape),
        "data": base64.b64encode(values.tobytes()).decode("ascii"),
    }


def operator_arrays(state: Mapping[str, Any]) -> list[list[Any]] | None:
    """Return the arrays that operators carry, from a state or from its JSON; None if there are none.

    Raises:
        StateError: The entry ``operators`` does not have this form.
    """
    if "operators" not in state:
        return None
    try:
        return [[_decode(leaf) for leaf in leaves] for leaves in state["operators"]]
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise StateError(
            "operators in a state is a list of lists of arrays",
            given=short_repr(state["operators"]),
            fix=f"{_AS_IT_WAS}; checkpoints() returns it as JSON",
        ) from error


def _decode(leaf: Any) -> np.ndarray[Any, Any]:
    """Return an array that is an array or in the form of `_encode_array`."""
    if not isinstance(leaf, Mapping):
        return np.asarray(leaf)
    encoded = cast(Mapping[str, Any], leaf)
    data = base64.b64decode(encoded["data"])
    return np.frombuffer(data, np.dtype(encoded["dtype"])).reshape(encoded["shape"])
