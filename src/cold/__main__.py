"""`python -m cold` is the command `cold`."""

from cold.cli import main

main()
