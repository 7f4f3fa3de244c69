"""Operators under the names that other libraries give them, so that an unknown name leads to ours."""

from __future__ import annotations

from collections.abc import Mapping

_COIN = "fn.random.coin_flip(probability=0.5)"
_JITTER = (
    "fn.color_twist(images, brightness=fn.random.uniform(range=[0.8, 1.2]), contrast=..., saturation=..., hue=...)"
)
_NORMALIZE = (
    "fn.crop_mirror_normalize(images, mean=[...], std=[...]); mean and std in the units of the pixels, 0 to 255"
)
_CROP = "fn.random_resized_crop(images, size=224), or fn.decoders.image_random_crop(...) and fn.resize(...)"
_FLOATS = "the iterator delivers jax.Arrays; fn.crop_mirror_normalize(images, std=255.0) gives floats in 0..1, CHW"

# Library, its name, our code.
_TABLE: tuple[tuple[str, str, str], ...] = (
    ("torchvision", "CenterCrop", "fn.crop(images, crop=(224, 224))"),
    ("torchvision", "ColorJitter", _JITTER),
    ("torchvision", "Compose", "write the operators one after another in the function under @data_iterator"),
    ("torchvision", "ConvertImageDtype", "fn.cast(images, dtype=types.FLOAT)"),
    ("torchvision", "GaussianBlur", "fn.gaussian_blur(images, sigma=fn.random.uniform(range=[0.1, 2.0]))"),
    ("torchvision", "Grayscale", "fn.color_space_conversion(images, image_type=types.RGB, output_type=types.GRAY)"),
    ("torchvision", "ImageFolder", "fn.readers.file(file_root=folder)"),
    ("torchvision", "Lambda", "fn.python_function(images, function=f), or fn.jax_function(f)(images)"),
    ("torchvision", "Normalize", _NORMALIZE),
    ("torchvision", "Pad", "fn.pad(images, ...), or fn.paste(images, ...) to pad on all sides"),
    ("torchvision", "RandAugment", "penstock.auto_aug.rand_augment.rand_augment(images, n=2, m=9)"),
    ("torchvision", "RandomAffine", "fn.warp_affine(images, matrix=fn.transforms.combine(...))"),
    ("torchvision", "RandomCrop", "fn.crop(images, crop=(32, 32), crop_pos_x=fn.random.uniform(range=[0, 1]), ...)"),
    ("torchvision", "RandomErasing", "fn.erase(images, anchor=fn.random.uniform(range=[0, 1], shape=[2]), ...)"),
    ("torchvision", "RandomGrayscale", "fn.saturation(images, saturation=fn.random.choice([0.0, 1.0], p=[0.1, 0.9]))"),
    ("torchvision", "RandomHorizontalFlip", f"fn.flip(images, horizontal={_COIN})"),
    ("torchvision", "RandomInvert", "fn.cast(255 - images, dtype=types.UINT8)"),
    ("torchvision", "RandomResizedCrop", _CROP),
    ("torchvision", "RandomRotation", "fn.rotate(images, angle=fn.random.uniform(range=[-30, 30]))"),
    ("torchvision", "RandomVerticalFlip", f"fn.flip(images, horizontal=0, vertical={_COIN})"),
    ("torchvision", "Resize", "fn.resize(images, resize_shorter=256), or size=(height, width)"),
    ("torchvision", "ToDtype", "fn.cast(images, dtype=types.FLOAT) / 255.0"),
    ("torchvision", "ToImage", _FLOATS),
    ("torchvision", "ToTensor", _FLOATS),
    ("torchvision", "PILToTensor", _FLOATS),
    ("torchvision", "TrivialAugmentWide", "penstock.auto_aug.trivial_augment.trivial_augment_wide(images)"),
    ("torchvision", "AutoAugment", "penstock.auto_aug.auto_augment.auto_augment_image_net(images)"),
    ("albumentations", "CLAHE", "fn.clahe(images, tiles_x=8, tiles_y=8, clip_limit=4.0)"),
    ("albumentations", "CoarseDropout", "fn.erase(images, ...)"),
    ("albumentations", "Downscale", "fn.resize(...), twice"),
    ("albumentations", "GaussNoise", "fn.noise.gaussian(images, stddev=10.0)"),
    ("albumentations", "GridDropout", "fn.grid_mask(images, tile=32, ratio=0.5)"),
    ("albumentations", "HorizontalFlip", f"fn.flip(images, horizontal={_COIN})"),
    ("albumentations", "HueSaturationValue", "fn.hsv(images, hue=..., saturation=..., value=...)"),
    ("albumentations", "ImageCompression", "fn.jpeg_compression_distortion(images, quality=50)"),
    ("albumentations", "LongestMaxSize", "fn.resize(images, resize_longer=512)"),
    ("albumentations", "MedianBlur", "fn.median_blur(images, window_size=3)"),
    ("albumentations", "PadIfNeeded", "fn.paste(images, ratio=1.0, min_canvas_size=...), or fn.pad(images, shape=...)"),
    ("albumentations", "RandomBrightnessContrast", "fn.brightness_contrast(images, brightness=..., contrast=...)"),
    ("albumentations", "Rotate", "fn.rotate(images, angle=...)"),
    ("albumentations", "SmallestMaxSize", "fn.resize(images, resize_shorter=256)"),
    ("albumentations", "ToFloat", "fn.cast(images, dtype=types.FLOAT) / 255.0"),
    ("albumentations", "ToGray", "fn.color_space_conversion(images, image_type=types.RGB, output_type=types.GRAY)"),
    ("albumentations", "ToTensorV2", _FLOATS),
    ("albumentations", "VerticalFlip", f"fn.flip(images, horizontal=0, vertical={_COIN})"),
    ("tf.image", "adjust_brightness", "fn.brightness(images, brightness_shift=0.1)"),
    ("tf.image", "adjust_contrast", "fn.contrast(images, contrast=1.2)"),
    ("tf.image", "adjust_hue", "fn.hue(images, hue=30.0), in degrees"),
    ("tf.image", "adjust_saturation", "fn.saturation(images, saturation=1.2)"),
    ("tf.image", "central_crop", "fn.crop(images, crop=(224, 224))"),
    ("tf.image", "convert_image_dtype", "fn.cast(images, dtype=types.FLOAT) / 255.0"),
    ("tf.image", "decode_image", "fn.decoders.image(data)"),
    ("tf.image", "decode_jpeg", "fn.decoders.image(data)"),
    ("tf.image", "decode_png", "fn.decoders.image(data)"),
    ("tf.image", "flip_left_right", "fn.flip(images)"),
    ("tf.image", "flip_up_down", "fn.flip(images, horizontal=0, vertical=1)"),
    ("tf.image", "per_image_standardization", "fn.normalize(images)"),
    ("tf.image", "random_brightness", "fn.brightness(images, brightness_shift=fn.random.uniform(range=[-0.1, 0.1]))"),
    ("tf.image", "random_contrast", "fn.contrast(images, contrast=fn.random.uniform(range=[0.8, 1.2]))"),
    ("tf.image", "random_crop", "fn.crop(images, crop=(32, 32), crop_pos_x=fn.random.uniform(range=[0, 1]), ...)"),
    ("tf.image", "random_flip_left_right", f"fn.flip(images, horizontal={_COIN})"),
    ("tf.image", "random_flip_up_down", f"fn.flip(images, horizontal=0, vertical={_COIN})"),
    ("tf.image", "resize_with_crop_or_pad", "fn.crop(images, crop=..., out_of_bounds_policy='pad')"),
    ("tf.image", "rgb_to_grayscale", "fn.color_space_conversion(images, image_type=types.RGB, output_type=types.GRAY)"),
    ("tf.image", "rot90", "fn.rotate(images, angle=90)"),
    ("tf.data", "prefetch", "iterators prefetch by themselves; prefetch_queue_depth says how many batches"),
    ("tf.data", "shuffle", "random_shuffle=True of the reader: a shuffle of the whole data set"),
    ("tf.data", "batch", "batch_size= of the iterator"),
    ("tf.data", "map", "call operators on nodes; fn.python_function and fn.jax_function take functions of yours"),
    ("Grain", "MapDataset", "fn.readers.items(source), which reads any object with a length and items by index"),
    ("Grain", "random_map", "fn.python_function(data, fn.random.uniform(range=[0, 1]), function=f)"),
    ("PyTorch", "DataLoader", "@data_iterator(...) on a function that starts with a reader"),
    ("PyTorch", "DistributedSampler", "sharding= of data_iterator: batches are divided over all devices and processes"),
    ("PyTorch", "Subset", "subset= of the reader, such as subset=indices"),
    ("PyTorch", "WeightedRandomSampler", "weights= of the reader, one per sample"),
    ("PyTorch", "Dataset", "fn.readers.items(dataset), which reads any object with a length and items by index"),
)

FOREIGN: Mapping[str, tuple[str, str]] = {name: (library, code) for library, name, code in _TABLE}
