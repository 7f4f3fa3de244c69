"""`Pipeline` and `pipeline_def`: a definition is traced to a graph, the graph is planned, the plan is run."""

from penstock.core.unsupported import module_getattr
from penstock.graph.tracing.trace import DataNode as DataNode
from penstock.pipeline import experimental as experimental
from penstock.pipeline.pipeline import Pipeline as Pipeline
from penstock.pipeline.pipeline_decorator import do_not_convert as do_not_convert
from penstock.pipeline.pipeline_decorator import pipeline_def as pipeline_def

_pipeline_def_experimental = experimental.pipeline_def  # DALI's name, which programs import

__getattr__ = module_getattr(__name__)
