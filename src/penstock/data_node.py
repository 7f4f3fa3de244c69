"""DALI's `nvidia.dali.data_node`."""

from penstock.graph.trace import DataNode as DataNode
from penstock.types import newaxis as newaxis
