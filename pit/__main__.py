"""`python -m pit` is `pit`."""

from pit.cli import main

if __name__ == "__main__":
    main()
