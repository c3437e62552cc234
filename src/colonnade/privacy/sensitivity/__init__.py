"""How far one record, or one party's part of it, can move what is released. Pure functions with proofs."""
