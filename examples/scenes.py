"""A small data set for detection and segmentation: shapes on photographs, with COCO annotations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from photographs import write_photographs
from PIL import Image, ImageDraw

CLASSES = ("disc", "square", "triangle")
COLOURS = ((230, 40, 40), (40, 200, 60), (60, 90, 240))


def write_scenes(folder: Path, count: int = 48) -> Path:
    """Write JPEGs, their masks of classes (0 is the background), and ``scenes.json`` with boxes in the COCO format."""
    photographs = sorted(write_photographs(folder / "photographs", -(-count // 2)).rglob("*.jpg"))
    images, annotations = list[dict[str, object]](), list[dict[str, object]]()
    (folder / "images").mkdir(exist_ok=True)
    (folder / "masks").mkdir(exist_ok=True)
    for number in range(count):
        rng = np.random.default_rng(number)
        picture = Image.open(photographs[number]).convert("RGB")
        mask = Image.new("L", picture.size)
        for _ in range(rng.integers(1, 5)):
            kind, side = int(rng.integers(0, 3)), int(rng.integers(24, 80))
            left, top = (int(rng.integers(0, extent - side)) for extent in picture.size)
            _draw(picture, mask, kind, (left, top, left + side, top + side))
            identity = len(annotations) + 1
            box = [left, top, side + 1, side + 1]
            annotations.append(
                {
                    "id": identity,
                    "image_id": number,
                    "category_id": kind + 1,
                    "bbox": box,
                    "area": side**2,
                    "iscrowd": 0,
                }
            )
        name = f"{number:03}.jpg"
        picture.save(folder / "images" / name, quality=92)
        mask.save(folder / "masks" / f"{number:03}.png")
        images.append({"id": number, "file_name": name, "width": picture.width, "height": picture.height})
    categories = [{"id": number + 1, "name": name} for number, name in enumerate(CLASSES)]
    described = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "scenes.json").write_text(json.dumps(described))
    return folder


def _draw(picture: Image.Image, mask: Image.Image, kind: int, box: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = box
    for image, colour in ((picture, COLOURS[kind]), (mask, kind + 1)):
        draw = ImageDraw.Draw(image)
        if kind == 0:
            draw.ellipse(box, fill=colour)
        elif kind == 1:
            draw.rectangle(box, fill=colour)
        else:
            draw.polygon([(left, bottom), ((left + right) // 2, top), (right, bottom)], fill=colour)
