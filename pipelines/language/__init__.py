"""The Spark SQL of networks: parsed, checked, compiled."""
