"""What a release costs, to whom, and why: events, curves, guarantees. Pure, no input or output."""
