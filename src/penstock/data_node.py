"""DALI's `nvidia.dali.data_node`."""

from penstock.core.unsupported import absent
from penstock.graph.tracing.trace import DataNode as DataNode
from penstock.types import newaxis as newaxis

__getattr__ = absent(__name__)
