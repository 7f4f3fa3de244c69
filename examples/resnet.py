"""Residual networks with bottlenecks (He et al., 2015) in Flax NNX; the stride is in the 3x3 convolution (v1.5)."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
from flax import nnx

RESNET50 = (3, 4, 6, 3)


class Bottleneck(nnx.Module):
    """1x1, 3x3 and 1x1 convolutions with a shortcut. The scale of the last normalization starts at zero."""

    def __init__(self, into, width, stride, dtype, rngs):
        conv = partial(nnx.Conv, use_bias=False, dtype=dtype, rngs=rngs)
        norm = partial(nnx.BatchNorm, momentum=0.9, dtype=dtype, rngs=rngs)
        self.conv1, self.norm1 = conv(into, width, (1, 1)), norm(width)
        self.conv2, self.norm2 = conv(width, width, (3, 3), strides=stride), norm(width)
        self.conv3 = conv(width, 4 * width, (1, 1))
        self.norm3 = norm(4 * width, scale_init=nnx.initializers.zeros_init())
        same = stride == 1 and into == 4 * width
        cut = [] if same else [conv(into, 4 * width, (1, 1), strides=stride), norm(4 * width)]
        self.shortcut = nnx.Sequential(*cut)

    def __call__(self, x):
        """Return features for features."""
        y = nnx.relu(self.norm1(self.conv1(x)))
        y = nnx.relu(self.norm2(self.conv2(y)))
        return nnx.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


class ResNet(nnx.Module):
    """Four stages of bottlenecks.

    Args:
        classes: Number of classes.
        rngs: Source of the initial weights.
        blocks: Number of blocks per stage; the default is ResNet-50.
        width: Number of channels in the first stage.
        dtype: Dtype of the computation; weights are float32.
    """

    def __init__(self, classes, rngs, blocks=RESNET50, width=64, dtype=jnp.float32):
        self.stem = nnx.Conv(3, width, (7, 7), strides=2, use_bias=False, dtype=dtype, rngs=rngs)
        self.norm = nnx.BatchNorm(width, momentum=0.9, dtype=dtype, rngs=rngs)
        layers, into = [], width
        for stage, count in enumerate(blocks):
            for block in range(count):
                stride = 2 if stage and not block else 1
                layers.append(Bottleneck(into, width << stage, stride, dtype, rngs))
                into = 4 * (width << stage)
        self.blocks = nnx.Sequential(*layers)
        self.head = nnx.Linear(into, classes, dtype=dtype, rngs=rngs)

    def __call__(self, x):
        """Return float32 logits for images (rows, height, width, 3)."""
        x = nnx.relu(self.norm(self.stem(x)))
        x = nnx.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
        return self.head(self.blocks(x).mean(axis=(1, 2))).astype(jnp.float32)
