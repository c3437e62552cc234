"""Integers that stand for data: fields, residues, rounding to a grid."""
