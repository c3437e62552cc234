"""Methods, a folder each, behind one contract and one table."""
