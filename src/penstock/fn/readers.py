"""Operators that read data sets."""

from penstock.graph.registry import missing
from penstock.operators.readers.array_record import array_record as array_record
from penstock.operators.readers.arrays import arrays as arrays
from penstock.operators.readers.caffe import caffe as caffe
from penstock.operators.readers.caffe2 import caffe2 as caffe2
from penstock.operators.readers.cifar10 import cifar10 as cifar10
from penstock.operators.readers.coco import coco as coco
from penstock.operators.readers.file import file as file
from penstock.operators.readers.fits import fits as fits
from penstock.operators.readers.items import items as items
from penstock.operators.readers.mix import mix as mix
from penstock.operators.readers.mnist import mnist as mnist
from penstock.operators.readers.mxnet import mxnet as mxnet
from penstock.operators.readers.nemo_asr import nemo_asr as nemo_asr
from penstock.operators.readers.numpy import numpy as numpy
from penstock.operators.readers.parquet import parquet as parquet
from penstock.operators.readers.sequence import sequence as sequence
from penstock.operators.readers.tfrecord import tfrecord as tfrecord
from penstock.operators.readers.video import video as video
from penstock.operators.readers.video_resize import video_resize as video_resize
from penstock.operators.readers.webdataset import webdataset as webdataset

__getattr__ = missing(__name__)
