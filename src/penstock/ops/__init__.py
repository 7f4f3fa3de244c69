"""DALI's class API: construct an operator, such as `ops.readers.File(...)`, then call it on nodes.

Every operator of `penstock.fn` has a class, which is created at first use: `ops.CropMirrorNormalize` is
`fn.crop_mirror_normalize`.
"""

from penstock.dali.class_names import lazy_class_module
from penstock.dali.operator_classes import Compose as Compose
from penstock.dali.operator_classes import Operator as Operator

__getattr__, __dir__ = lazy_class_module("", "Compose")
