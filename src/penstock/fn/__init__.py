"""The operators under the names that DALI gives them: `fn.flip`, `fn.readers.file`, `fn.random.uniform`."""

from penstock.fn import decoders as decoders
from penstock.fn import random as random
from penstock.fn import readers as readers
from penstock.graph.registry import missing
from penstock.ops import arithmetic, getitem  # noqa: F401  # pyright: ignore[reportUnusedImport]  # a + b, a[i]
from penstock.ops.cast import cast as cast
from penstock.ops.constant import constant as constant
from penstock.ops.copy import copy as copy
from penstock.ops.crop import crop as crop
from penstock.ops.crop_mirror_normalize import crop_mirror_normalize as crop_mirror_normalize
from penstock.ops.flip import flip as flip
from penstock.ops.jax_function import jax_function as jax_function
from penstock.ops.normalize import normalize as normalize
from penstock.ops.one_hot import one_hot as one_hot
from penstock.ops.pad import pad as pad
from penstock.ops.peek_image_shape import peek_image_shape as peek_image_shape
from penstock.ops.python_function import python_function as python_function
from penstock.ops.random_resized_crop import random_resized_crop as random_resized_crop
from penstock.ops.reshape import reshape as reshape
from penstock.ops.resize import resize as resize
from penstock.ops.resize_crop_mirror import resize_crop_mirror as resize_crop_mirror
from penstock.ops.slice import slice as slice  # noqa: A004  # DALI's name
from penstock.ops.transpose import transpose as transpose

__getattr__ = missing(__name__)
