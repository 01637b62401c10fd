"""A page that holds a log: an issue, a blog post, a chat, an e-mail, with the server output among other text."""

from vllm_doctor.pages.excerpts import Excerpt, Page, read_page

__all__ = ["Excerpt", "Page", "read_page"]
