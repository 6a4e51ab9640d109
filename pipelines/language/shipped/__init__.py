"""The networks that come with Medusa, known by their names."""
