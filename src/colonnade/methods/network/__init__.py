"""Neural networks over the columns of several parties. Needs the extra `networks` (PyTorch, safetensors)."""
