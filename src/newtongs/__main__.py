"""``python -m newtongs``."""

from .cli import main

main()
