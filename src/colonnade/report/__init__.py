"""What a run learnt and what it cost, as facts, text and a page."""
