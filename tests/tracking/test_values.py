from rlhf_ray.tracking.values import reduce_stats
from rlhf_ray.types import Last, Max, Mean, Sum, merge_stats


def test_means_of_unequal_parts_are_weighted_and_the_rest_follows_its_own_rule():
    parts = [
        {"a": Mean(10.0, 1.0), "b": Sum(3.0), "c": Max(0.5), "d": Last(1.0)},
        {"a": Mean(2.0, 3.0), "b": Sum(4.0), "c": Max(0.25), "d": Last(2.0)},
    ]
    assert reduce_stats(merge_stats(parts)) == {"a": 3.0, "b": 7.0, "c": 0.5, "d": 2.0}


def test_what_was_never_counted_is_none():
    assert reduce_stats({"a": Mean(0.0, 0.0), "b": Last(None)}) == {"a": None, "b": None}
