"""What others would do with everybody's rows in one trusted place: for comparison, on public data only."""
