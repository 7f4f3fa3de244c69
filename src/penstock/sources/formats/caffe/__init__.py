"""caffe."""
