"""The query of the TL;DR task (Huang et al. 2024, details 2 and 3), cut by whole paragraphs where it is too long."""

from __future__ import annotations

from collections.abc import Callable

from rlhf_ray.data.rows import Post


def query(post: Post) -> str:
    """`SUBREDDIT: r/...`, title, post and `TL;DR:`, without a trailing space: the summary brings its own."""
    return f"SUBREDDIT: r/{post.subreddit}\n\nTITLE: {post.title}\n\nPOST: {post.post}\n\nTL;DR:"


def fitting_query(post: Post, *, count_tokens: Callable[[str], int], max_tokens: int) -> str:
    """While the query has more than max_tokens, its post loses what follows the last line break, or else a character.

    What is left of an empty post may still be longer than max_tokens.
    """
    text = post.post
    whole = query(post)
    while text and count_tokens(whole) > max_tokens:
        edge = text.rfind("\n")
        text = text[:edge] if edge > 0 else text[:-1]
        whole = query(Post(subreddit=post.subreddit, title=post.title, post=text))
    return whole
