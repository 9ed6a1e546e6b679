"""The plan document: its values, its Markdown, the file it lives in, and how two people's changes come together."""
