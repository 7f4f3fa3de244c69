"""COCO annotations and masks."""
