"""Uses of the operators that rearrange arrays, batches and files."""

import numpy as np
from case_data import FLAGS, FLOATS, FROM, HWC, IMAGES, INTEGERS, LABELS, PATH, RAGGED, SEQUENCES, SMALL

from penstock import fn, types
from penstock.testing import OperatorCase

CASES = {
    "cache": [
        OperatorCase(lambda x, y: fn.cache(x, y, memory="1 MB"), [IMAGES, LABELS], ("HWC", "")),
        OperatorCase(lambda x, y: (fn.cache(x + 1, memory=3000), x, y + 1), [RAGGED, LABELS], ("HWC", "")),
    ],
    "copy": [OperatorCase(lambda x: (x.gpu(), x.cpu(), fn.copy(x)), [IMAGES], HWC)],
    "getitem": [
        OperatorCase(lambda x: (x[0], x[-1, 2:], x[1:4:2, ::-1], x[:, 0], x[None]), [IMAGES], HWC),
        OperatorCase(lambda x: (x[types.newaxis], x[0, types.newaxis("F")]), [IMAGES], HWC),
        OperatorCase(lambda x, i: (x[i], x[1, i], x[i, :, -1]), [IMAGES, LABELS[:, 0] % 3], ("HWC", "")),
        OperatorCase(lambda x, i: (x[i:], x[:i, 1]), [IMAGES, LABELS % 3], ("HWC", "")),
        OperatorCase(lambda x: x[1:3], [[IMAGES[0], IMAGES[1, :4], IMAGES[2], IMAGES[3]]], HWC),
        OperatorCase(lambda x: (x[..., 0], x[1, ...], x[..., types.newaxis("F")]), [IMAGES], HWC),
    ],
    "transpose": [
        OperatorCase(lambda x: fn.transpose(x, perm=[2, 0, 1]), [IMAGES], HWC),
        OperatorCase(lambda x: fn.transpose(x, output_layout="CWH"), [RAGGED], HWC),
        OperatorCase(lambda x: fn.transpose(x, perm=[1, 0, 2], transpose_layout=False), [IMAGES], HWC),
    ],
    "reshape": [
        OperatorCase(lambda x: fn.reshape(x, shape=[90]), [IMAGES]),
        OperatorCase(lambda x: fn.reshape(x, shape=[-1, 15]), [IMAGES]),
        OperatorCase(lambda x: fn.reshape(x, rel_shape=[0.5, -1]), [IMAGES]),
        OperatorCase(lambda x: fn.reshape(x, src_dims=[2, 0, 1, -1], layout="CHWF"), [IMAGES], HWC),
        OperatorCase(lambda x: fn.reshape(x, rel_shape=[0.5, 1, 2], src_dims=[0, 1, -1]), [IMAGES[..., 0]]),
        OperatorCase(lambda x: fn.reshape(x, shape=[]), [LABELS]),
        OperatorCase(lambda x: fn.reshape(x, layout="CHW"), [IMAGES], HWC),
        OperatorCase(
            lambda x, shape: fn.reshape(x, shape),
            [IMAGES, np.array([[90, 1], [1, 90], [45, 2], [9, 10]], np.int64)],
            ragged=False,
        ),
        OperatorCase(lambda x: fn.reshape(x, shape=[-1]), [[IMAGES[0], IMAGES[1, :2], IMAGES[2], IMAGES[3]]]),
    ],
    "cat": [
        OperatorCase(lambda x, y: (fn.cat(x, y), fn.cat(x, y, x, axis=-1)), [FLOATS, FLOATS[::-1]]),
        OperatorCase(lambda x: (fn.cat(x, x, axis_name="W"), fn.cat(x)), [IMAGES], HWC),
        OperatorCase(lambda x: fn.cat(x, x[1:3], axis=0), [RAGGED], HWC),
    ],
    "expand_dims": [
        OperatorCase(lambda x: (fn.expand_dims(x, axes=0), fn.expand_dims(x, axes=[4, 0])), [IMAGES], HWC),
        OperatorCase(lambda x: fn.expand_dims(x, axes=[3, 0], new_axis_names="XY"), [RAGGED], HWC),
        OperatorCase(lambda x: fn.expand_dims(x, axes=0, new_axis_names="C"), [SMALL[:, 0]]),
    ],
    "reinterpret": [
        OperatorCase(lambda x: fn.reinterpret(x, dtype=types.INT32, shape=[-1]), [IMAGES[:, :, :4]], HWC),
        OperatorCase(lambda x: fn.reinterpret(x, dtype=types.UINT8), [FLOATS]),
        OperatorCase(lambda x: fn.reinterpret(x, dtype=types.FLOAT, src_dims=[-1, 0]), [INTEGERS]),
        OperatorCase(lambda x: fn.reinterpret(x, dtype=types.UINT16, shape=[5, -1]), [IMAGES], HWC, ragged=False),
        OperatorCase(lambda x: fn.reinterpret(x, dtype=types.BOOL, layout="CHW"), [IMAGES], HWC),
    ],
    "shapes": [
        OperatorCase(lambda x: (fn.shapes(x), x.shape(dtype=types.INT32)), [IMAGES], HWC),
        OperatorCase(lambda x: fn.shapes(x, dtype=types.FLOAT), [RAGGED], HWC),
    ],
    "squeeze": [
        OperatorCase(lambda x: (fn.squeeze(x[2:3], axes=0), fn.squeeze(x[:, :1], axes=[-2])), [IMAGES], HWC),
        OperatorCase(lambda x: fn.squeeze(x[:1], axis_names="H"), [RAGGED], HWC),
    ],
    "stack": [
        OperatorCase(lambda x, y: (fn.stack(x, y), fn.stack(x, y, axis=-1)), [FLOATS, FLOATS[::-1]]),
        OperatorCase(lambda x: fn.stack(x, x, x, axis=1, axis_name="F"), [RAGGED], HWC),
        OperatorCase(lambda x: fn.stack(x, 2, x * 2, axis_name="C"), [FLAGS]),
    ],
    "batch_permutation": [
        OperatorCase(lambda: (fn.batch_permutation(), fn.batch_permutation(no_fixed_points=True)), mixes=True),
        OperatorCase(lambda: fn.batch_permutation(allow_repetitions=True, seed=3), mixes=True),
        OperatorCase(lambda: fn.batch_permutation(allow_repetitions=True, no_fixed_points=True), mixes=True),
    ],
    "dump_image": [
        OperatorCase(lambda x: fn.dump_image(x), [RAGGED], HWC, mixes=True),
        OperatorCase(lambda x: fn.dump_image(x, suffix="grey"), [IMAGES[..., :1]], HWC, mixes=True),
    ],
    "element_extract": [
        OperatorCase(lambda x: fn.element_extract(x, element_map=[2, 0]), [SEQUENCES], ("FHWC",)),
        OperatorCase(lambda x: fn.element_extract(x, element_map=1), [SEQUENCES]),
    ],
    "get_property": [OperatorCase(lambda x: fn.get_property(x, key="layout"), [IMAGES], HWC)],
    "io.file.read": [OperatorCase(lambda x: fn.io.file.read(x), [[PATH] * 4])],
    "permute_batch": [
        OperatorCase(lambda x: fn.permute_batch(x, indices=[1, 3, 0, 0]), [RAGGED], HWC, mixes=True),
        OperatorCase(lambda x: fn.permute_batch(x, indices=fn.batch_permutation()), [IMAGES], HWC, mixes=True),
    ],
    "sequence_rearrange": [
        OperatorCase(lambda x: fn.sequence_rearrange(x, new_order=[2, 0, 2]), [SEQUENCES], ("FHWC",)),
        OperatorCase(lambda x, order: fn.sequence_rearrange(x, new_order=order), [SEQUENCES, FROM]),
    ],
}
