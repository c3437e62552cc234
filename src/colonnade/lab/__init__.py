"""Attacks, audits of ε and comparisons of methods: they run what is below, and nothing is built on them."""
