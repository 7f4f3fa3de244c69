"""DALI's `nvidia.dali.backend_impl`, from which older programs take the classes of batches and samples."""

from penstock.absent import absent
from penstock.host.tensors import TensorCPU as TensorCPU
from penstock.host.tensors import TensorGPU as TensorGPU
from penstock.host.tensors import TensorListCPU as TensorListCPU
from penstock.host.tensors import TensorListGPU as TensorListGPU

__getattr__ = absent("penstock.backend")
