"""A participant at work: loop, driver, trims, recalls, repairs."""
