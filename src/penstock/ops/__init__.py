"""DALI's class API: `ops.readers.File(...)` makes an operator, and the operator is called on nodes.

Its classes are those of `penstock.fn`, made when they are asked for: a new operator is here at once, under the name
of the same letters, as `ops.CropMirrorNormalize` is `fn.crop_mirror_normalize`.
"""

from penstock.dali.class_names import lazy_class_module
from penstock.dali.operator_classes import Compose as Compose
from penstock.dali.operator_classes import Operator as Operator

__getattr__, __dir__ = lazy_class_module("", "Compose")
