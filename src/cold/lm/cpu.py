"""Memory on a CPU: what a step frees is kept for the next one."""

from __future__ import annotations

import ctypes
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST = (1 << 31) - 1


@cache
def keep_memory() -> None:
    """Ask the C library not to give freed blocks back: every step needs the same ones, and new pages are slow."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc
        return
    mallopt(MMAP_THRESHOLD, 1 << 30)
    mallopt(TRIM_THRESHOLD, LARGEST)
