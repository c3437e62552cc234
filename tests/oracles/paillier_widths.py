"""How wide a field of packed numbers must be."""

from __future__ import annotations


def product_width(*, fraction_bits: int, terms: int, magnitude: int = 1) -> int:
    """The field width ι that holds a sum of `terms` fixed-point products.

    Claim: for |g_i| ≤ k·2^f and |x_i| ≤ 2^f, |Σ_{i≤s} g_i x_i| ≤ s·k·2^(2f) < 2^(ι−1) with
    ι = 2f + ⌈log2(s·k)⌉ + 2. A width chosen for one factor alone is too narrow.
    """
    if fraction_bits < 0 or terms < 1 or magnitude < 1:
        raise ValueError("a product needs fraction_bits ≥ 0, terms ≥ 1 and magnitude ≥ 1")
    return 2 * fraction_bits + (terms * magnitude - 1).bit_length() + 2
