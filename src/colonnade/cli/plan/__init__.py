"""`colonnade plan`: what a job would cost and give."""
