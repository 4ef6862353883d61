import numpy as np
from matplotlib.image import imread

from rlhf_ray.tracking.picture import draw_seeds, draw_training_curves

BLUE, VERMILION, GREEN, PINK = (0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167)


def run(seed, *, gold=True):
    rng = np.random.default_rng(seed)
    rows = [{"stage": "sft", "step": 1, "sft/loss": 3.0}]
    for step in range(21):
        row = {"stage": "ppo", "step": step}
        if step:
            row |= {
                "objective/scores": 0.1 * step + rng.normal() * 0.05,
                "objective/scores_p05": 0.1 * step - 1.0,
                "objective/scores_p95": 0.1 * step + 1.0,
                "objective/kl": 0.4 * step,
                "response/length_mean": 15.0 + 0.2 * step,
                "val/eos_rate": 0.9 + 0.005 * step,
            }
        if step % 5 == 0 and gold:
            row["eval/gold_score"] = 0.04 * step
        rows.append(row)
    return rows


def pixels_of(path, colour):
    image = np.round(imread(path)[..., :3] * 255).astype(int)
    return int((np.abs(image - np.array(colour)).max(axis=-1) <= 2).sum())


def test_a_run_is_drawn_with_a_curve_in_every_panel(tmp_path):
    path = tmp_path / "pictures" / "curves.png"
    draw_training_curves(run(1), path)
    assert imread(path).shape[:2] == (1080, 1650)
    for colour in (BLUE, VERMILION, GREEN, PINK):
        assert pixels_of(path, colour) > 500
    assert [found.name for found in path.parent.iterdir()] == ["curves.png"]


def test_the_same_rows_give_the_same_picture(tmp_path):
    for name in ("a.png", "b.png"):
        draw_training_curves(run(1), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_without_a_gold_scorer_its_panel_stays_without_a_curve(tmp_path):
    draw_training_curves(run(1, gold=False), tmp_path / "curves.png")
    assert pixels_of(tmp_path / "curves.png", GREEN) == 0


def test_seeds_are_laid_over_each_other_in_different_colours(tmp_path):
    draw_seeds({seed: run(seed) for seed in (1, 2, 3)}, tmp_path / "seeds.png")
    for colour in (BLUE, VERMILION, GREEN):
        assert pixels_of(tmp_path / "seeds.png", colour) > 500
    assert pixels_of(tmp_path / "seeds.png", PINK) == 0


def test_nothing_measured_is_said_and_not_an_error(tmp_path):
    draw_training_curves([{"stage": "ppo", "step": 1, "objective/scores": None}], tmp_path / "curves.png")
    draw_seeds({1: []}, tmp_path / "seeds.png")
    for name in ("curves.png", "seeds.png"):
        assert pixels_of(tmp_path / name, BLUE) == 0
