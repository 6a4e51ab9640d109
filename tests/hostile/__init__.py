"""Input as an attacker, a broken program or a bad day would give it, and what comes of it."""
