"""Private learning on columns that different organisations hold about the same people."""

from __future__ import annotations

__version__ = "0.1.0"
