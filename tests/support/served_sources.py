"""Program that tests serve: definitions whose samples come from a cache, tables, object stores and videos."""

from __future__ import annotations

from penstock import data_iterator, fn


@data_iterator(auto_reset=True)
def cached(folder):
    """Photographs that are decoded once, and random crops of them."""
    files, labels = fn.readers.file(file_root=folder, random_shuffle=True, flat_labels=True)
    images, labels = fn.cache(fn.resize(fn.decoders.image(files), size=[16, 16]), labels, memory="1 MB")
    return {"images": fn.crop(images, crop=[8, 8], crop_pos_x=fn.random.uniform(range=[0.0, 1.0])), "labels": labels}


@data_iterator(auto_reset=True)
def rows(path):
    """Images and labels of a table."""
    columns = fn.readers.parquet(paths=path, columns=["image", "label"], random_shuffle=True)
    return {"images": fn.resize(fn.decoders.image(columns["image"]), size=[8, 8]), "labels": columns["label"]}


@data_iterator(auto_reset=True)
def objects(urls):
    """Photographs of a web server."""
    files, labels = fn.readers.file(files=urls, labels=list(range(len(urls))), random_shuffle=True, flat_labels=True)
    return {"images": fn.resize(fn.decoders.image(files), size=[8, 8]), "labels": labels}


@data_iterator(auto_reset=True)
def clips(paths):
    """Clips of videos."""
    frames, labels = fn.readers.video(
        filenames=paths, labels=list(range(len(paths))), sequence_length=2, random_shuffle=True, flat_labels=True
    )
    return {"frames": fn.resize(frames, size=[8, 8]), "labels": labels}
