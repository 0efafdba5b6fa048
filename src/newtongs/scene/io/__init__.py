"""Files of Gaussians and of cameras, read and written."""
