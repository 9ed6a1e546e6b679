"""Small jobs with a real small model: how many an agent gets done, and what they cost (E1)."""
