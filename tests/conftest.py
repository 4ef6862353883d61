"""The environment of every test, set before torch, Ray and vLLM read it: one thread a process, offline, quiet."""

import os
import secrets
import signal
import sys

from hypothesis import settings

assert "torch" not in sys.modules, "torch has read its thread settings already"

os.environ.update(
    OMP_NUM_THREADS="1",
    OMP_WAIT_POLICY="PASSIVE",  # waiting threads must not spin on the cores other processes compute on
    TOKENIZERS_PARALLELISM="false",
    HF_HUB_OFFLINE="1",
    RAY_USAGE_STATS_ENABLED="0",
    RAY_AUTH_MODE="token",
    RAY_AUTH_TOKEN=secrets.token_hex(32),
    VLLM_NO_USAGE_STATS="1",
    VLLM_LOGGING_LEVEL="ERROR",
)

# Started in the background, pytest and all its children would ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples drawn alike in every run; no time limit per example, which a busy machine would break.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

pytest_plugins = ("team_fixtures",)
