"""TFRecord files and the Example messages in them."""
