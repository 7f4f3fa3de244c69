"""Operators that read data sets."""

from penstock.graph.registry import missing
from penstock.ops.readers_arrays import arrays as arrays
from penstock.ops.readers_caffe2 import caffe2 as caffe2
from penstock.ops.readers_cifar10 import cifar10 as cifar10
from penstock.ops.readers_file import file as file
from penstock.ops.readers_mnist import mnist as mnist

__getattr__ = missing(__name__)
