"""``python -m sterna``: the same as the ``sterna`` command."""

from sterna.cli import main

if __name__ == "__main__":
    main()
