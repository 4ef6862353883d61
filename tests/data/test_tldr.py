"""Queries of posts (Huang et al. 2024, details 2 and 3)."""

from rlhf_ray.data.rows import Post
from rlhf_ray.data.tldr import fitting_query, query


def post_of(*paragraphs):
    return Post(subreddit="tifu", title="Lost keys", post="\n".join(paragraphs))


def count_words(text):
    return len(text.split())


def test_the_query_names_subreddit_title_and_post_and_ends_without_a_space():
    assert query(post_of("I lost them.")) == ("SUBREDDIT: r/tifu\n\nTITLE: Lost keys\n\nPOST: I lost them.\n\nTL;DR:")


def test_a_long_post_loses_whole_paragraphs_from_its_end():
    post = post_of("One two.", "Three four five.", "Six seven.")
    text = fitting_query(post, count_tokens=count_words, max_tokens=11)
    assert text == query(post_of("One two."))


def test_a_post_of_one_paragraph_loses_characters():
    text = fitting_query(post_of("abcdef"), count_tokens=len, max_tokens=len(query(post_of("abcd"))))
    assert text == query(post_of("abcd"))


def test_a_query_that_fits_is_left_alone():
    post = post_of("One.", "Two.")
    assert fitting_query(post, count_tokens=count_words, max_tokens=9) == query(post)
