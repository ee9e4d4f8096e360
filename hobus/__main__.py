"""`python -m hobus` is `hobus`; little is imported before Ctrl-C is provided for."""

import importlib

from hobus.launch.console.interrupt import end_at_interrupt, raise_at_interrupt


def main() -> None:
    """Load the command line and run it."""
    end_at_interrupt()
    cli = importlib.import_module("hobus.launch.cli.main")
    raise_at_interrupt()
    cli.main()


if __name__ == "__main__":
    main()
