"""DALI's `nvidia.dali.plugin.jax`."""

from penstock.iterate import DALIGenericIterator as DALIGenericIterator
from penstock.iterate import DALIGenericPeekableIterator as DALIGenericPeekableIterator
from penstock.plugin.jax import fn as fn
from penstock.plugin.jax import iterator as iterator
from penstock.plugin.jax.dali_defaults import data_iterator as data_iterator
