"""A federation between machines: NVIDIA FLARE, kits, policies, approval, and one site's part in a run."""
