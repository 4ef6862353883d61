"""How well the doctor knows sick runs from healthy ones: small PPO runs with one illness each.

    python benchmarks/doctor_bed.py --case healthy --seeds 1-5
    python benchmarks/doctor_bed.py                             every case, seeds 1-5
    python benchmarks/doctor_bed.py --page                      judge all runs there are anew, write docs/doctor-bed.md

SFT policy and reward models are made once (or taken from a finished run: --models DIR) and shared. A case is run in
this process, without Ray and vLLM. `--policy adapt` and `--policy rollback` let the doctor act.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any

from doctor_bed_page import write_page
from sick_runs import ADAPT, CASES, HEALTHY, ROLLBACK, TREATED, Case, SickRuntime

from rlhf_ray.actors.worker import Worker
from rlhf_ray.config.host import Host
from rlhf_ray.config.load import Start, load
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.doctor.online import Doctor
from rlhf_ray.doctor.rules import RULES
from rlhf_ray.files.jsonl import read_jsonl
from rlhf_ray.loops.ppo import PpoState, Verdict
from rlhf_ray.pipeline.context import Context
from rlhf_ray.pipeline.monitor import Monitor, measured
from rlhf_ray.pipeline.stages import ppo_stage, reward_model_stage, sft_stage
from rlhf_ray.pipeline.start import open_team
from rlhf_ray.pipeline.tracker import Tracker
from rlhf_ray.tracking.progress import PlainDisplay
from rlhf_ray.tracking.records import RunStatus, start_records
from rlhf_ray.types import Stats

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "outputs" / "doctor-bed"
PAGE = ROOT / "docs" / "doctor-bed.md"
POLICIES = {"warn": (), "adapt": (ADAPT,), "rollback": (ROLLBACK,)}
LOCAL = ("generator=hf", "placement=local", "tracking.progress=off", "tracking.keep_rollouts=1")
BED = (
    "stages=[ppo]",
    "learning_rate=5e-4",
    "algorithm.num_iterations=30",
    "evaluation.every=2",
    "evaluation.num_prompts=96",
    "evaluation.samples_per_prompt=1",
    "tracking.num_samples=0",
    "checkpoint.every=2",
    "checkpoint.keep=20",
)
WEAK_PASSES = 20  # over a handful of pairs, so that the reward model learns something of them


def main(words: Sequence[str]) -> None:
    """Run what is asked for; results are added to outputs/doctor-bed/results.jsonl."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, action="append", help="may be given several times; left out: all")
    parser.add_argument("--seeds", default="1-5", help="such as 3, 1-5")
    parser.add_argument("--policy", choices=POLICIES, default="warn", help="what the doctor may do")
    parser.add_argument(
        "--until", type=int, default=40, help="runs end after this iteration, their settings being the same"
    )
    parser.add_argument("--models", type=Path, help="run directory whose SFT policy and reward model are taken")
    parser.add_argument(
        "--page", action="store_true", help="run nothing: judge again with the rules as they are, and write"
    )
    given = parser.parse_args(words)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not given.page:
        models = shared_models(given.models)
        for name in given.case or (CASES if given.policy == "warn" else TREATED):
            for seed in seeds_in(given.seeds):
                result = run_case(name, seed=seed, policy=given.policy, models=models, until=given.until)
                with (FOLDER / "results.jsonl").open("a") as file:
                    file.write(json.dumps(result) + "\n")
                sys.stdout.write(json.dumps(result) + "\n")
                sys.stdout.flush()
    results = read_jsonl(FOLDER / "results.jsonl")
    write_page([judged_again(result) for result in results] if given.page else results, PAGE)


def seeds_in(text: str) -> list[int]:
    """3, or 1-5 with both ends."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def shared_models(given: Path | None) -> Path:
    """The folder of base model, SFT policy and the reward models from all, 100 and 24 pairs."""
    folder = FOLDER / "models"
    for name in ("base-model", "sft-policy", "reward-model"):
        if given is not None and not (folder / name).exists():
            # without their cards: for this bed they have no history
            shutil.copytree(given / "artifacts" / name, folder / name, ignore=shutil.ignore_patterns("artifact.json"))
    if not (folder / "reward-model").exists():
        run_dir = FOLDER / "shared"
        stages(settings(run_dir, *LOCAL, "stages=[sft,reward_model]"), HEALTHY, until=0)
        shutil.copytree(run_dir / "artifacts", folder, dirs_exist_ok=True)
    for pairs in (24, 100):
        weak = folder / f"reward-model-{pairs}"
        if not weak.exists():
            run_dir = FOLDER / f"shared-{pairs}"
            groups = round(pairs / 0.9)  # a tenth is held out
            words = (
                "stages=[reward_model]",
                "learning_rate=5e-4",
                "reward_model.learning_rate=2e-3",
                f"model.path={folder}/sft-policy",
                f"reward_model.num_prompts={groups}",
                "reward_model.samples_per_prompt=2",
                f"reward_model.epochs={WEAK_PASSES}",
                "reward_model.batch_size=16",
            )
            stages(settings(run_dir, *LOCAL, *words), HEALTHY, until=0)
            shutil.copytree(run_dir / "artifacts" / "reward-model", weak)
    return folder


def run_case(name: str, *, seed: int, policy: str, models: Path, until: int) -> dict[str, Any]:
    """One run, and what the doctor said when."""
    case = CASES[name]
    run_dir = place(name, policy, seed)
    shutil.rmtree(run_dir, ignore_errors=True)
    reward = models / ("reward-model" if case.reward_model == "good" else f"reward-model-{case.reward_model}")
    given = (f"model.path={models}/sft-policy", f"seed={seed}")
    if "stages=[reward_model]" in case.words:
        given += ("reward_model.learning_rate=2e-3",)
    else:
        given += (f"reward.path={reward}",)
    began = time.monotonic()
    stages(settings(run_dir, *LOCAL, *BED, *given, *case.words, *POLICIES[policy]), case.kinds, until=until)
    seconds = time.monotonic() - began
    return {"case": name, "seed": seed, "policy": policy, "seconds": round(seconds, 1), **outcome(case, run_dir)}


def place(name: str, policy: str, seed: int) -> Path:
    """A run's directory."""
    return FOLDER / "runs" / f"{name}-{policy}-{seed}"


def judged_again(result: dict[str, Any]) -> dict[str, Any]:
    """A run that was only watched, by the rules as they are now: its metrics do not depend on them."""
    run_dir = place(result["case"], result["policy"], result["seed"])
    if result["policy"] != "warn" or not run_dir.exists():
        return result
    doctor = Doctor(RULES, dict(settings_of(json.loads((run_dir / "run.json").read_text())["config"])))
    told = [
        {"step": row["step"], "rule": finding.rule, "severity": finding.severity.word}
        for row in read_jsonl(run_dir / "metrics.jsonl")
        for finding in doctor.observe(row["stage"], row["step"], measured(row))
    ]
    return {**result, **outcome(CASES[result["case"]], run_dir), "told": told}


def settings_of(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers among the settings, by key."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from settings_of(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{key}", float(value)


def outcome(case: Case, run_dir: Path) -> dict[str, Any]:
    """Onset, the findings in the order they were told, and the gold score at the end."""
    rows = read_jsonl(run_dir / "metrics.jsonl")
    findings = run_dir / "findings.jsonl"
    told = read_jsonl(findings) if findings.exists() else []
    gold = [row["eval/gold_score"] for row in rows if row.get("eval/gold_score") is not None]
    return {
        "onset": case.onset(rows),
        "told": [
            {"step": record["step"], "rule": record["rule"], "severity": record["severity"]}
            for record in told
            if record["record"] == "finding"
        ],
        "actions": [
            {"step": record["step"], "kind": record["kind"], "policy": record["policy"]}
            for record in told
            if record["record"] == "action" and record["policy"] != "warn"
        ],
        "gold_best": max(gold, default=None),
        "gold_end": gold[-1] if gold else None,
        "kl_end": rows[-1].get("objective/kl"),
    }


def settings(run_dir: Path, *words: str) -> TrainConfig:
    """Checked settings of the default job with these words."""
    start = Start(folder=run_dir.parent, run_name="run", job=None, host=Host(num_cpus=2, num_gpus=0, has_vllm=True))
    return load([f"run_dir={run_dir}", *words], start).config


class EndingMonitor(Monitor):
    """Ends PPO after an iteration: what was to be seen has been, and the schedules are those of the whole run."""

    last: int

    def examine(self, state: PpoState, stats: Stats, *, checkpoints: Sequence[int], tracker: Tracker) -> Verdict:
        """See Monitor."""
        verdict = super().examine(state, stats, checkpoints=checkpoints, tracker=tracker)
        return verdict if state.step < self.last else replace(verdict, stop=f"all of {self.last} iterations")


def stages(config: TrainConfig, kinds: Mapping[type[Worker], type[Worker]], *, until: int) -> None:
    """The stages of the settings over a team in this process, with some of its workers replaced."""
    run_dir = Path(config.run_dir)
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    records = start_records(run_dir, config=asdict(config), command=(), seed=config.seed, source=ROOT, clock=time.time)
    display = PlainDisplay(StringIO(), clock=time.time)
    monitor = EndingMonitor(config, run_dir, rows=(), tell=display.message)
    monitor.last = until
    opened = open_team(SickRuntime(kinds), config, run_dir)
    ctx = Context(
        config=config,
        run_dir=run_dir,
        opened=opened,
        records=records,
        display=display,
        tracker=Tracker(config, records, tell=display.message),
        monitor=monitor,
    )
    policy = opened.base_model
    for stage in config.stages:
        match stage:
            case "sft":
                policy = sft_stage(ctx)
            case "reward_model":
                reward_model_stage(ctx, policy)
            case "ppo":
                assert config.reward.path is not None
                ppo_stage(ctx, policy=policy, reward=Path(config.reward.path))
    monitor.close()
    records.finish(RunStatus.FINISHED, error=None)


if __name__ == "__main__":
    main(sys.argv[1:])
