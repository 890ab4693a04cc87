"""How fast `cold` is: every number is a ratio of two things timed in one run. `python -m benchmarks.NAME --help`."""
