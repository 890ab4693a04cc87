"""Silence: transformers draws bars and the hub's client tells each retry; a command line has room for one voice."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no log lines; the user's settings come back afterwards."""
    from transformers.utils import logging as bars

    hub = logging.getLogger("huggingface_hub")
    shown, levels = bars.is_progress_bar_enabled(), (bars.get_verbosity(), hub.level)
    bars.disable_progress_bar()
    bars.set_verbosity_error()
    hub.setLevel(logging.ERROR)
    try:
        yield
    finally:
        bars.set_verbosity(levels[0])
        hub.setLevel(levels[1])
        if shown:
            bars.enable_progress_bar()
