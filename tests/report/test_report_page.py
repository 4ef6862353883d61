"""report.html as text: what is on it, and that no text of a run becomes markup."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_runs import write_sick_run

from rlhf_ray.doctor.__main__ import main as doctor
from rlhf_ray.doctor.rules import RULES
from rlhf_ray.report.__main__ import main
from rlhf_ray.report.chart_table import CHARTS
from rlhf_ray.report.material import read_material
from rlhf_ray.report.page import report_page

LOGS = Path(__file__).parents[1] / "doctor" / "logs"
HOSTILE = (
    "</script><script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
    "&amp; 'q' \"q\" {{ 7*7 }}"
)
SCRIPTS = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)


class Page(HTMLParser):
    """The tags of a page, and its text outside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    def told(self) -> str:
        return " ".join("".join(self.text).split())


def page_of(path: Path) -> str:
    return report_page(read_material(path, RULES, {}))


@pytest.fixture(scope="module")
def sick_page(tmp_path_factory) -> str:
    return page_of(write_sick_run(tmp_path_factory.mktemp("made") / "sick"))


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory) -> str:
    return page_of(write_sick_run(tmp_path_factory.mktemp("made") / "hostile", text=HOSTILE))


def figures_of(html: str) -> list[dict]:
    return json.loads(SCRIPTS.findall(html)[0])


def test_verdict_findings_and_actions_are_told(sick_page):
    told = Page(sick_page).told()
    assert "critical from ppo step" in told
    assert "KL high" in told
    assert "probable reward hacking" in told
    assert "raise algorithm.kl_coef from 0.05" in told
    assert "told while it ran" in told
    assert "rollback at ppo step 14" in told


def test_every_finding_is_a_card_that_the_time_line_leads_to(sick_page):
    tags = Page(sick_page).tags
    cards = {
        attributes["id"]
        for tag, attributes in tags
        if tag == "details" and "finding" in (attributes.get("class") or "")
    }
    marks = {
        (attributes["href"] or "")[1:]
        for tag, attributes in tags
        if tag == "a" and "mark" in (attributes.get("class") or "")
    }
    assert len(cards) > 2
    assert marks == cards


def test_findings_are_marked_on_the_curves_at_their_first_step(sick_page):
    marks = [trace for figure in figures_of(sick_page) for trace in figure["data"] if trace.get("meta") == "finding"]
    on_kl = [mark for mark in marks if mark["name"] == "critical: KL high"]
    assert on_kl
    assert 11 <= on_kl[0]["x"][0] <= 20
    curve = next(
        t for f in figures_of(sick_page) for t in f["data"] if t["name"] == "mean of the batch" and t["y"][-1] == 46.0
    )
    assert on_kl[0]["y"][0] == curve["y"][curve["x"].index(on_kl[0]["x"][0])]


def test_curves_of_every_stage_are_drawn_from_the_directory(sick_page):
    page = Page(sick_page)
    titles = page.told()
    for title in ("Supervised fine-tuning", "Reward-model score", "Distance from the start", "Time of an iteration"):
        assert title in titles
    assert len(figures_of(sick_page)) == sum(attributes.get("class") == "plot" for _, attributes in page.tags)


def test_the_ceiling_is_drawn_whichever_stage_recorded_it(tmp_path):
    run = write_sick_run(tmp_path / "run")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    told = [row | {"reward_model/score_ceiling": 1.25} if row["stage"] == "ppo" else row for row in rows]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    (scores,) = [f for f in figures_of(page_of(run)) if f["layout"].get("annotations")]
    assert [shape["y0"] for shape in scores["layout"]["shapes"] if shape["type"] == "line"] == [1.25]
    assert scores["layout"]["yaxis"]["title"]["text"] == "score"


def test_proxy_and_gold_are_over_the_root_of_the_kl(sick_page):
    (figure,) = [f for f in figures_of(sick_page) if f["layout"]["xaxis"]["title"]["text"].endswith("sqrt(KL)")]
    proxy, gold = figure["data"]
    assert proxy["x"][0] == gold["x"][0] == pytest.approx((0.3 * 2) ** 0.5)
    assert (proxy["name"], gold["name"]) == ("reward model (proxy)", "gold")


def test_answers_are_side_by_side_with_the_most_overrated_prompt_first(sick_page):
    told = Page(sick_page).told()
    # the last scores are 0, 2 and 4, gold is .5
    gaps = re.findall(r"proxy minus gold ([+-][\d.]+)", told)
    assert gaps == ["+3.50", "+1.50", "-0.50"]
    first = told[told.index("proxy minus gold +3.50") :]
    assert first.index("iteration 0") < first.index("iteration 10") < first.index("iteration 20")


def test_answers_without_gold_are_not_said_to_be_sorted_by_it(tmp_path):
    run = write_sick_run(tmp_path / "run")
    for path in (run / "samples").glob("step-*.json"):
        rows = [{**row, "gold": None, "answer": " "} for row in json.loads(path.read_text())]
        path.write_text(json.dumps(rows))
    told = Page(page_of(run)).told()
    assert "first those whose last answer the reward model rates highest" in told
    assert "furthest above gold" not in told
    assert "(empty)" in told


def test_only_the_gold_score_is_said_not_to_be_trained_on():
    titles = {line.metric: chart.title for chart in CHARTS["ppo"] for line in chart.lines}
    assert titles["eval/gold_score"] == "Gold score (not trained on)"
    assert titles["eval/win_rate"] == "Win rate against the start (by gold, else by the reward model itself)"


def test_the_page_needs_no_network(sick_page):
    page = Page(sick_page)
    links = [value for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href")]
    assert [link for link in links if not (link or "").startswith(("#", "data:"))] == []
    assert "default-src 'none'" in next(a["content"] for _, a in page.tags if a.get("http-equiv"))


def test_hostile_text_stays_text(hostile_page, sick_page):
    hostile, plain = Page(hostile_page), Page(sick_page)
    assert hostile.count("script") == plain.count("script") == 3
    assert hostile.count("img") == 0
    assert HOSTILE.split("&amp;")[0] in "".join(hostile.text)
    assert "{{ 7*7 }}" in "".join(hostile.text)
    assert not any(name.startswith("on") for _, attributes in hostile.tags for name in attributes)


def test_figures_hold_no_markup_of_the_run(hostile_page):
    block = SCRIPTS.findall(hostile_page)[0]
    assert "<" not in block
    names = [trace["name"] for figure in json.loads(block) for trace in figure["data"] if "name" in trace]
    assert not [name for name in names if "<" in name]


def test_another_trainers_log_has_a_page(tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main([str(LOGS / "divergence.csv"), "--output", str(page)]) == 0
    told = Page(page.read_text()).told()
    assert "ritical from ppo step 4000" in told
    assert "Mean Reward taken for objective/scores" in told
    assert capsys.readouterr().out == f"{page}\n"


def test_the_doctor_writes_the_same_page_and_keeps_its_exit_codes(tmp_path, capsys):
    page, log = tmp_path / "page.html", str(LOGS / "divergence.csv")
    assert doctor([log, "--html", str(page)]) == 2  # critical
    assert "ritical from ppo step 4000" in Page(page.read_text()).told()
    assert doctor([log, log, "--html", str(page)]) == 3
    assert doctor([str(tmp_path / "nowhere"), "--html", str(page)]) == 3
    assert "is the page of one PATH, and 2 are given" in capsys.readouterr().err


def test_of_several_logs_the_page_says_which_it_shows(tmp_path, capsys):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes((LOGS / "divergence.csv").read_bytes())
    assert main([str(tmp_path)]) == 0
    told = capsys.readouterr().err
    assert f"read: {tmp_path / 'a.csv'}, the largest of 2 logs" in told
    assert "not read: b.csv" in told


def test_a_directory_gets_its_page_inside(tmp_path):
    run = write_sick_run(tmp_path / "run")
    assert main([str(run)]) == 0
    assert (run / "report.html").stat().st_size > 3_000_000


@pytest.mark.parametrize(
    "name", ["run.json", "findings.jsonl", "lineage.json", "samples/step-000010.json", "rollouts/step-000003.parquet"]
)
def test_a_damaged_record_is_told_and_the_rest_is_shown(tmp_path, name):
    run = write_sick_run(tmp_path / "run")
    (run / name).write_bytes(b"\x00{broken\n\x01\n")
    told = Page(page_of(run)).told()
    assert f"{Path(name).name} cannot be read" in told
    assert "critical from ppo step" in told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run.json", {"config": [1], "git": {"commit": 5}}),
        ("lineage.json", {"made": [{"name": "policy", "digest": 5}]}),
        ("summary.json", {"seconds": {"ppo": "long"}}),
        ("summary.json", [1]),
    ],
)
def test_a_record_of_another_shape_is_left_out_and_told(tmp_path, name, value):
    run = write_sick_run(tmp_path / "run")
    (run / name).write_text(json.dumps(value))
    told = Page(page_of(run)).told()
    assert f"{name} is not as a run writes it: left out" in told
    assert "critical from ppo step" in told


def test_lines_that_lack_what_they_need_are_left_out(tmp_path):
    run = write_sick_run(tmp_path / "run")
    with (run / "findings.jsonl").open("a") as file:
        file.write('{"record": "finding", "kind": "lost_eos"}\n{"record": "action", "policy": "stop"}\n')
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"stage": "ppo", "objective/kl": 1.0}\n{"stage": "ppo", "step": "x", "objective/kl": 1.0}\n')
    (run / "samples" / "step-last.json").write_text("[]")
    told = Page(page_of(run)).told()
    assert "1 findings of findings.jsonl are not as the doctor writes them: left out" in told
    assert "rollback at ppo step 14" in told


@pytest.mark.parametrize("left_out", ["findings.jsonl", "lineage.json", "samples", "rollouts"])
def test_what_is_not_there_is_left_out(tmp_path, left_out):
    run = write_sick_run(tmp_path / "run")
    (run / left_out).rename(tmp_path / "away")
    assert "critical from ppo step" in Page(page_of(run)).told()


def test_what_cannot_be_read_is_refused_in_words(tmp_path, capsys):
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err
    run = write_sick_run(tmp_path / "run")
    assert main([str(run), "--output", str(tmp_path / "no" / "folder.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_run_leaves_its_report(finished_run):
    page = Page((finished_run / "report.html").read_text())
    told = page.told()
    assert "finished" in told
    assert "Reward-model score" in told
    assert "Answers to the same prompts" in told
    assert "sft-policy" in told


def test_neither_torch_nor_ray_is_loaded():
    heavy = "('torch', 'ray', 'vllm', 'transformers')"
    code = f"import sys, rlhf_ray.report.__main__; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
