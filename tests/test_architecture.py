"""The package follows its limits and layers, and every rule is shown to catch code that breaks it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import architecture_rules as rules
import pytest
from architecture_rules import Source

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "ray", "vllm", "transformers")


def sources(folder: str) -> list[Source]:
    return [
        Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]


PACKAGE = sources("rlhf_ray")
TESTS = sources("tests")
ENTRY_POINTS = [source.path[:-3].replace("/", ".") for source in PACKAGE if source.is_entry_point]


@dataclass(frozen=True, kw_only=True)
class Case:
    rule: Callable[[Source], Iterator[str]]
    bad: tuple[str, ...]
    good: str
    path: str = "rlhf_ray/data/rows.py"  # where the examples are taken to be


def body(lines: int) -> str:
    return "def iteration():\n" + "    step()\n" * (lines - 1)


NESTED = "def f():\n for a in b:\n  with c:\n   if d:\n    {}:\n     if e:\n      g()\n"
CASES = (
    Case(rule=rules.long_files, bad=("x\n" * 401,), good="x\n" * 400),
    Case(rule=rules.long_functions, bad=(body(61), "async " + body(61)), good=body(60)),
    Case(
        rule=rules.deep_nesting,
        bad=(NESTED.format("while x"), NESTED.format("try") + "    finally:\n     h()\n"),
        good="def f():\n for a in b:\n  with c:\n   if d:\n    g()\n   elif e:\n    if h:\n     i()\n",
    ),
    Case(
        rule=rules.many_positional_parameters,
        bad=("def f(a, b, c, d, e, f, g): g()", "def f(a, b, /, c, d, e, f, g): g()"),
        good="class A:\n    def f(self, a, b, c, d, e, f, *, g): g()",
    ),
    Case(
        rule=rules.broad_excepts,
        bad=(
            "try:\n f()\nexcept:\n g()",
            "try:\n f()\nexcept Exception as error:\n log(error)",
            "try:\n f()\nexcept (OSError, BaseException):\n g()",
            "with contextlib.suppress(Exception):\n f()",
        ),
        good="try:\n f()\nexcept OSError:\n g()\nexcept BaseException:\n h()\n raise\nwith suppress(OSError):\n f()",
    ),
    Case(rule=rules.stray_prints, bad=("def f():\n print(1)",), good="def f():\n show(1)"),
    Case(
        rule=rules.stray_prints,
        path="rlhf_ray/train.py",
        bad=("print(1)",),
        good="def main():\n print(1)\nif __name__ == '__main__':\n main()",
    ),
    Case(
        rule=rules.module_state,
        bad=(
            "cache = {}",
            "seen: set[str] = set()",
            "queue = collections.deque()",
            "def f():\n global step\n step = 1",
            "NAMES = []\ndef f():\n NAMES.append(1)",
            "TABLE = {}\ndef f():\n TABLE[1] = 2",
        ),
        good="_TABLE: dict[str, int] = {'a': 1}\nlimit = 3\ndef f():\n own = []\n own.append(_TABLE['a'])",
    ),
    Case(
        rule=rules.missing_docstrings,
        bad=(
            "x = 1",
            '"""M."""\ndef f(): g()',
            '"""M."""\nclass A:\n x = 1',
            '"""M."""\nclass P(Protocol):\n """P."""\n def f(self): g()',
        ),
        good='"""M."""\nclass A:\n """A."""\n def f(self): g()\ndef _private(): g()',
    ),
    Case(
        rule=rules.large_protocols,
        bad=("class P(Protocol[T]):\n" + "".join(f" def f{i}(self): g()\n" for i in range(7)),),
        good="class P(typing.Protocol):\n" + "".join(f" def f{i}(self): g()\n" for i in range(6)),
    ),
    Case(
        rule=rules.stubs,
        bad=(
            "class A(Error):\n pass",
            "def f(): ...",
            "def f():\n raise NotImplementedError('later')",
            'def f():\n """Later."""',
        ),
        good='class A(Error):\n """A."""\nclass P(Protocol):\n def f(self):\n  """F."""\n',
    ),
    Case(rule=rules.attribute_probes, bad=("if hasattr(a, 'b'): c()",), good="if a.b is not None: c()"),
    Case(
        rule=rules.ray_outside_actors,
        path="rlhf_ray/loops/ppo.py",
        bad=("import ray", "def f():\n from ray.util import placement_group", "ray.get(x)"),
        good="import rayon\nfrom rlhf_ray import types\nbackend = 'ray'",
    ),
    Case(rule=rules.ray_outside_actors, path="rlhf_ray/loops/ppo.py", bad=("import ray.util as u",), good="x = 1"),
    Case(
        rule=rules.effects_in_algorithms,
        path="rlhf_ray/algorithms/gae.py",
        bad=("import os.path", "from pathlib import Path", "open('x')", "torch.manual_seed(1)", "np.random.rand()"),
        good="import torch\ndef f(x):\n return torch.cumsum(x, 0)",
    ),
    Case(
        rule=rules.long_iteration,
        path="rlhf_ray/loops/ppo.py",
        bad=(body(51), body(3) + "    if a: b()\n" * 4, body(3) + "    a = b if c else d\n" * 4, "def step(): f()"),
        good=body(47) + "    if a: b()\n" * 3,
    ),
    Case(
        rule=rules.unexplained_suppressions,
        bad=(
            "x = 1  # noqa",
            "x = 1  # noqa: E501",
            "x = 1  # noqa: any old reason",
            "x = 1  # type: ignore",
            "x = 1  # type: ignore[arg-type]",
            "x = 1  # type: ignore  # some good reason",
            "# ruff: noqa",
            "# mypy: ignore-errors",
        ),
        good="x = 1  # noqa: E501, B008  one table\ny = 2  # type: ignore[arg-type]  # checked above\n# a remark",
    ),
    Case(
        rule=rules.unfinished_marks,
        bad=("x = 1  # " + "TO" + "DO later", 'def f():\n """' + "FIX" + 'ME."""'),
        good="x = 1  # todos are a kind of dish",
    ),
)
TEST_CASES = (
    Case(rule=rules.mock_libraries, bad=("from unittest import mock", "import unittest.mock"), good="import unittest"),
    Case(
        rule=rules.unexplained_skips,
        bad=("@pytest.mark.skip\ndef f(): g()", "@pytest.mark.skipif(True)\ndef f(): g()"),
        good="@pytest.mark.skipif(not gpu, reason='needs CUDA')\ndef f(): g()",
    ),
)
IN_TESTS_TOO = (rules.long_files, rules.unexplained_suppressions, rules.unfinished_marks)


def offences(rule: Callable[[Source], Iterator[str]], files: list[Source]) -> list[str]:
    return [f"{source.path}:{offence}" for source in files for offence in rule(source)]


@pytest.mark.parametrize("rule", dict.fromkeys(case.rule for case in CASES), ids=lambda rule: rule.__name__)
def test_package_follows(rule: Callable[[Source], Iterator[str]]) -> None:
    assert not offences(rule, PACKAGE), "\n".join(offences(rule, PACKAGE))


@pytest.mark.parametrize("rule", [*IN_TESTS_TOO, *(case.rule for case in TEST_CASES)], ids=lambda rule: rule.__name__)
def test_tests_follow(rule: Callable[[Source], Iterator[str]]) -> None:
    assert not offences(rule, TESTS), "\n".join(offences(rule, TESTS))


@pytest.mark.parametrize("case", CASES + TEST_CASES, ids=lambda case: case.rule.__name__)
def test_rule_tells_bad_from_good(case: Case) -> None:
    for text in case.bad:
        assert list(case.rule(Source(case.path, text))), f"let pass:\n{text}"
    assert not list(case.rule(Source(case.path, case.good)))


def test_the_ppo_loop_is_where_the_rules_look_for_it() -> None:
    assert "rlhf_ray/loops/ppo.py" in [source.path for source in PACKAGE]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_layers_hold() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_broken_layer_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    for name, text in (("__init__", ""), ("low", "import small.high"), ("high", "")):
        (tmp_path / "small" / f"{name}.py").write_text(text)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_package = "small"\n'
        '[[tool.importlinter.contracts]]\nname = "layers"\ntype = "layers"\nlayers = ["small.high", "small.low"]\n'
    )
    result = lint_imports(tmp_path)
    assert result.returncode == 1
    assert "small.low is not allowed to import small.high" in result.stdout


def loaded_by(module: str, *, watched: tuple[str, ...]) -> str:
    program = f"import {module}, sys; print(*sorted(set({watched!r}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_the_program_is_an_entry_point() -> None:
    assert "rlhf_ray.train" in ENTRY_POINTS


@pytest.mark.parametrize("module", ENTRY_POINTS)
def test_entry_points_import_nothing_heavy(module: str) -> None:
    assert loaded_by(module, watched=HEAVY) == ""


def test_a_heavy_import_is_noticed() -> None:
    assert loaded_by("json", watched=("decimal", "json")) == "json"
