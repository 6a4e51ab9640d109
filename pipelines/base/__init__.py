"""What every room of `pipelines` stands on: files, clock, settings, processes, text."""
