"""`colonnade doctor`: what is wrong with this machine, a kit or a job."""
