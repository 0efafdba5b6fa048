"""The path from a scene and a request to an animation; entry point: :func:`newtongs.animate`."""
