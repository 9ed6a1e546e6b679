"""Reference agents for comparison: minimal programs that complete small jobs, with the standard library only."""
