"""A session as a document to read: markdown and HTML, made from the same fold as the screen (S3).

Everything in a document is text: nothing of a session can become markup, script, link or picture in it.
"""
