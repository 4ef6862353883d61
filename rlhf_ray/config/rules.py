"""What must hold between settings. Pure: each rule looks at the config and yields what is wrong, with the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlhf_ray.config.derived import gold_scorer, is_tiny, longest_answer, longest_sequence, stages_to_run
from rlhf_ray.config.schema import STAGES, TrainConfig
from rlhf_ray.config.setting import refused, shown, unusual, walk

_USER_IN_URL = re.compile(r":/+[^/@\s]+@")  # resolving a path leaves one slash
_LOOSE_LOGPROB_GAP = 0.05  # nats; 16-bit engines differ from a float32 learner by about this much


def problems(config: TrainConfig) -> list[str]:
    """Everything that stands against running this config, without a look at the machine or at files."""
    out_of_range = [line for line in map(refused, walk(config)) if line]
    rules = (
        _stages,
        _data,
        _algorithm,
        _kl,
        _reward_model,
        _lengths,
        _generator,
        _placement,
        _evaluation,
        _doctor,
        _secrets,
    )
    return out_of_range + [line for rule in rules for line in rule(config)]


def warnings(config: TrainConfig, *, preset: TrainConfig) -> list[str]:
    """What to expect from unusual values, where they are not the preset's own."""
    chosen = [mine for mine, its in zip(walk(config), walk(preset), strict=True) if mine.value != its.value]
    return [line for line in map(unusual, chosen) if line] + list(_advice(config))


def _secrets(config: TrainConfig) -> Iterator[str]:
    """Settings are recorded, shown and sent to trackers: none may hold what nobody else may know. Told without it."""
    for item in walk(config):
        if isinstance(item.value, str) and _USER_IN_URL.search(item.value):
            yield f"{item.key}: a URL with a user or a password would be recorded; accepted is one without"


def _stages(config: TrainConfig) -> Iterator[str]:
    stages, written = config.stages, f"stages={shown(config.stages)}"
    in_order = [stage for stage in STAGES if stage in stages]
    if not stages:
        yield f"{written}: accepted is at least one of {', '.join(STAGES)}"
    if not stages or set(stages) - set(STAGES):
        return
    if stages != in_order:
        yield f"{written}: each stage once, in the order {shown(in_order)}"
    if is_tiny(config) and "sft" not in stages:
        yield f"{written} without sft starts from a random model; give model.path=DIR, or add sft"
    if "ppo" in stages and "reward_model" not in stages and config.reward.path is None:
        yield f"{written}: ppo needs a reward model; give reward.path=DIR, or add reward_model"


def _data(config: TrainConfig) -> Iterator[str]:
    data, stages = config.data, stages_to_run(config)
    own = [name for name in ("prompts", "demonstrations", "preferences") if getattr(data, name) is not None]
    needs_prompts = "ppo" in stages or ("reward_model" in stages and data.preferences is None)
    if own and data.prompts is None and needs_prompts:
        yield f"data.{own[0]} is your own, and data.prompts built in; give data.prompts=FILE"
    if data.prompts is not None and data.format in ("chat", "instruction") and is_tiny(config):
        yield f"data.format={data.format}: a new small Llama has no chat template; use plain, or give model.path=DIR"
    if data.prompts is not None and data.demonstrations is None and "sft" in stages:
        yield "the sft stage needs demonstrations that go with data.prompts; give data.demonstrations=FILE"
    if "reward_model" in stages and data.preferences is None and gold_scorer(config) is None:
        yield (
            "the reward_model stage has nothing to learn from: no data.preferences=FILE, "
            f"and no scorer that labels answers (reward.gold={config.reward.gold})"
        )
    if data.prompts is None and data.demonstrations is None:
        yield from _built_in_sizes(config)


def _built_in_sizes(config: TrainConfig) -> Iterator[str]:
    """A stage may not ask for more than is written."""
    data, stages = config.data, stages_to_run(config)
    prompts = f"data.num_prompts={data.num_prompts}"
    wanted = (
        ("sft", "sft.batch_size", config.sft.batch_size, f"data.num_demonstrations={data.num_demonstrations}"),
        ("reward_model", "reward_model.num_prompts", config.reward_model.num_prompts, prompts),
        ("ppo", "algorithm.batch_size", config.algorithm.batch_size, prompts),
    )
    for stage, key, asked, available in wanted:
        if stage in stages and asked > int(available.rpartition("=")[2]):
            yield f"{key}={asked}: accepted is at most {available}"
    if config.evaluation.num_prompts > data.num_held_out:
        yield f"evaluation.num_prompts={config.evaluation.num_prompts}: at most data.num_held_out={data.num_held_out}"


def _algorithm(config: TrainConfig) -> Iterator[str]:
    algorithm, replicas = config.algorithm, config.generator.num_replicas
    answers, minibatches = algorithm.batch_size * algorithm.samples_per_prompt, algorithm.minibatches
    if minibatches > 0 and answers % minibatches:
        fitting = [str(n) for n in range(1, min(answers, 2 * minibatches) + 1) if answers % n == 0]
        yield (
            f"algorithm.minibatches={minibatches} does not divide the batch of {answers} answers (algorithm.batch_size="
            f"{algorithm.batch_size} x samples_per_prompt={algorithm.samples_per_prompt}); use {', '.join(fitting)}"
        )
    if replicas > algorithm.batch_size > 0:
        yield (
            f"generator.num_replicas={replicas}: some would get no prompt of algorithm.batch_size="
            f"{algorithm.batch_size}; use at most {algorithm.batch_size}"
        )
    low, high = algorithm.rollout_correction_low, algorithm.rollout_correction_high
    if low >= high:
        yield f"algorithm.rollout_correction_low={low:g}: accepted is less than rollout_correction_high={high:g}"
    if algorithm.warmup_iterations >= algorithm.num_iterations > 0:
        yield (
            f"algorithm.warmup_iterations={algorithm.warmup_iterations}: accepted is less than "
            f"algorithm.num_iterations={algorithm.num_iterations}"
        )
    if config.sft.warmup_steps >= config.sft.num_steps > 0:
        yield f"sft.warmup_steps={config.sft.warmup_steps}: less than sft.num_steps={config.sft.num_steps}"


def _kl(config: TrainConfig) -> Iterator[str]:
    algorithm = config.algorithm
    if not algorithm.reference and algorithm.kl_coef > 0:
        yield (
            f"algorithm.kl_coef={algorithm.kl_coef:g} with algorithm.reference=false: there is nothing to measure "
            "the KL to; set algorithm.kl_coef=0, or algorithm.reference=true"
        )
    if algorithm.kl_target is None:
        return
    adapts = f"algorithm.kl_target={algorithm.kl_target:g} adapts the KL's weight"
    if not algorithm.reference:
        yield f"{adapts}, which algorithm.reference=false switches off; set algorithm.kl_target=null"
    if algorithm.kl_placement == "loss":
        yield f"{adapts} in the reward, and algorithm.kl_placement=loss puts it in the loss; set one of them back"
    if algorithm.kl_coef == 0:
        yield f"{adapts} from its first value, and algorithm.kl_coef=0 stays 0; use a value above 0"


def _reward_model(config: TrainConfig) -> Iterator[str]:
    """A group of answers is compared all with all, so it has to be in memory together."""
    if "reward_model" not in stages_to_run(config):
        return
    per_group = config.reward_model.samples_per_prompt if config.data.preferences is None else 2
    tokens, limit = per_group * longest_sequence(config), config.learner.micro_batch_tokens
    if tokens > limit >= longest_sequence(config):
        yield (
            f"learner.micro_batch_tokens={limit}: {per_group} answers to one prompt are compared at once and take up "
            f"to {tokens} tokens; raise it to {tokens}, or lower reward_model.samples_per_prompt"
        )


def _lengths(config: TrainConfig) -> Iterator[str]:
    longest, model = longest_sequence(config), config.model
    answer_key, answer = longest_answer(config)
    sum_words = f"data.max_prompt_tokens={config.data.max_prompt_tokens} + {answer_key}={answer} = {longest}"
    if config.learner.micro_batch_tokens < longest:
        yield f"learner.micro_batch_tokens={config.learner.micro_batch_tokens}: accepted is at least {sum_words}"
    if is_tiny(config) and model.context_length < longest:
        yield f"model.context_length={model.context_length}: accepted is at least {sum_words}"
    if is_tiny(config) and model.num_heads > 0 and model.hidden_size % (2 * model.num_heads):
        step = 2 * model.num_heads
        up = -(-model.hidden_size // step) * step
        yield (
            f"model.hidden_size={model.hidden_size} with model.num_heads={model.num_heads}: every head needs the same, "
            f"even width; use model.hidden_size={up}"
        )


def _generator(config: TrainConfig) -> Iterator[str]:
    generator = config.generator
    transport = f"generator.transport={generator.transport}"
    if generator.backend == "hf" and generator.transport != "object_store":
        yield f"{transport} needs generator.backend=vllm; use generator.transport=object_store"
    elif generator.transport != "object_store" and config.learner.device != "cuda":
        yield f"{transport} needs learner.device=cuda; use generator.transport=object_store"
    if generator.tensor_parallel_size <= 1:
        return
    parallel = f"generator.tensor_parallel_size={generator.tensor_parallel_size}"
    if generator.backend == "hf":
        yield f"{parallel} needs generator.backend=vllm; use 1"
    elif generator.transport == "object_store":
        yield f"{parallel} with {transport}: accepted is generator.transport=nccl, or tensor_parallel_size=1"


def _placement(config: TrainConfig) -> Iterator[str]:
    placement, on_gpu = config.placement, config.learner.device == "cuda"
    if placement.backend == "local":
        if placement.address is not None:
            yield f"placement.address={placement.address} has no effect with placement.backend=local; leave it out"
        return
    roles = {
        "policy": on_gpu,
        "critic": on_gpu,
        "reference": on_gpu and config.algorithm.reference,
        "reward": on_gpu,
        "generator": on_gpu and config.generator.transport != "object_store",
    }
    hidden = [role for role, needs_gpu in roles.items() if needs_gpu and getattr(placement, role).num_gpus == 0]
    if hidden:
        keys = ", ".join(f"placement.{role}.num_gpus=0" for role in hidden)
        yield (
            f"{keys} with learner.device=cuda: Ray hides the GPUs from a worker that reserves none; "
            "use placement=ray_gpu, or shares such as 0.2"
        )
    reserved, wanted = placement.generator.num_gpus, config.generator.tensor_parallel_size
    if wanted > 1 and reserved < wanted:
        yield (
            f"placement.generator.num_gpus={reserved:g}: accepted is at least generator.tensor_parallel_size={wanted}"
        )


def _doctor(config: TrainConfig) -> Iterator[str]:
    """One policy a kind."""
    lists = {name: getattr(config.doctor, name) for name in ("stop", "early_stop", "adapt", "rollback")}
    for kind in dict.fromkeys(kind for kinds in lists.values() for kind in kinds):
        names = [name for name, kinds in lists.items() if kind in kinds]
        if len(names) > 1:
            others = shown([other for other in lists[names[0]] if other != kind])
            keys = " and ".join(f"doctor.{name}" for name in names)
            yield f"{keys} both name {kind}: accepted is one of them; for the last, set doctor.{names[0]}={others}"


def _evaluation(config: TrainConfig) -> Iterator[str]:
    evaluation = config.evaluation
    if evaluation.num_shown > evaluation.num_prompts:
        yield (
            f"evaluation.num_shown={evaluation.num_shown}: accepted is at most "
            f"evaluation.num_prompts={evaluation.num_prompts}"
        )


def _advice(config: TrainConfig) -> Iterator[str]:
    """Legal combinations that are likely to surprise."""
    dtype, check = config.generator.dtype, config.check
    if dtype != "float32" and check.enabled and check.logprob_gap < _LOOSE_LOGPROB_GAP:
        yield (
            f"generator.dtype={dtype} with check.logprob_gap={check.logprob_gap:g}: the check of step 0 is likely to "
            "fail, 16-bit engines agree to two digits only; check=bfloat16 allows for it"
        )
    if config.model.path is not None and config.data.prompts is None:
        yield "model.path is your own, the prompts are the built-in ones; data.prompts=FILE gives your own"
