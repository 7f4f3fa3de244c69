"""Image codecs: one module per decoding library behind one interface, `ImageCodec`."""
