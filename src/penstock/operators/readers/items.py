"""readers.items: sequences and map-style data sets of the user."""

from collections.abc import Mapping
from typing import Any, Unpack, cast

from penstock.errors import ArgumentTypeError, short_repr
from penstock.graph import DataLocation, current_trace, operator
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.formats.map_style_source import MapStyleSource


@operator("readers.items")
def items(items: DataLocation[Any], *, layout: str | Mapping[Any, str] = "", **loader: Unpack[ReaderArguments]) -> Any:
    """Read any map-style data set, with shuffling, sharding, threads and resuming.

    A list, a data set of PyTorch, Grain or Hugging Face, a table of PyArrow, a data frame of pandas, or a dictionary of
    columns. Several threads read items, and the same index must return the same item, in an array that later calls do
    not fill again. For arrays in memory, `fn.readers.arrays` is faster.

    Args:
        items: Object with a length and items by index. An item is an array, a number, bytes, text (read as UTF-8
            bytes), an image of Pillow, a path or an undecoded file of Hugging Face (read as the bytes of the file), or
            a tuple or dictionary of these. Shapes may differ; names, dtypes and ranks are those of the first item.
        layout: Layout of a sample, such as "HWC"; for a tuple or dictionary, one for all values, or a dictionary with
            one per index or name.
        **loader: See `ReaderArguments`.

    Returns:
        A node; a tuple or dictionary of nodes if items are tuples or dictionaries.

    Raises:
        ArgumentTypeError: It does not have a length or items by index.
        DefinitionError: It is empty, or `layout` has an entry for a value that its items do not have.
        SampleError: Its first item cannot be read, or is not an array of numbers; while running, an item has other
            values than the first one.

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
    columns: list[Any] = [*cast(Any, items).values()] if isinstance(items, Mapping) else [items]
    if not all(map(_is_indexable, columns)):
        raise ArgumentTypeError(
            "items must have a length and items by index",
            given=f"{short_repr(cast(object, items))} of type {type(cast(object, items)).__name__}",
            fix="fn.external_source, for iterables and generators",
        )
    # By identity: user objects may not be hashable. A dictionary may have other columns at the next call. Other
    # mappings may create their columns for each access.
    parts = (*cast(Any, items), *map(id, columns)) if isinstance(items, dict) else ()
    shared, key = current_trace().shared, ("items", id(cast(Any, items)), parts, repr(layout))
    if key not in shared:
        # The source holds the object, and this entry its columns, so that their IDs stay unique.
        shared[key] = MapStyleSource(items, layout), columns
    source: MapStyleSource = shared[key][0]
    # The source knows the form of an item from the first one, which it reads when it is created.
    nodes = apply_reader(source, loader)
    if source.named_values:
        return dict(zip(source.names, nodes, strict=True))
    return nodes if source.several else nodes[0]


def _is_indexable(items: Any) -> bool:
    """Return True if an object has a length and items by index, and is not a string."""
    if isinstance(items, str | bytes):
        return False
    try:
        len(items)
    except Exception:  # noqa: BLE001  # user objects may raise anything
        return False
    return hasattr(items, "__getitem__")
