"""DALI's `nvidia.dali.plugin.base_iterator`."""

from penstock.types import LastBatchPolicy as LastBatchPolicy
