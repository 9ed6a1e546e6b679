"""The agent without a face: commands in, one stream of events out."""
