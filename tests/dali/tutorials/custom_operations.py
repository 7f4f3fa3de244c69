"""Custom operations: functions of NumPy, of whole batches, of DLPack tensors, and loops that numba compiles."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.ops as ops
import nvidia.dali.types as types
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.numba.fn.experimental import numba_function


def edit_images(image1, image2):
    """Swap the left halves of two pictures of other sizes."""
    height, width = (min(image1.shape[axis], image2.shape[axis]) for axis in (0, 1))
    result1, result2 = np.copy(image1), np.copy(image2)
    result1[:height, : width // 2] = image2[:height, : width // 2]
    result2[:height, : width // 2] = image1[:height, : width // 2]
    return result1, result2


def threshold(image):
    """The mean, and where pixels are above it."""
    mean = image.mean(axis=(0, 1))
    return mean, image > mean


def mixed(images):
    """Each sample with the next one's brightest pixel."""
    brightest = [image.max(axis=(0, 1)) for image in images]
    return [image // 2 + top // 2 for image, top in zip(images, brightest[1:] + brightest[:1], strict=True)]


class Capsule:
    """For NumPy, what DALI hands over: a bare capsule; penstock's objects have the protocol."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **_):
        return self.tensor.__dlpack__() if hasattr(self.tensor, "__dlpack__") else self.tensor

    def __dlpack_device__(self):
        return (1, 0)


def inverted(tensors):
    return [(255 - np.from_dlpack(Capsule(tensor))).__dlpack__() for tensor in tensors]


def turned_shapes(outs, ins):
    out0, in0 = outs[0], ins[0]
    for row in range(len(out0)):
        out0[row][0] = in0[row][1]
        out0[row][1] = in0[row][0]
        out0[row][2] = in0[row][2]


def turned(out0, in0):
    for i in range(in0.shape[0]):
        for j in range(in0.shape[1]):
            out0[j, i] = 255 - in0[i, j]


def main(folder):
    names = sorted(path.name for path in folder.glob("*.jpg"))
    pipe = Pipeline(4, 2, None, exec_async=False, exec_pipelined=False, seed=99)
    with pipe:
        jpegs, _ = fn.readers.file(file_root=str(folder), files=names)
        others, _ = fn.readers.file(file_root=str(folder), files=names[::-1])
        images, images2 = fn.decoders.image([jpegs, others], device="cpu")
        edited = fn.python_function(images, images2, function=edit_images, num_outputs=2, output_layouts=["HWC"])
        pipe.set_outputs(
            *edited,
            *fn.python_function(images, function=threshold, num_outputs=2),
            fn.python_function(images, function=mixed, batch_processing=True),
            fn.dl_tensor_python_function(images, function=inverted, batch_processing=True),
            numba_function(
                images,
                run_fn=turned,
                setup_fn=turned_shapes,
                out_types=[types.UINT8],
                in_types=[types.UINT8],
                outs_ndim=[3],
                ins_ndim=[3],
                batch_processing=False,
            ),
        )
    pipe.build()
    yield from (pipe.run() for _ in range(2))

    class OldPipeline(Pipeline):
        """With the class API."""

        def __init__(self):
            super().__init__(3, 2, None, exec_async=False, exec_pipelined=False)
            self.input = ops.readers.File(file_root=str(folder), files=names)
            self.decode = ops.decoders.Image(device="cpu", output_type=types.RGB)
            self.function = ops.PythonFunction(function=threshold, num_outputs=2)

        def define_graph(self):
            jpegs, labels = self.input()
            return *self.function(self.decode(jpegs)), labels

    pipe = OldPipeline()
    pipe.build()
    yield pipe.run()
