"""What follows images: boxes, points and masks go where an image's pixels went."""
