"""What was there before: contents kept by their hash, and the way back to them (K1)."""
