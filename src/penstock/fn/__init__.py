"""The operators under the names that DALI gives them: `fn.flip`, `fn.readers.file`, `fn.random.uniform`."""

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
from penstock.fn.names import present
from penstock.graph.registry import missing
from penstock.operators.audio.audio_resample import audio_resample as audio_resample
from penstock.operators.audio.mel_filter_bank import mel_filter_bank as mel_filter_bank
from penstock.operators.audio.mfcc import mfcc as mfcc
from penstock.operators.audio.nonsilent_region import nonsilent_region as nonsilent_region
from penstock.operators.audio.power_spectrum import power_spectrum as power_spectrum
from penstock.operators.audio.preemphasis_filter import preemphasis_filter as preemphasis_filter
from penstock.operators.audio.spectrogram import spectrogram as spectrogram
from penstock.operators.audio.to_decibels import to_decibels as to_decibels
from penstock.operators.boxes.bb_flip import bb_flip as bb_flip
from penstock.operators.boxes.bbox_paste import bbox_paste as bbox_paste
from penstock.operators.boxes.bbox_rotate import bbox_rotate as bbox_rotate
from penstock.operators.boxes.box_encoder import box_encoder as box_encoder
from penstock.operators.boxes.coord_flip import coord_flip as coord_flip
from penstock.operators.boxes.coord_transform import coord_transform as coord_transform
from penstock.operators.boxes.random_bbox_crop import random_bbox_crop as random_bbox_crop
from penstock.operators.boxes.random_crop_generator import random_crop_generator as random_crop_generator
from penstock.operators.boxes.roi_random_crop import roi_random_crop as roi_random_crop
from penstock.operators.boxes.ssd_random_crop import ssd_random_crop as ssd_random_crop
from penstock.operators.colour.brightness import brightness as brightness
from penstock.operators.colour.brightness_contrast import brightness_contrast as brightness_contrast
from penstock.operators.colour.clahe import clahe as clahe
from penstock.operators.colour.color_space_conversion import color_space_conversion as color_space_conversion
from penstock.operators.colour.color_twist import color_twist as color_twist
from penstock.operators.colour.contrast import contrast as contrast
from penstock.operators.colour.crop_mirror_normalize import crop_mirror_normalize as crop_mirror_normalize
from penstock.operators.colour.debayer import debayer as debayer
from penstock.operators.colour.equalize import equalize as equalize
from penstock.operators.colour.hsv import hsv as hsv
from penstock.operators.colour.hue import hue as hue
from penstock.operators.colour.lookup_table import lookup_table as lookup_table
from penstock.operators.colour.normalize import normalize as normalize
from penstock.operators.colour.saturation import saturation as saturation
from penstock.operators.decoders.peek_image_shape import peek_image_shape as peek_image_shape
from penstock.operators.external.external_source import external_source as external_source
from penstock.operators.files.dump_image import dump_image as dump_image
from penstock.operators.filters.dilate import dilate as dilate
from penstock.operators.filters.erode import erode as erode
from penstock.operators.filters.filter import filter as filter  # noqa: A004  # DALI's name
from penstock.operators.filters.gaussian_blur import gaussian_blur as gaussian_blur
from penstock.operators.filters.jpeg_compression_distortion import (
    jpeg_compression_distortion as jpeg_compression_distortion,
)
from penstock.operators.filters.laplacian import laplacian as laplacian
from penstock.operators.filters.median_blur import median_blur as median_blur
from penstock.operators.geometry.crop import crop as crop
from penstock.operators.geometry.erase import erase as erase
from penstock.operators.geometry.fast_resize_crop_mirror import fast_resize_crop_mirror as fast_resize_crop_mirror
from penstock.operators.geometry.flip import flip as flip
from penstock.operators.geometry.grid_mask import grid_mask as grid_mask
from penstock.operators.geometry.jitter import jitter as jitter
from penstock.operators.geometry.multi_paste import multi_paste as multi_paste
from penstock.operators.geometry.pad import pad as pad
from penstock.operators.geometry.paste import paste as paste
from penstock.operators.geometry.random_resized_crop import random_resized_crop as random_resized_crop
from penstock.operators.geometry.remap import remap as remap
from penstock.operators.geometry.resize import resize as resize
from penstock.operators.geometry.resize_crop_mirror import resize_crop_mirror as resize_crop_mirror
from penstock.operators.geometry.rotate import rotate as rotate
from penstock.operators.geometry.slice import slice as slice  # noqa: A004  # DALI's name
from penstock.operators.geometry.sphere import sphere as sphere
from penstock.operators.geometry.tensor_resize import tensor_resize as tensor_resize
from penstock.operators.geometry.warp_affine import warp_affine as warp_affine
from penstock.operators.geometry.warp_perspective import warp_perspective as warp_perspective
from penstock.operators.geometry.water import water as water
from penstock.operators.tensors import arithmetic, functions, getitem  # noqa: F401  # pyright: ignore[reportUnusedImport]  # a + b, a[i]
from penstock.operators.tensors.cast import cast as cast
from penstock.operators.tensors.cast_like import cast_like as cast_like
from penstock.operators.tensors.cat import cat as cat
from penstock.operators.tensors.constant import constant as constant
from penstock.operators.tensors.copy import copy as copy
from penstock.operators.tensors.expand_dims import expand_dims as expand_dims
from penstock.operators.tensors.full import full as full
from penstock.operators.tensors.full import full_like as full_like
from penstock.operators.tensors.full import ones as ones
from penstock.operators.tensors.full import ones_like as ones_like
from penstock.operators.tensors.full import zeros as zeros
from penstock.operators.tensors.full import zeros_like as zeros_like
from penstock.operators.tensors.get_property import get_property as get_property
from penstock.operators.tensors.one_hot import one_hot as one_hot
from penstock.operators.tensors.per_frame import per_frame as per_frame
from penstock.operators.tensors.permute_batch import batch_permutation as batch_permutation
from penstock.operators.tensors.permute_batch import permute_batch as permute_batch
from penstock.operators.tensors.reinterpret import reinterpret as reinterpret
from penstock.operators.tensors.reshape import reshape as reshape
from penstock.operators.tensors.sequences import element_extract as element_extract
from penstock.operators.tensors.sequences import sequence_rearrange as sequence_rearrange
from penstock.operators.tensors.shapes import shapes as shapes
from penstock.operators.tensors.squeeze import squeeze as squeeze
from penstock.operators.tensors.stack import stack as stack
from penstock.operators.tensors.transpose import transpose as transpose
from penstock.operators.user_code.jax_function import jax_function as jax_function
from penstock.operators.user_code.numba_function import numba_function as numba_function
from penstock.operators.user_code.python_function import dl_tensor_python_function as dl_tensor_python_function
from penstock.operators.user_code.python_function import python_function as python_function

__getattr__ = missing(__name__, present)
