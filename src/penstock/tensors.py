"""DALI's `nvidia.dali.tensors`: what `Pipeline.run` returns."""

from penstock.core.unsupported import module_getattr
from penstock.pipeline.tensor import TensorCPU as TensorCPU
from penstock.pipeline.tensor import TensorGPU as TensorGPU
from penstock.pipeline.tensor_list import TensorListCPU as TensorListCPU
from penstock.pipeline.tensor_list import TensorListGPU as TensorListGPU

__getattr__ = module_getattr(__name__)
