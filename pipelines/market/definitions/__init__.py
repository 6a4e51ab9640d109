"""Boxes that buyers define over the streams that they buy, run by the seller."""
