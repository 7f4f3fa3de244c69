"""Cost of calls on data, compared with the kernel alone and with a pipeline that fuses the operators.

    python benchmarks/eager.py [--photographs FOLDER] [--images 512] [--rounds 9]

Workloads:

    image        fn.resize of one image of 500 x 375 pixels to 224 x 224. "kernel" is the compiled loop, called through
                 `execute_rows` with a description that exists; "new sizes" are images of a new size in each call.
    photographs  decode, resize to 224 x 224, mirror; batches of 256 JPEGs in memory. A pipeline does so in one visit to
                 each image, calls on data in three.

Targets, for the CPU time: an image at most 1.25 times the kernel; photographs at most 1.3 times the pipeline.
"""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import numpy as np
from measure import BATCH, arguments, compare, selected

from penstock import fn, pipeline_def, types


def image_contenders():
    """Return contenders that resize one image after the other."""
    image = np.random.default_rng(0).integers(0, 256, (375, 500, 3), np.uint8)

    def eager():
        return iter(lambda: [fn.resize(image, size=[224, 224]) for _ in range(BATCH)], None)

    def new_sizes():
        sizes = itertools.cycle(range(301))
        return iter(lambda: [fn.resize(image[: 375 - next(sizes) // 16], size=[224, 224]) for _ in range(BATCH)], None)

    def kernel():
        from penstock.image import image_fusion

        execute_rows, calls = image_fusion.execute_rows, []

        def recorded(*arguments):
            calls.append(arguments)
            return execute_rows(*arguments)

        image_fusion.execute_rows = recorded
        fn.resize(image, size=[224, 224])
        image_fusion.execute_rows = execute_rows
        return iter(lambda: [execute_rows(*calls[0]) for _ in range(BATCH)], None)

    return {"kernel": kernel, "eager": eager, "eager, new sizes": new_sizes}


def photograph_contenders(folder):
    """Return contenders that prepare batches of photographs."""
    files = itertools.cycle(np.frombuffer(path.read_bytes(), np.uint8) for path in sorted(folder.rglob("*.JPEG")))
    batch = list(itertools.islice(files, BATCH))

    def prepared(jpegs):
        images = fn.decoders.image(jpegs, output_type=types.RGB)
        return fn.flip(fn.resize(images, size=[224, 224]))

    def pipeline():
        definition = pipeline_def(lambda: prepared(fn.external_source(lambda: batch)), batch_size=BATCH, num_threads=1)
        return iter(definition().run, None)

    return {"pipeline": pipeline, "eager": lambda: iter(partial(prepared, batch), None)}


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__, 512)
    parser.add_argument("--photographs", type=Path, help="folder of JPEG files; without it, only an image is measured")
    options = parser.parse_args()
    workloads = {"image": image_contenders}
    if options.photographs:
        workloads["photographs"] = partial(photograph_contenders, options.photographs)
    for name in selected(workloads, options.workloads):
        contenders = workloads[name]()
        reference = next(iter(contenders))
        times = compare(f"{name}, in turns of {BATCH}", contenders, options, [reference])
        if {"eager", reference} <= times.keys():
            print(f"  eager: {times['eager'].ratio(times[reference]):.2f} of the CPU time of the {reference}")


if __name__ == "__main__":
    main()
