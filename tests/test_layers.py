import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("safety", "sandbox", "tools", "server")


def imports(file: Path) -> Iterator[str]:
    """Yield the modules of the package that a file imports, from the top of the package."""
    package = file.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = package[: len(package) - node.level + 1]
            if node.module:
                yield ".".join((*above, node.module))
            else:
                yield from (".".join((*above, name.name)) for name in node.names)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            assert not any(name.split(".")[0] == "toolbox_mcp" for name in names), (
                f"{file}:{node.lineno} imports absolutely"
            )


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_go_down(layer: str) -> None:
    above = LAYERS[LAYERS.index(layer) + 1 :]
    for file in (ROOT / layer).rglob("*.py"):
        for module in imports(file):
            assert module.split(".")[0] not in above, f"{file} imports {module}"


@pytest.mark.parametrize("layer", LAYERS[:-1])
def test_nothing_below_the_server_reads_the_environment_or_the_command_line(layer: str) -> None:
    for file in (ROOT / layer).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used = f"{node.value.id}.{node.attr}"
                # The child that a spawner starts reads what its parent gave it, which is no setting.
                child = file.name.endswith("_main.py") or file.name in CHILDREN
                assert child or used not in ("os.environ", "os.getenv", "sys.argv"), f"{file}:{node.lineno}: {used}"


CHILDREN: frozenset[str] = frozenset({"self_test.py", "zygote.py", "snippet.py"})


def test_no_module_has_a_name_that_says_nothing() -> None:
    nothing = {"utils.py", "util.py", "helpers.py", "common.py", "manager.py", "misc.py"}
    found = [file for layer in LAYERS for file in (ROOT / layer).rglob("*.py") if file.name in nothing]
    assert not found
