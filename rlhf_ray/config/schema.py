"""The whole configuration. One file per conf group; this one puts them together."""

from dataclasses import dataclass

from rlhf_ray.config.algorithm import AlgorithmConfig
from rlhf_ray.config.check import CheckConfig
from rlhf_ray.config.data import DataConfig
from rlhf_ray.config.doctor import DoctorConfig
from rlhf_ray.config.evaluation import EvaluationConfig
from rlhf_ray.config.generator import GeneratorConfig
from rlhf_ray.config.learner import LearnerConfig
from rlhf_ray.config.model import ModelConfig
from rlhf_ray.config.placement import PlacementConfig
from rlhf_ray.config.reward import RewardConfig
from rlhf_ray.config.reward_model import RewardModelConfig
from rlhf_ray.config.setting import group, setting
from rlhf_ray.config.sft import SftConfig
from rlhf_ray.config.tracking import CheckpointConfig, TrackingConfig

STAGES = ("sft", "reward_model", "ppo")


@dataclass(kw_only=True)
class TrainConfig:
    """conf/train.yaml."""

    experiment_name: str = setting("run", "folder under outputs/ that the run directory is made in")
    run_dir: str = setting("", "the run directory; empty: outputs/<experiment_name>/<time>-<random id>", path=True)
    seed: int = setting(1, "decides data order, initial weights and every sampled token", low=0, high=2**32 - 1)
    learning_rate: float = setting(
        3e-6,
        "taken by every stage that does not set its own",
        low=0,
        usual=(1e-6, 1e-4),
        outside="lower hardly moves the models, higher makes them diverge (tiny models need more)",
    )
    stages: list[str] = setting(list(STAGES), "what is trained, in this order", choices=STAGES)
    resume: str | None = setting(None, "run directory to continue", path=True)
    reuse: str = setting(
        "auto",
        "whether results of the same inputs are taken from other runs beside run_dir (auto: in a multirun, which then "
        "also passes over finished jobs and continues unfinished ones)",
        choices=("auto", "on", "off"),
    )
    dry_run: bool = setting(False, "check everything, tell what would be done, and stop")
    model: ModelConfig = group(ModelConfig)
    data: DataConfig = group(DataConfig)
    sft: SftConfig = group(SftConfig)
    reward_model: RewardModelConfig = group(RewardModelConfig)
    reward: RewardConfig = group(RewardConfig)
    algorithm: AlgorithmConfig = group(AlgorithmConfig)
    generator: GeneratorConfig = group(GeneratorConfig)
    learner: LearnerConfig = group(LearnerConfig)
    evaluation: EvaluationConfig = group(EvaluationConfig)
    check: CheckConfig = group(CheckConfig)
    doctor: DoctorConfig = group(DoctorConfig)
    placement: PlacementConfig = group(PlacementConfig)
    tracking: TrackingConfig = group(TrackingConfig)
    checkpoint: CheckpointConfig = group(CheckpointConfig)
