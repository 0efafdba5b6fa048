"""What is in a scene: its floor and the objects on it, found or chosen."""
