"""Tools for an assistant: look at a scene, pick things by number or in words, push them, play.

:class:`~.desk.Desk` is what the tools do, with the same :class:`newtongs.studio.Session` as the
studio; :mod:`.server` offers them by the Model Context Protocol; :mod:`.folders` says which files
they may touch.
"""
