"""Readers from which a value is computed."""

from penstock import Pipeline, fn
from penstock.graph.ir.reader_lineage import upstream_readers


def test_readers_of_a_value_that_is_used_twice_in_each_of_many_steps():
    with Pipeline(batch_size=2):
        one, other = fn.readers.arrays([1, 2], name="one"), fn.readers.arrays([3, 4], name="other")
        value = one - other
        # A walk over all paths would take 2**100 steps.
        for _ in range(100):
            value = value + value
    assert [reader.name for reader in upstream_readers(value.value.node)] == ["other", "one"]
