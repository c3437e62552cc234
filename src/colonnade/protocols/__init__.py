"""What parties do together; the only room that sends a byte."""
