"""Steps as Spark jobs: plans, sessions, panes, results."""
