"""Tables of synthetic people that agree with a release, and what a release says of two columns at a time."""
