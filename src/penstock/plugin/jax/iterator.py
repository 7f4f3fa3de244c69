"""DALI's `nvidia.dali.plugin.jax.iterator`."""

from penstock.iterate import DALIGenericIterator as DALIGenericIterator
from penstock.pipeline.pipeline import DEFAULT_THREADS
from penstock.plugin.jax.dali_defaults import data_iterator as data_iterator
from penstock.types import LastBatchPolicy as LastBatchPolicy


def default_num_threads_value() -> int:
    """Return the default number of threads of a pipeline."""
    return DEFAULT_THREADS
