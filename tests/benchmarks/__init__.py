"""Speed, measured by hand or in CI, never in a timed test: `python -m tests.benchmarks.<name>`."""
