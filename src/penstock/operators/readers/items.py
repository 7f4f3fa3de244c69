"""readers.items: a sequence of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack, cast

from penstock.errors import ArgumentTypeError, short_repr
from penstock.graph.arguments.argument_marks import DataLocation
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import current_trace
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.formats.map_style_source import MapStyleSource


@operator("readers.items")
def items(items: DataLocation[Any], *, layout: str | Mapping[Any, str] = "", **loader: Unpack[ReaderArguments]) -> Any:
    """Read whatever has a length and items by number, as a data set: with shuffle, shards, threads and resume.

    A list, a data set of PyTorch, Grain or Hugging Face, a table of PyArrow; or a dictionary of columns. It is asked
    for items from several threads, and must give the same item for the same number. Arrays in memory are read faster
    by `fn.readers.arrays`.

    Args:
        items: the sequence. An item is an array, a number, bytes, text (its UTF-8 bytes), or a tuple or dictionary of
            such. Samples may differ in shape; dtype and rank are those of the first item.
        layout: the layout of a sample, such as "HWC"; for a tuple or dictionary one for all values, or a dictionary
            with one by number or name.
        **loader: See `ReaderArguments`.

    Returns:
        A node, or a tuple or dictionary of nodes, as an item is one.

    Raises:
        ArgumentTypeError: it has no length, or no items by number.
        DefinitionError: it is empty.
        SampleError: its first item cannot be read, or is no array of numbers.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     words = fn.readers.items({"word": ["a", "bcd"], "class": [3, 4]})
        ...     pipeline.set_outputs(words["word"], words["class"])
        >>> word, number = pipeline.run()
        >>> bytes(word[1]).decode(), number.as_array().tolist()
        ('bcd', [3, 4])
    """
    parts: list[Any] = [*cast(Any, items).values()] if isinstance(items, Mapping) else [items]
    if not all(map(_listed, parts)):
        raise ArgumentTypeError(
            "fn.readers.items reads what has a length and items by number",
            given=f"{short_repr(cast(object, items))} of type {type(cast(object, items)).__name__}",
            fix="fn.external_source, for what only streams",
        )
    shared, key = current_trace().shared, ("items", id(cast(Any, items)), repr(layout))
    if key not in shared:
        shared[key] = MapStyleSource(items, layout)
    source: MapStyleSource = shared[key]
    nodes = apply_reader(source, loader)
    if source.named_values:
        return dict(zip(source.names, nodes, strict=True))
    return nodes if source.several else nodes[0]


def _listed(items: Any) -> bool:
    """Whether something has a length and items by number, and is no text."""
    if isinstance(items, str | bytes):
        return False
    try:
        len(items)
    except Exception:  # noqa: BLE001  # a user's object may raise anything
        return False
    return hasattr(items, "__getitem__")
