"""Export of a session as Markdown or HTML, from the same view as the screen (S3).

Session content is always text in a document: it can't become markup, a script, a link or an image.
"""
