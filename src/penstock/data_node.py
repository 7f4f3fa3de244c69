"""DALI's `nvidia.dali.data_node`."""

from penstock.core.unsupported import module_getattr
from penstock.graph.tracing.trace import DataNode as DataNode
from penstock.types import newaxis as newaxis

__getattr__ = module_getattr(__name__)
