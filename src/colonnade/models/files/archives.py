"""What reading a NumPy archive raises when it is cut off or altered: many things, and none is a mistake of ours."""

from __future__ import annotations

import struct
import zipfile
import zlib

# A flipped bit can claim a password (RuntimeError), another compression or another format of the directory
# (NotImplementedError), or an array as large as one likes (MemoryError).
DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    TypeError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    OverflowError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
