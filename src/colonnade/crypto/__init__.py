"""Secret sharing, encryption and masks. This room has never heard of a party."""
