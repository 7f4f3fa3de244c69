"""What turns the bytes of image files into pixels: a module per library, one for what they share."""
