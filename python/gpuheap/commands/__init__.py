"""Commands that are more than a call: what they print and how they end."""
