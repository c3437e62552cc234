"""Each party's own book of what it let out: refuse before, record, never forget."""
