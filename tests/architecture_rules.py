"""The limits that keep the code readable: functions from a source file to its offences ("line: what is wrong")."""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_NESTING = 4
MAX_POSITIONAL = 6
MAX_PROTOCOL_METHODS = 6
MAX_ITERATION_LINES = 50
MAX_ITERATION_BRANCHES = 3

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.match_case, ast.ExceptHandler)
DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
CONTAINERS = {"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict", "bytearray"}
MUTATORS = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard", "clear"}
BROAD = {"Exception", "BaseException"}
EFFECT_MODULES = {"os", "sys", "io", "pathlib", "logging", "time", "datetime", "random", "json", "pickle", "subprocess"}
EFFECT_NAMES = {"open", "print", "input"}
EFFECT_ATTRIBUTES = {"manual_seed", "seed", "save", "load", "random"}
CONSTANT = re.compile(r"_{0,2}[A-Z][A-Z0-9_]*|__all__")
DIRECTIVE = re.compile(
    r"#\s*(noqa(: [A-Z]+\d+(, ?[A-Z]+\d+)*)?|type:\s*ignore(\[[a-z0-9, -]+\])?|(fmt|ruff|mypy|pragma|pyright):.*)"
)
BLANKET = re.compile(r"#\s*(noqa(?!: [A-Z])|type:\s*ignore(?!\[)|(ruff|mypy|pyright):)")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


@dataclass(frozen=True)
class Source:
    path: str  # from the repository's root
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)

    @property
    def comments(self) -> list[tuple[int, str]]:
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]

    @property
    def is_entry_point(self) -> bool:
        return any(isinstance(node, ast.If) and "__name__" in ast.dump(node.test) for node in self.tree.body)


def called(node: ast.expr) -> str:
    """The last name of what is called or named: deque for collections.deque(...)."""
    match node:
        case ast.Call(func=func):
            return called(func)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def names_any(nodes: Iterable[ast.AST], names: set[str]) -> bool:
    return any(called(node) in names for node in nodes if isinstance(node, ast.expr))


def imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names):
            return [f"{module}.{alias.name}" for alias in names]
    return []


def is_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any("Protocol" in ast.dump(base) for base in node.bases)


def num_lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def depth(node: ast.AST) -> int:
    """Blocks inside blocks; an elif counts with its if, a function inside starts anew."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child.col_offset == node.col_offset
        deepest = max(deepest, depth(child) + (isinstance(child, BLOCKS) and not is_elif))
    return deepest


def long_files(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    if lines > MAX_FILE_LINES:
        yield f"1: {lines} lines"


def long_functions(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, FUNCTIONS) and num_lines(node) > MAX_FUNCTION_LINES:
            yield f"{node.lineno}: {node.name} has {num_lines(node)} lines"


def deep_nesting(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, FUNCTIONS) and depth(node) > MAX_NESTING:
            yield f"{node.lineno}: {node.name} nests {depth(node)} deep"


def many_positional_parameters(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, FUNCTIONS):
            names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args) if arg.arg not in ("self", "cls")]
            if len(names) > MAX_POSITIONAL:
                yield f"{node.lineno}: {node.name} takes {len(names)} positional parameters"


def broad_excepts(source: Source) -> Iterator[str]:
    """Cleaning up after any error is fine where the handler ends in a raise; swallowing it is not."""
    for node in source.nodes:
        match node:
            case ast.ExceptHandler(type=None):
                yield f"{node.lineno}: bare except"
            case ast.ExceptHandler(type=ast.expr() as kind, body=[*_, last]):
                if not isinstance(last, ast.Raise) and names_any(ast.walk(kind), BROAD):
                    yield f"{node.lineno}: swallows every error"
            case ast.Call(args=kinds) if called(node) == "suppress" and names_any(kinds, BROAD):
                yield f"{node.lineno}: swallows every error"


def stray_prints(source: Source) -> Iterator[str]:
    if source.path.startswith("rlhf_ray/tracking/") or (source.path.count("/") == 1 and source.is_entry_point):
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{node.lineno}: print"


def module_state(source: Source) -> Iterator[str]:
    held: set[str] = set()
    for node in source.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            is_call = isinstance(node.value, ast.Call) and called(node.value) in CONTAINERS
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            if isinstance(node.value, DISPLAYS) or is_call:
                held |= names
                if not all(CONSTANT.fullmatch(name) for name in names):
                    yield f"{node.lineno}: module-level {ast.unparse(targets[0])} can change"
    for node in source.nodes:
        match node:
            case ast.Global():
                yield f"{node.lineno}: global"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=verb)) if name in held and verb in MUTATORS:
                yield f"{node.lineno}: {name}.{verb} changes a constant"
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()) if name in held:
                yield f"{node.lineno}: {name}[...] changes a constant"


def missing_docstrings(source: Source) -> Iterator[str]:
    if source.tree.body and not ast.get_docstring(source.tree):
        yield "1: the module has no docstring"
    protocols = [node for node in source.tree.body if is_protocol(node)]
    for node in [*source.tree.body, *(method for protocol in protocols for method in ast.iter_child_nodes(protocol))]:
        named = isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_")
        if named and not ast.get_docstring(node):
            yield f"{node.lineno}: {node.name} has no docstring"


def large_protocols(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if is_protocol(node):
            methods = [child for child in node.body if isinstance(child, FUNCTIONS)]
            if len(methods) > MAX_PROTOCOL_METHODS:
                yield f"{node.lineno}: {node.name} has {len(methods)} methods"


def stubs(source: Source) -> Iterator[str]:
    for node in source.nodes:
        match node:
            case ast.Pass():
                yield f"{node.lineno}: pass"
            case ast.Expr(value=ast.Constant(value=value)) if value is Ellipsis:
                yield f"{node.lineno}: ..."
            case ast.Name(id="NotImplementedError"):
                yield f"{node.lineno}: NotImplementedError"
    for node in source.tree.body:  # a method may have nothing to do where an interface asks for it
        match node:
            case ast.FunctionDef(name=name, body=[ast.Expr(value=ast.Constant())]):
                yield f"{node.lineno}: {name} does nothing"


def attribute_probes(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Call) and called(node) == "hasattr":
            yield f"{node.lineno}: hasattr"


def ray_outside_actors(source: Source) -> Iterator[str]:
    if source.path.startswith("rlhf_ray/actors/"):
        return
    for node in source.nodes:
        named = isinstance(node, ast.Name) and node.id == "ray"
        if named or any(name.split(".")[0] == "ray" for name in imported(node)):
            yield f"{node.lineno}: names ray"


def effects_in_algorithms(source: Source) -> Iterator[str]:
    if not source.path.startswith("rlhf_ray/algorithms/"):
        return
    for node in source.nodes:
        match node:
            case ast.Name(id=name) if name in EFFECT_NAMES:
                yield f"{node.lineno}: {name}"
            case ast.Attribute(attr=name) if name in EFFECT_ATTRIBUTES:
                yield f"{node.lineno}: .{name}"
            case ast.Import() | ast.ImportFrom() if EFFECT_MODULES & {name.split(".")[0] for name in imported(node)}:
                yield f"{node.lineno}: imports {', '.join(imported(node))}"


def long_iteration(source: Source) -> Iterator[str]:
    if source.path != "rlhf_ray/loops/ppo.py":
        return
    found = [node for node in source.nodes if isinstance(node, FUNCTIONS) and node.name == "iteration"]
    if not found:
        yield "1: no function named iteration"
    for node in found:
        branches = sum(isinstance(inner, BRANCHES) for inner in ast.walk(node))
        if num_lines(node) > MAX_ITERATION_LINES or branches > MAX_ITERATION_BRANCHES:
            yield f"{node.lineno}: iteration has {num_lines(node)} lines and {branches} branches"


def unexplained_suppressions(source: Source) -> Iterator[str]:
    for line, comment in source.comments:
        if not DIRECTIVE.match(comment):
            continue
        reason = re.findall(r"[A-Za-z]{2,}", DIRECTIVE.sub("", comment))
        if BLANKET.match(comment) or len(reason) < 2:
            yield f"{line}: {comment} names no rule or no reason"


def unfinished_marks(source: Source) -> Iterator[str]:
    for line, comment in source.comments:
        if UNFINISHED.search(comment):
            yield f"{line}: {comment}"
    for node in source.nodes:
        documented = isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Module))
        if documented and UNFINISHED.search(ast.get_docstring(node) or ""):
            yield f"{node.body[0].lineno}: unfinished docstring"


def mock_libraries(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if any("mock" in name for name in imported(node)):
            yield f"{node.lineno}: imports {', '.join(imported(node))}"


def has_reason(mark: ast.Attribute, tree: ast.Module) -> bool:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.func is mark)
    return any(keyword.arg == "reason" for call in calls for keyword in call.keywords)


def unexplained_skips(source: Source) -> Iterator[str]:
    for node in source.nodes:
        names_skip = isinstance(node, ast.Attribute) and node.attr in ("skip", "skipif", "xfail")
        if names_skip and ast.unparse(node.value) == "pytest.mark" and not has_reason(node, source.tree):
            yield f"{node.lineno}: {node.attr} without a reason"
