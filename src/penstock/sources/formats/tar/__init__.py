"""Tar archives in WebDataset's convention."""
