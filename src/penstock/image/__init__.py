"""Image engine: operators describe their work in numbers, and executors compute the pixels."""
