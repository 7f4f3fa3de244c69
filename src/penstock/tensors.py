"""DALI's `nvidia.dali.tensors`: what `Pipeline.run` returns."""

from penstock.core.unsupported import absent
from penstock.pipeline.tensor import TensorCPU as TensorCPU
from penstock.pipeline.tensor import TensorGPU as TensorGPU
from penstock.pipeline.tensor_list import TensorListCPU as TensorListCPU
from penstock.pipeline.tensor_list import TensorListGPU as TensorListGPU

__getattr__ = absent(__name__)
