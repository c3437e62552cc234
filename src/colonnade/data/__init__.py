"""From an organisation's own files to integers with declared bounds."""
