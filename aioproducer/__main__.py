"""``python -m aioproducer``: the command line."""

from aioproducer.cli import main

if __name__ == "__main__":
    main()
