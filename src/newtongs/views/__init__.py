"""Where the camera stands, what it frames, and overview pictures with annotations."""
