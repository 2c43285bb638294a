"""Where throw-away files go."""

import os
import tempfile
from pathlib import Path

# Room that all workers together may come to need for throw-away files.
ROOM = 4 << 30


def quick_folder() -> str:
    """Into memory where that has room, for waiting for a disk takes longer than most tests do."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        about = os.statvfs(memory)
        # Some tests load what they compiled.
        if about.f_bavail * about.f_frsize >= ROOM and not about.f_flag & os.ST_NOEXEC:
            return str(memory)
    return tempfile.gettempdir()
