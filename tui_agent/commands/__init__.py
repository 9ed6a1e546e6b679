"""Commands beside the agent itself."""
