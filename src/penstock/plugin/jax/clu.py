"""DALI's `nvidia.dali.plugin.jax.clu`, without the package clu: specs are `jax.ShapeDtypeStruct`s."""

from penstock.iterate import DALIGenericPeekableIterator as DALIGenericPeekableIterator
from penstock.iterate import PeekableDataIterator as PeekableDataIterator
from penstock.iterate.peekable import get_spec_for_array as get_spec_for_array
from penstock.plugin.jax.dali_defaults import peekable_data_iterator as peekable_data_iterator
