"""Message passing on molecular graphs."""
