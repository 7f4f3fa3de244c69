"""One file per decoding library, one interface (`ImageCodec`)."""
