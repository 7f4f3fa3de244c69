"""DALI's `nvidia.dali.tensors`: what `Pipeline.run` returns."""

from penstock.absent import absent
from penstock.host.tensors import TensorCPU as TensorCPU
from penstock.host.tensors import TensorGPU as TensorGPU
from penstock.host.tensors import TensorListCPU as TensorListCPU
from penstock.host.tensors import TensorListGPU as TensorListGPU

__getattr__ = absent(__name__)
