"""Delivery of rows into folders and tables."""
