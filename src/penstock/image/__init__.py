"""The image engine: image operators describe their work in numbers, an executor does it."""
