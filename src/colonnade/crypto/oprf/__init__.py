"""Batched oblivious pseudorandom functions by oblivious transfer extension (KKRT16), for intersecting large sets.

The receiver holds one item a bin of a cuckoo table and learns one value for it; the sender can compute the value of any
item in any bin, and learns nothing. `colonnade.protocols.oprf_intersection` carries what passes between the two;
docs/proofs/psi-transfer.md says who learns what, and why.

Source: Kolesnikov, Kumaresan, Rosulek, Trieu, "Efficient batched oblivious PRF with applications to private set
intersection" (CCS 2016).
"""
