"""Where the workers run and with how many threads."""

from dataclasses import dataclass

from rlhf_ray.config.setting import group, setting


@dataclass(kw_only=True)
class RoleConfig:
    """What one worker of a role reserves."""

    num_cpus: float = setting(0.25, "CPUs reserved in the cluster", low=0)
    num_gpus: float = setting(0.0, "GPUs reserved in the cluster", low=0)
    threads: int = setting(1, "threads that compute in the process", low=1)


@dataclass(kw_only=True)
class PlacementConfig:
    """conf/placement."""

    backend: str = setting(
        "ray", "worker team: Ray actors, or all in this process (debugging)", choices=("ray", "local")
    )
    address: str | None = setting(None, "Ray cluster to join; empty: start one on this machine")
    strategy: str = setting(
        "PACK", "placement group strategy", choices=("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
    )
    wait_s: float = setting(300.0, "longest wait for resources and for any worker's answer to start", unit="s", above=0)
    phase_limit_s: float = setting(3600.0, "longest wait for one phase of an iteration", unit="s", above=0)
    object_store_mib: int = setting(512, "shared memory of a cluster started here", unit="MiB", low=80)
    policy: RoleConfig = group(RoleConfig)
    critic: RoleConfig = group(RoleConfig)
    generator: RoleConfig = group(RoleConfig)
    reference: RoleConfig = group(RoleConfig)
    reward: RoleConfig = group(RoleConfig)
    data: RoleConfig = group(RoleConfig)
