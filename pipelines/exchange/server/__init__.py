"""The exchange server of a home: what partners may ask of it over HTTPS."""
