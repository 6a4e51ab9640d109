"""The comparisons behind our promises of speed: `python -m bench` (see bench/README.md)."""
