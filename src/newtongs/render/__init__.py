"""Pictures of Gaussian scenes."""
