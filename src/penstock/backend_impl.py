"""DALI's `nvidia.dali.backend_impl`, from which older programs take the classes of batches and samples."""

from penstock.absent import absent
from penstock.host.tensor_lists import TensorListCPU as TensorListCPU
from penstock.host.tensor_lists import TensorListGPU as TensorListGPU
from penstock.host.tensors import TensorCPU as TensorCPU
from penstock.host.tensors import TensorGPU as TensorGPU

__getattr__ = absent("penstock.backend")
