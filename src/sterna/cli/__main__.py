"""``python -m sterna.cli``: the ``sterna`` command without its script."""

from sterna.cli import main

main()
