"""The market: contracts between participants, and the decisions that each makes by them.

Each participant decides from its own knowledge and its partners' messages alone (papers: Medusa,
NSDI 2004, the bounded-price mechanism).
"""
