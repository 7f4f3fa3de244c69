"""Compiled loops that parse the usual form of Example messages, many of them in one call without the GIL."""

from penstock.core import Array
from penstock.native.compiled import Compiled, precompile
from penstock.sources.formats.protobuf_loop import open_bytes, read_varint, skip_varint

# Tags of length-delimited fields, by their number in the message.
_FIRST, _SECOND, _THIRD = 0x0A, 0x12, 0x1A


@precompile("u1[1] i8[1] i8[1] u1[1] i8[1] i8[3] b1[1]")
@Compiled
def scan_examples(
    data: Array, starts: Array, stops: Array, names: Array, ends: Array, found: Array, usual: Array
) -> None:
    """Locate features in Examples.

    Args:
        data: uint8, memory that contains the Examples.
        starts: int64 (examples,), first byte of each Example.
        stops: int64 (examples,), end of each Example.
        names: uint8, the names of the features, one after the other.
        ends: int64 (features,), end of each name in `names`.
        found: int64 (examples, features, 3), zeros; receives the number of the type's field in a Feature, 0 if there is
            no such feature, and start and end of the only value of its list, or of all its packed numbers.
        usual: bool (examples,), receives False for an Example that is damaged or has another form.
    """
    for n in range(starts.shape[0]):
        usual[n] = scan_example(data, starts[n], stops[n], names, ends, found[n])


@Compiled
def scan_example(data: Array, start: int, stop: int, names: Array, ends: Array, found: Array) -> bool:
    """Locate features in an Example. Returns False if it does not have the usual form."""
    at, end = open_bytes(data, start, stop, _FIRST)
    if end != stop:
        return False
    while at < end:
        entry, at = open_bytes(data, at, end, _FIRST)
        name, name_end = open_bytes(data, entry, at, _FIRST)
        value, value_end = open_bytes(data, name_end, at, _SECOND)
        if value < 0 or value_end != at:
            return False
        feature = find_name(data, name, name_end, names, ends)
        if feature >= 0 and not locate_value(data, value, value_end, found[feature]):
            return False
    return True


@Compiled
def locate_value(data: Array, start: int, stop: int, place: Array) -> bool:
    """Write type and location of the values of a feature. Returns False if it does not have the usual form."""
    if start == stop:
        return False
    tag = data[start]
    if tag != _FIRST and tag != _SECOND and tag != _THIRD:
        return False
    values, values_end = open_bytes(data, start, stop, tag)
    first, last = open_bytes(data, values, values_end, _FIRST)
    if first < 0 or values_end != stop or last != stop:
        return False
    place[0], place[1], place[2] = tag >> 3, first, last
    return True


@Compiled
def find_name(data: Array, start: int, stop: int, names: Array, ends: Array) -> int:
    """Return the number of a name; -1 if it is no name of a feature."""
    begin = 0
    for feature in range(ends.shape[0]):
        if ends[feature] - begin == stop - start:
            same = True
            for i in range(stop - start):
                same = same and names[begin + i] == data[start + i]
            if same:
                return feature
        begin = ends[feature]
    return -1


@precompile("u1[1] i8[2] i8[2] b1[1]")
@Compiled
def read_integers(data: Array, places: Array, values: Array, fits: Array) -> None:
    """Read packed integers.

    Args:
        data: uint8, memory that contains them.
        places: int64 (rows, 2), first byte and end of the integers of each row.
        values: int64 (rows, integers), receives the integers.
        fits: bool (rows,), receives False for a row with more or fewer integers, or damaged ones.
    """
    for n in range(places.shape[0]):
        at, end = places[n, 0], places[n, 1]
        for i in range(values.shape[1]):
            after = skip_varint(data, at, end)
            if after >= 0:
                values[n, i] = read_varint(data, at, after)
            at = after
        fits[n] = at == end
