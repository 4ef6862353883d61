"""The stages of a run, put together from a configuration."""

from rlhf_ray.pipeline.run import run

__all__ = ["run"]
