"""Caffe and Caffe2 records in LMDB."""
