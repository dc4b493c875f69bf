"""The head: it decides, keeps the books and answers clients and workers."""
