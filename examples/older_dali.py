"""ImageNet training with the API of DALI 0.x: operators as objects, a class with `define_graph`.

Only the imports differ from the program for DALI. `--data` takes a folder with one folder of JPEGs per class. By
default, the example writes photographs.
"""

import argparse
from pathlib import Path

from photographs import write_photographs

from penstock import ops, types
from penstock.pipeline import Pipeline
from penstock.plugin.base_iterator import LastBatchPolicy
from penstock.plugin.jax import DALIGenericIterator

MEAN = [0.485 * 255, 0.456 * 255, 0.406 * 255]
STD = [0.229 * 255, 0.224 * 255, 0.225 * 255]


class HybridTrainPipe(Pipeline):
    """Random crops of shuffled images, randomly mirrored and normalized."""

    def __init__(self, batch_size, num_threads, device_id, data_dir, crop, shard_id=0, num_shards=1):
        super().__init__(batch_size, num_threads, device_id, seed=12)
        self.input = ops.FileReader(
            file_root=data_dir, shard_id=shard_id, num_shards=num_shards, random_shuffle=True, pad_last_batch=True
        )
        self.decode = ops.ImageDecoderRandomCrop(
            device="mixed",
            output_type=types.RGB,
            device_memory_padding=211025920,
            host_memory_padding=140544512,
            random_aspect_ratio=[0.8, 1.25],
            random_area=[0.1, 1.0],
            num_attempts=100,
        )
        self.res = ops.Resize(device="gpu", resize_x=crop, resize_y=crop, interp_type=types.INTERP_TRIANGULAR)
        self.cmnp = ops.CropMirrorNormalize(
            device="gpu", dtype=types.FLOAT, output_layout=types.NCHW, crop=(crop, crop), mean=MEAN, std=STD
        )
        self.coin = ops.CoinFlip(probability=0.5)

    def define_graph(self):
        """Call the operators."""
        rng = self.coin()
        self.jpegs, self.labels = self.input(name="Reader")
        images = self.decode(self.jpegs)
        images = self.res(images)
        output = self.cmnp(images.gpu(), mirror=rng)
        return [output, self.labels]


def main():
    """Run some epochs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with one folder of JPEGs per class")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    root = options.data or write_photographs(Path("out/older_dali"))
    pipe = HybridTrainPipe(options.batch_size, num_threads=2, device_id=0, data_dir=root, crop=224)
    pipe.build()
    print(f"{pipe.epoch_size('Reader')} images")
    loader = DALIGenericIterator(
        pipe, ["data", "label"], reader_name="Reader", auto_reset=True, last_batch_policy=LastBatchPolicy.FILL
    )
    for epoch in range(options.epochs):
        shapes = [batch["data"].shape for batch in loader]
        print(f"epoch {epoch}: {len(shapes)} batches of {shapes[0]}")


if __name__ == "__main__":
    main()
