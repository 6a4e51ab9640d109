"""The chart of Kubernetes, alerting rules and the dashboard: rendered and checked offline."""
