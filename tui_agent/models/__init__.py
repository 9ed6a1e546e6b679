"""Model clients: one file a provider, all speaking the pieces of `base`."""
