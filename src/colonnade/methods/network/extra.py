"""PyTorch is an extra: the core never imports it, and whoever needs it without having it is told what to install."""

from __future__ import annotations

from colonnade.errors import NotInstalled


def need_networks() -> None:
    """Raise an `InputError` that names the extra, unless PyTorch and safetensors are installed."""
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as missing:
        raise NotInstalled(
            f"neural networks need PyTorch and safetensors, and {missing.name!r} is not installed. Install the extra: "
            "pip install 'colonnade[networks]'."
        ) from None
