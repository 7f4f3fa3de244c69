"""Data set of the user: any object with a length and items by index."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column, Indices, short_digest
from penstock.core.user_callbacks import call_user
from penstock.errors import DefinitionError, PenstockError, SampleError, short_repr
from penstock.sources.external.array_conversion import SampleKind, check_unmasked, to_sample
from penstock.sources.external.library_samples import is_arrow_scalar, is_encoded_file, is_table
from penstock.sources.source import Source, stack_dense


class MapStyleSource(Source):
    """Source of a sequence's items, which are requested from several threads.

    Args:
        items: Object with a length and items by index; or a dictionary of such objects of the same length, one per
            value, or a data frame of pandas.
        layouts: Layout of each value, by name or number, or one for all.

    Raises:
        DefinitionError: The data set is empty, its columns differ in length, or `layouts` has an entry for a value that
            its items do not have.
        SampleError: The first item cannot be read, or does not contain numbers.

    Attributes:
        sequences: The data set, or each of its columns.
    """

    def __init__(self, items: Any, layouts: str | Mapping[Any, str]) -> None:
        columns = _columns(items)
        lengths = {len(items)} if columns is None else {len(column) for column in columns.values()}
        if len(lengths) != 1 or lengths == {0}:
            raise DefinitionError(
                "a sequence needs at least one item, and all columns of a dictionary need the same length",
                given=", ".join(map(str, sorted(lengths))) or "no columns",
            )
        self._items: Any = by_position(items)
        self._name = type(items).__name__
        self._columns, self._length = columns, lengths.pop()
        self.sequences: list[Any] = [self._items] if columns is None else [*columns.values()]
        first: Any = self._item(0)
        # An undecoded file of Hugging Face is one value. Columns and tables may have columns of the same names.
        self._is_file = columns is None and not hasattr(self._items, "to_pylist") and is_encoded_file(first)
        self.named_values = isinstance(first, Mapping) and not self._is_file
        self.several = self.named_values or isinstance(first, tuple)
        count = len(cast(Any, first)) if self.several else 1
        self.names: list[Any] = [*first] if self.named_values else [*range(count)]
        self._names = dict.fromkeys(self.names).keys()
        values: list[Any] = (
            [first[name] for name in self.names] if self.named_values else [*first] if self.several else [first]
        )
        self.array_values = frozenset(
            number
            for number, value in enumerate(values)
            if hasattr(value, "dtype") and not isinstance(value, bytes | str)
        )
        self._empty: list[Array | None] = [None] * count
        parts = self._parts(first, 0)
        self._empty = [part[:0].copy() if part.ndim else None for part in parts]
        unknown = [] if isinstance(layouts, str) else [name for name in layouts if name not in self.names]
        if unknown:
            raise DefinitionError(
                "layout has an entry for a value that items do not have", given=unknown, expected=self.names
            )
        layout = [layouts if isinstance(layouts, str) else layouts.get(name, "") for name in self.names]
        self._kinds = [SampleKind(layout=axes).refined_by([part]) for axes, part in zip(layout, parts, strict=True)]
        self.specs = tuple(kind.spec for kind in self._kinds)

    def __len__(self) -> int:
        return self._length

    def class_names(self, value: int) -> Mapping[int, str]:
        """Return the names of a `ClassLabel` of Hugging Face, or those of the labels of a torchvision data set."""
        features: Any = getattr(self._items, "features", None)
        name = self.names[value]
        if isinstance(features, Mapping):
            names: Any = getattr(cast(Mapping[Any, Any], features).get(name), "names", None)
        else:
            names = getattr(self._items, "classes", None) if value == 1 else None
        listed = cast(Sequence[Any], names) if isinstance(names, list | tuple) else ()
        return {number: str(text) for number, text in enumerate(listed)}

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the items, requested one by one."""
        rows = [self._parts(self._item(index), index) for index in indices.tolist()]
        for index, row in zip(indices.tolist(), rows, strict=True):
            for number, (kind, part) in enumerate(zip(self._kinds, row, strict=True)):
                if (part.dtype, part.ndim) != (kind.dtype, kind.rank):
                    raise SampleError(
                        f"{self._describe_value(number, index)} differs in kind from the first item",
                        given=f"{part.dtype} with {part.ndim} axes",
                        expected=kind,
                        index=index,
                    )
        columns = [[row[number] for row in rows] for number in range(len(self.specs))]
        return stack_dense(columns, self.specs, out)

    def describe(self, index: int) -> str:
        """Return the item's number."""
        return f"item {index} of a {self._name}"

    def _describe_value(self, number: int, index: int) -> str:
        return f"value {self.names[number]!r} of {self.describe(index)}" if self.several else self.describe(index)

    def reads_same_samples(self, other: Source) -> bool:
        """Return True if the items are equal: a definition may create them again for each shard.

        Lists, arrays and columns are compared as a whole, other objects by up to 64 items.
        """
        if not isinstance(other, MapStyleSource) or other.fingerprint() != self.fingerprint():
            return False
        if len(self.sequences) == len(other.sequences):
            equal = list(map(_equal_items, self.sequences, other.sequences))
            if None not in equal or False in equal:
                return all(equal)
        places = np.linspace(0, self._length - 1, num=min(64, self._length), dtype=np.int64).tolist()
        return self.digest(places) == other.digest(places)

    def fingerprint(self) -> str:
        """Hash the length, the kinds of the values, and the first and last item."""
        # Items may be slow to produce, so only two are read.
        return f"items:{self._length}:{self.digest((0, self._length - 1))}"

    def digest(self, indices: Sequence[int]) -> str:
        """Hash the kinds of the values, and some items."""
        parts: list[Array] = []
        unreadable = ""
        for index in indices:
            try:
                parts += self._parts(self._item(index), index)
            except SampleError:  # `on_error` may tolerate it
                unreadable += f"unreadable: {self.describe(index)}"
        contents = (entry for part in parts for entry in (str(part.shape), part))
        return short_digest("".join(map(str, self.specs)), *contents, unreadable)

    def _item(self, index: int) -> Any:
        try:
            return call_user(self._get_item, index)
        except Exception as error:
            message = f"{self.describe(index)} cannot be read: {type(error).__name__}: {error}"
            raise SampleError(message, index=index) from error

    def _get_item(self, index: int) -> Any:
        if self._columns is not None:
            return {name: column[index] for name, column in self._columns.items()}
        return self._items[index]

    def _parts(self, item: Any, index: int) -> list[Array]:
        """Return the values of an item in the order of those of the first item.

        Raises:
            SampleError: It has other values than the first item, or one is not an array of numbers.
        """
        values: list[Any] = [item]
        named = cast(Mapping[Any, Any], item) if isinstance(item, Mapping) and not self._is_file else None
        if named is not None:
            values = [named[name] for name in self.names] if named.keys() == self._names else []
        elif isinstance(item, tuple):
            values = list(cast(tuple[Any, ...], item))
        if len(values) != len(self.names) or (named is not None) != self.named_values:
            raise SampleError(
                f"{self.describe(index)} has other values than the first item",
                given=f"{len(values)} without names" if named is None else f"names {short_repr([*named])}",
                expected=f"names {short_repr(self.names)}" if self.named_values else f"{len(self.names)} without names",
                index=index,
            )
        parts: list[Array] = []
        try:
            for value in values:
                # Text becomes its UTF-8 bytes, as in the readers of Parquet and WebDataset.
                part = to_sample(value.encode() if isinstance(value, str) else value)
                # An empty list has no dtype and no inner axes of its own.
                if part.shape[:1] == (0,) and (isinstance(value, list) or is_arrow_scalar(value)):
                    empty = self._empty[len(parts)]
                    part = part if empty is None else empty
                parts.append(part)
        except PenstockError as error:
            number = len(parts)
            where, value = self._describe_value(number, index), values[number]
            if self.several and isinstance(value, Mapping):
                raise SampleError(
                    f"{where} is a dictionary",
                    given=short_repr(cast(object, value)),
                    fix="return its values next to the other values of the item, or leave it out",
                    index=index,
                ) from error
            leave = f"\n            or leave {self.names[number]!r} out of the items" if self.several else ""
            raise SampleError(f"{where}: {error.args[0]}{leave}", index=index) from error
        return parts


def _columns(items: Any) -> Mapping[Any, Any] | None:
    """Return the columns of a dictionary, of a data frame of pandas or of a table of PyArrow; None for other objects.

    Raises:
        DefinitionError: Two columns have the same name.
    """
    if isinstance(items, Mapping) or (hasattr(items, "iloc") and hasattr(items, "columns")):
        named: list[tuple[Any, Any]] = [*cast(Any, items).items()]
    elif is_table(items) and hasattr(items, "column_names"):
        named = [*zip(items.column_names, items.columns, strict=True)]
    else:
        return None
    columns = {name: by_position(column) for name, column in named}
    if len(columns) < len(named):
        raise DefinitionError(
            "columns must have different names",
            given=short_repr([name for name, _ in named]),
            fix="rename them, or select one of each name",
        )
    return columns


def _equal_items(mine: Any, theirs: Any) -> bool | None:
    """Return True if two data sets or columns have equal items; None if this is unknown without reading them."""
    if mine is theirs:
        return True
    try:
        if isinstance(mine, np.ndarray):
            return np.array_equal(cast(Array, mine), theirs)
        if hasattr(mine, "equals"):  # a column of PyArrow or pandas
            return bool(mine.equals(theirs))
        return bool(mine == theirs) if isinstance(mine, list | tuple) else None
    except Exception:  # noqa: BLE001  # arrays in a list have no truth value, and user objects may raise anything
        return None


def by_position(items: Any) -> Any:
    """Return the values of a series of pandas, which has items by label; other objects unchanged.

    Raises:
        ArgumentTypeError: Elements of an array are masked.
    """
    check_unmasked(items)
    # After a filter or a shuffle of the rows, the labels 0, 1, ... are missing or name other rows.
    return items.array if hasattr(items, "iloc") and not hasattr(items, "columns") else items
