"""`python -m launch` is `hobus`."""

from launch.cli import main

if __name__ == "__main__":
    main()
