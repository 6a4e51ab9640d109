"""The market: what participants have agreed with each other, and what each decides by it.

Everything is decided by one participant from its own knowledge and what its partners have said to
it (papers: Medusa, NSDI 2004, the bounded-price mechanism).
"""
