"""Operators under the names that DALI gives them: `fn.flip`, `fn.readers.file`, `fn.random.uniform`.

`_operator_modules.py` lists them with the modules that define them, which are imported on first use. That table and the
stubs (`*.pyi`), which type checkers and editors read, are generated from the operators by `tools/generate_stubs.py`.
"""

# Makes operators compute on data at once, outside of definitions.
from penstock.eager import Batch as _Batch  # noqa: F401  # pyright: ignore[reportUnusedImport]
from penstock.fn import decoders as decoders
from penstock.fn import experimental as experimental
from penstock.fn import follow as follow
from penstock.fn import inputs as inputs
from penstock.fn import io as io
from penstock.fn import noise as noise
from penstock.fn import random as random
from penstock.fn import readers as readers
from penstock.fn import reductions as reductions
from penstock.fn import segmentation as segmentation
from penstock.fn import transforms as transforms
from penstock.fn._operator_aliases import present as _present
from penstock.fn._operator_modules import OPERATOR_MODULES as _OPERATOR_MODULES
from penstock.graph.tracing.registry import declare_modules as _declare_modules
from penstock.graph.tracing.registry import lazy_module as _lazy_module

# Nodes need these operators even if a program does not name them: `a + b`, `a[i]`.
from penstock.operators.elementwise import arithmetic as _arithmetic  # noqa: F401  # pyright: ignore[reportUnusedImport]
from penstock.operators.elementwise import math_functions as _math_functions  # noqa: F401  # pyright: ignore[reportUnusedImport]
from penstock.operators.tensors import getitem as _getitem  # noqa: F401  # pyright: ignore[reportUnusedImport]

_declare_modules(_OPERATOR_MODULES)
__getattr__, __dir__ = _lazy_module(__name__, _present, submodules=("experimental",))
