"""Uses of image operators with their arguments at the limits, for the tests beside this and those against DALI."""

from dataclasses import dataclass, field

BYTES, FLOATS, WORDS = "uint8", "float32", "int16"
EXACT, CLOSE, WARPED = "exact", "close", "warped"
TURNED = [0.9, -0.3, 1.5, 0.25, 1.1, -0.75]


def types(lib, arguments):
    """The arguments, with the types that texts name."""
    named = {name: getattr(lib.types, value, value) for name, value in arguments.items() if isinstance(value, str)}
    return arguments | named


@dataclass(frozen=True)
class Use:
    """How an operator is used: with each of several arguments, and with arguments that each sample has of its own."""

    several: list = field(default_factory=list)
    each: dict = field(default_factory=dict)
    always: dict = field(default_factory=dict)
    limit: str = CLOSE
    dtypes: tuple = (BYTES, FLOATS, WORDS)
    sequences: bool = True
    plain: bool = True


FACTORS = [0.0, 1.0, 0.5, 3.7, -1.5, 1e3]
ANGLES = [0.0, 30.0, -90.5, 360.0, 725.25, -1e4]
PARTS = [0.0, 1.0, 0.3, 0.75]
LEVELS = {"brightness": FACTORS, "brightness_shift": [0.0, 0.3, -1.0, 5.0], "contrast": FACTORS}
FILLS = [{"fill_value": value} for value in (0.0, 10.0, 127.6, 255.0, 300.0, -5.0)]
SIZED = [{"size": size} for size in ([1, 1], [20, 33], [7.6, 3.2], [64, 2])]
CUT = {"crop": [[1.0, 1.0], [5.0, 4.0], [4.7, 3.2], [0.0, 2.0]], "crop_pos_x": PARTS, "crop_pos_y": PARTS}
FILTERS = ("INTERP_NN", "INTERP_LINEAR", "INTERP_CUBIC", "INTERP_LANCZOS3", "INTERP_TRIANGULAR", "INTERP_GAUSSIAN")
RESIZED = [
    *({name: value} for name in ("resize_x", "resize_y", "resize_shorter", "resize_longer") for value in (2.0, 33.4)),
    *({"size": [10.0, 20.0], "interp_type": name} for name in FILTERS),
    *({"size": [10.0, 20.0], "interp_type": name, "antialias": False} for name in FILTERS),
    *({"size": [10.0, 20.0], "mode": mode} for mode in ("stretch", "not_smaller", "not_larger")),
    *({"size": size} for size in ([1.0, 1.0], [0.0, 25.0], [31.0, 0.0], [-12.0, 9.0], [5.5, 6.5])),
    {"resize_y": 40.0, "max_size": 30.0},
    {"resize_y": 40.0, "max_size": -3.0},
    {"resize_y": 33.3, "subpixel_scale": False},
]
REGIONS = [
    {"size": [9.0, 8.0], "roi_start": start, "roi_end": end, "roi_relative": relative}
    for start, end, relative in (
        ([0.2, 0.1], [0.9, 0.7], True),
        ([1, 1], [0, 0], True),
        ([0, 1], [9.5, 7], False),
        ([-2, -3], [30, 40], False),
    )
]
PLACES = [{"crop": [1.0, 1.0], "crop_pos_x": x, "crop_pos_y": y} for x, y in ((0.0, 1.0), (1.0, 0.3))]
POLICIES = [
    {"crop": [20.0, 30.0], "out_of_bounds_policy": policy, **fill}
    for policy, fill in (
        ("pad", {}),
        ("pad", {"fill_values": 7.5}),
        ("pad", {"fill_values": [1.0, 2.0, 3.0]}),
        ("trim_to_shape", {}),
    )
]

USES = {
    "brightness": Use(
        [{"brightness": value} for value in FACTORS] + [{"brightness_shift": value} for value in (0.3, -1.0, 5.0)],
        {"brightness": FACTORS, "brightness_shift": [0.0, 0.3, -1.0, 5.0]},
    ),
    "contrast": Use(
        [{"contrast": value} for value in FACTORS]
        + [{"contrast_center": value, "contrast": 2.0} for value in (0, 255.0)],
        {"contrast": FACTORS, "contrast_center": [0.0, 0.5, 128.0, -7.0]},
    ),
    "brightness_contrast": Use([{}, {"contrast": -1.5, "brightness": 3.7, "dtype": "FLOAT"}], LEVELS),
    "hue": Use([{"hue": value} for value in ANGLES], {"hue": ANGLES}),
    "saturation": Use([{"saturation": value} for value in FACTORS], {"saturation": FACTORS}),
    "hsv": Use(
        [{"hue": 77.0, "value": value, "saturation": -1.5} for value in FACTORS],
        {"hue": ANGLES, "saturation": FACTORS, "value": FACTORS},
    ),
    "color_twist": Use(
        [{"hue": 77.0, "contrast": value, "brightness": 0.5} for value in FACTORS],
        {"hue": ANGLES, "saturation": FACTORS, "brightness": FACTORS, "contrast": FACTORS},
    ),
    "color_space_conversion": Use(
        [
            {"image_type": given, "output_type": wanted}
            for given in ("RGB", "BGR", "YCbCr")
            for wanted in ("RGB", "BGR", "GRAY", "YCbCr")
            if given != wanted
        ],
        dtypes=(BYTES,),
    ),
    "equalize": Use([{}], dtypes=(BYTES,)),
    "jpeg_compression_distortion": Use(
        [{"quality": value} for value in (-3, 1, 95, 1000)], {"quality": [0, 1, 50, 100]}, limit=EXACT, dtypes=(BYTES,)
    ),
    "flip": Use(
        [{"horizontal": 2, "vertical": -1}, {"depthwise": 1}],
        {"horizontal": [0, 1, 2], "vertical": [1, 0], "depthwise": [1, 0]},
        limit=EXACT,
    ),
    "rotate": Use(
        [*FILLS, *SIZED, {"interp_type": "INTERP_NN"}, {"keep_size": True}, {"fill_value": 127.6, "dtype": "FLOAT"}],
        {"angle": [0.0, 30.0, 89.9, 90.0, -60.0, 180.0, 500.5]},
        {"angle": 24.0},
        WARPED,
    ),
    "warp_affine": Use(
        [*FILLS, *SIZED, {"interp_type": "INTERP_NN"}, {"inverse_map": False}, {"fill_value": 127.6, "dtype": "FLOAT"}],
        {"size": [[1.0, 1.0], [20.0, 33.0], [7.6, 3.2]]},
        {"matrix": TURNED},
        WARPED,
    ),
    "gaussian_blur": Use(
        [{"sigma": value} for value in (0.1, 3.0, [0.5, 2.0], 20.0)]
        + [{"window_size": value} for value in (1, [3, 11], 201)],
        {"sigma": [0.3, 1.5, 4.0], "window_size": [0, 7, 3]},
        limit=WARPED,
        plain=False,
    ),
    "laplacian": Use(
        [{"window_size": value} for value in (3, 5, [3, 7])] + [{"scale": [0.5, -1.5]}, {"normalized_kernel": True}],
        {"window_size": [3, 5], "smoothing_size": [1, 3], "scale": [1.0, 0.1]},
        plain=False,
    ),
    "water": Use(
        [{"ampl_x": 3.3, "freq_y": 0.5, "phase_x": -7.0, "fill_value": value} for value in (0.0, 127.6)],
        {"mask": [0, 1]},
        limit=WARPED,
        dtypes=(BYTES, FLOATS),
        sequences=False,
    ),
    "grid_mask": Use(
        [{"angle": 0.3, "tile": 3}, {"ratio": 1.0}, {"shift_x": -30.0, "tile": 17}],
        {"tile": [1, 3, 17], "ratio": [0.0, 0.25, 0.5], "angle": [0.3, -1.5], "shift_x": [2.5, -30.0]},
        limit=EXACT,
        sequences=False,
    ),
    "paste": Use(
        [{"fill_value": value} for value in (0, 255, [1, 2, 3])] + [{"min_canvas_size": 30.5, "fill_value": 1}],
        {"ratio": [1.0, 1.3, 3.7], "paste_x": PARTS, "paste_y": PARTS},
        {"ratio": 2.3, "paste_x": 0.3, "fill_value": 9},
        EXACT,
        (BYTES,),
        sequences=False,
    ),
    "crop": Use(
        [*PLACES, *POLICIES, {"crop": [1.0, 1.0], "dtype": "FLOAT"}], CUT, {"out_of_bounds_policy": "pad"}, EXACT
    ),
    "crop_mirror_normalize": Use(
        [{**use, "mirror": 1, "mean": [1.0, 2.0, 3.0], "std": 58.0} for use in (*PLACES, *POLICIES[:3])]
        + [
            {
                "crop": [1.0, 1.0],
                "pad_output": True,
                "dtype": "INT8",
                "output_layout": "WHC",
                "scale": 255.0,
                "shift": -3.5,
            }
        ],
        {"mirror": [0, 1, 2], "mean": [0.0, 100.0], "std": [1.0, 58.0]},
        {"output_layout": ""},
    ),
    "resize": Use([*RESIZED, *REGIONS], {"size": [[10.0, 20.0], [0.0, 25.0], [-12.0, 9.0]]}),
    "resize_crop_mirror": Use(
        [
            {"size": [30.0, 25.0], "crop": [5.0, 4.0], "mirror": flags, "interp_type": name}
            for flags, name in ((1, FILTERS[1]), (2, FILTERS[2]), (3, FILTERS[3]))
        ],
        {"mirror": [0, 1, 2, 3], "crop_pos_x": PARTS, "crop_pos_y": PARTS},
        {"size": [30.0, 25.0], "crop": [5.0, 4.0]},
        sequences=False,
    ),
    "slice": Use(
        [
            {"start": 0, "end": 1, "axes": 0},
            {"start": [0, -1], "shape": [3, 4], "axes": [1, 0], "out_of_bounds_policy": "pad", "fill_values": 7.5},
            {"rel_start": [0.3, -0.2], "rel_end": 0.8, "axis_names": "HW", "out_of_bounds_policy": "trim_to_shape"},
            {"start": [-2, 5], "rel_shape": [0.5, 2.0], "axes": [-3, -2], "out_of_bounds_policy": "pad"},
        ],
        {"start": [[0, -1], [2, 3]], "end": [[3, 5], [9, 4]]},
        {"out_of_bounds_policy": "pad"},
        EXACT,
        sequences=False,
    ),
    "pad": Use(
        [{"axis_names": "HW", "align": [4, 16]}, {"axes": [1], "shape": [310], "fill_value": 9.0}, {"fill_value": 7.0}],
        {"fill_value": [0.0, 7.0, 9.0]},
        limit=EXACT,
    ),
    "erase": Use(
        [
            {"anchor": anchor, "shape": shape, "fill_value": fill, **more}
            for anchor, shape, fill in (
                ([0, 0], [3, 4], 9.7),
                ([-2, -1], [1000, 2], [1.0, 2.0, 3.0]),
                ([0, 0, 5, 5], [3, 4, 1, 2], 7.0),
            )
            for more in ({}, {"centered_anchor": True}, {"axis_names": "WH"})
        ]
        + [
            {"anchor": [0.3, 0.2], "shape": [0.5, 0.25], "normalized": True},
            {"anchor": 2.0, "shape": 3.0, "axis_names": "W"},
        ],
        {
            "anchor": [[0.0, 0.0], [100.0, 0.0], [-2.5, 4.5]],
            "shape": [[3.0, 4.0], [0.0, 0.0]],
            "fill_value": [0.0, 30.0],
        },
        limit=EXACT,
        sequences=False,
        plain=False,
    ),
    "normalize": Use(
        [
            {},
            {"axes": [0, 1], "epsilon": 1.0},
            {"axis_names": "C", "ddof": 1, "epsilon": 1e-3},
            {"mean": 100.0, "scale": 64.0},
            {"batch": True, "dtype": "INT16", "shift": 128.0},
        ],
        sequences=False,
    ),
    "transpose": Use(
        [{"perm": [2, 0, 1]}, {"output_layout": "WHC"}, {"perm": [1, 0, 2], "transpose_layout": False}],
        limit=EXACT,
        sequences=False,
    ),
}
