"""The market in simulation: many participants, their contracts, their load, and rounds of moves."""
