"""Entry scripts for spark-submit."""
