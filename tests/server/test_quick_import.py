import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters

SERVER = "import toolbox_mcp.server.commands.serve, toolbox_mcp.server.transports.stdio.serve"


def python(text):
    """Return what a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def quick(inside, after, how="web=False"):
    lines = [
        "import gc, sys",
        "from toolbox_mcp.server.sdk_import import quick_imports",
        f"with quick_imports({how}):",
    ]
    return python("\n".join([*lines, f"    {inside}", after]))


@pytest.mark.parametrize(
    "module",
    [
        "mcp.client", "mcp.server.mcpserver", "httpx2", "tiktoken", "httpx", "regex", "yaml", "uvicorn", "sse_starlette",
        "starlette", "cryptography", "mcp.server.streamable_http_manager", "mcp.server.auth.routes",
        "mcp_types._v2026_07_28",
    ],
)  # fmt: skip
def test_a_server_on_pipes_does_not_import_what_it_does_not_use(module):
    assert quick(SERVER, f"print({module!r} in sys.modules)") == ["False"]


def test_every_public_name_of_the_sdk_is_there_at_first_use():
    after = """
import mcp, mcp.server
from mcp import *
from mcp.server import MCPServer, Server, ServerRequestContext
import mcp.server.lowlevel.server as low
print(len([name for name in mcp.__all__ if name not in globals()]), Server is low.Server is mcp.server.Server)
print(len([name for name in mcp.server.__all__ if not hasattr(mcp.server, name)]), hasattr(mcp, "nonsense"))
"""
    assert quick(SERVER, after) == ["0", "True", "0", "False"]


def test_a_name_of_its_own_is_imported_from_where_it_is_defined():
    after = "import mcp.server.context as c; print(ServerRequestContext is c.ServerRequestContext, 'mcp.client' in sys.modules)"
    assert quick("from mcp.server import ServerRequestContext", after) == ["True", "False"]


def test_threads_that_use_a_package_first_at_a_time_all_find_its_names():
    after = """
import threading
import mcp
sys.setswitchinterval(1e-6)
together, found = threading.Barrier(8), []
def use():
    together.wait()
    found.append(getattr(mcp, "Client", None))
threads = [threading.Thread(target=use) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(found), len(set(found)), None in found)
"""
    assert quick(SERVER, after) == ["8", "1", "False"]


def test_a_package_that_fails_at_first_use_fails_in_the_same_way_at_the_next():
    after = """
import mcp
sys.modules["mcp.client"] = None
for _ in range(2):
    try: mcp.Client
    except ImportError as e: print(type(e).__name__)
"""
    assert quick(SERVER, after) == ["ModuleNotFoundError"] * 2


def test_models_put_off_are_built_by_their_first_use():
    after = """
from mcp_types.methods import validate_client_request
from mcp_types._v2025_11_25 import CallToolRequest
before = CallToolRequest.__pydantic_complete__
validate_client_request("tools/call", "2025-11-25", {"name": "echo"})
try:
    validate_client_request("tools/call", "2025-11-25", {"name": 5})
except ValueError:
    print(before, CallToolRequest.__pydantic_complete__)
"""
    assert quick(SERVER, after) == ["False", "True"]


MODELS = """
import json, pydantic, mcp_types.methods, mcp_types.jsonrpc, mcp_types._v2025_11_25, mcp_types._v2026_07_28

def below(model):
    for each in model.__subclasses__():
        yield each
        yield from below(each)

def plain(value):
    # typing answers Literal["a", "b"] with an equal one that it knows, so their order says who came first.
    if isinstance(value, dict):
        return {key: sorted(map(str, item)) if key == "enum" else plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value

for model in sorted({*below(pydantic.BaseModel)}, key=lambda model: (model.__module__, model.__qualname__)):
    if model.__module__.startswith("mcp_types") and not model.__pydantic_generic_metadata__["parameters"]:
        schema = plain(model.model_json_schema())
        fields = [(name, field.alias, field.is_required(), field.exclude) for name, field in model.model_fields.items()]
        names = sorted(name for name in vars(model) if not name.startswith("_abc"))
        said = model.__module__, model.__qualname__, fields, names, sorted(model.__class_vars__), schema
        print(json.dumps(said, sort_keys=True, default=str).replace(" ", ""))
"""


@pytest.mark.slow
def test_every_model_of_the_protocol_put_off_becomes_the_one_it_would_have_been():
    early, late = python(MODELS), quick(SERVER, MODELS)
    assert len(early) > 400
    assert late == early


def test_a_model_that_its_module_completes_has_its_fields_before_its_first_use():
    after = """
from mcp_types import CallToolRequestParams as Params
print(Params.__pydantic_complete__, Params.model_fields["input_responses"].alias)
"""
    assert quick(SERVER, after) == ["False", "inputResponses"]


def test_fields_are_collected_at_their_first_use_and_once_for_all_threads():
    after = """
import threading
from mcp_types._v2025_11_25 import Tool
before = type(vars(Tool)["__pydantic_fields__"]).__name__
sys.setswitchinterval(1e-6)
together, found = threading.Barrier(8), []
def use():
    together.wait()
    found.append((id(Tool.model_fields), Tool(name="a", inputSchema={"type": "object"}).name, *Tool.model_fields))
threads = [threading.Thread(target=use) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(before, type(vars(Tool)["__pydantic_fields__"]).__name__, len(found), len(set(found)))
"""
    assert quick(SERVER, after) == ["_LateFields", "dict", "8", "1"]


@pytest.mark.parametrize(("version", "kind"), [("2.14.3", "_LateFields"), ("2.99.0", "dict")])
def test_only_a_pydantic_that_is_known_puts_fields_off(version, kind):
    lines = [
        "import pydantic",
        f"pydantic.VERSION = {version!r}",
        "from toolbox_mcp.server.sdk_import import quick_imports",
        f"with quick_imports(web=False): {SERVER}",
        "import mcp_types",
        "print(type(vars(mcp_types.Tool)['__pydantic_fields__']).__name__)",
    ]
    assert python("\n".join(lines)) == [kind]


def test_a_model_with_a_wrong_field_fails_in_the_same_way_at_each_use(tmp_path):
    (tmp_path / "wrong.py").write_text("import pydantic\nclass Wrong(pydantic.BaseModel): model_dump: int\n")
    after = """
for _ in range(2):
    for use in (lambda: wrong.Wrong(model_dump=1), lambda: wrong.Wrong.model_fields):
        try: use()
        except ValueError as e: print(type(e).__name__)
"""
    assert quick(f"sys.path.append({str(tmp_path)!r}); import wrong", after) == ["ValueError"] * 4


def test_private_attributes_and_generic_models_are_as_without_it(tmp_path):
    (tmp_path / "kinds.py").write_text("""
from __future__ import annotations
from typing import ClassVar, Generic, TypeVar
import pydantic
T = TypeVar("T")
class Base(pydantic.BaseModel):
    shared: ClassVar[int] = 7
    n: int = 1
    _seen: int = 2
class Box(Base, Generic[T]):
    content: T
    inner: Box[int] | None = None
class Other(pydantic.BaseModel): word: str
class Late(Box[Other]): pass
class Knot(pydantic.BaseModel):
    others: list[Knot] = []
    box: Box[int] | None = None
""")
    after = """
late = kinds.Late(content={"word": "a"}, inner={"content": 3})
knot = kinds.Knot.model_validate({"others": [{"box": {"content": 4}}]})
print(knot.others[0].box.content, [*kinds.Knot.model_fields] == ["others", "box"])
print(late.n, late._seen, kinds.Late.shared, late.content.word, late.inner.content, *kinds.Late.model_fields)
"""
    inside = f"sys.path.append({str(tmp_path)!r}); import kinds"
    assert quick(inside, after) == ["4", "True", "1", "2", "7", "a", "3", "n", "content", "inner"]


@pytest.mark.parametrize(("method", "data", "kept"), [
    ("tools/list", {"tools": [], "ttlMs": 1, "cacheScope": "public", "resultType": "complete"}, "tools"),
    ("tools/call", {"content": [], "resultType": "complete"}, "content"),
])  # fmt: skip
def test_the_newest_models_are_imported_by_the_first_client_that_needs_them(method, data, kept):
    after = f"""
from mcp_types.methods import serialize_server_result, validate_client_request
before = "mcp_types._v2026_07_28" in sys.modules
print(before, {kept!r} in serialize_server_result({method!r}, "2026-07-28", {data!r}))
try: serialize_server_result({method!r}, "2026-07-28", {{{kept!r}: 5}})
except ValueError as e: print(type(e).__name__)
"""
    assert quick(SERVER, after) == ["False", "True", "ValidationError"]


RECORDS = """
import dataclasses, sys

def below(kind):
    for each in type.__subclasses__(kind):
        yield each
        yield from below(each)

def code(method):
    return method.__code__.co_code, method.__code__.co_names, method.__code__.co_varnames, method.__defaults__ is None

for kind in sorted({*below(object)}, key=lambda kind: (kind.__module__, kind.__qualname__)):
    if "__dataclass_params__" in vars(kind) and kind.__module__.startswith(("toolbox_mcp", "mcp", "pydantic", "anyio")):
        names = [name for name in sorted(vars(kind)) if hasattr(vars(kind)[name], "__get__") and name.startswith("__")]
        made = [(name, getattr(kind, name)) for name in names]
        said = [(name, method.__qualname__, code(method)) for name, method in made if hasattr(method, "__code__")]
        print(str((kind.__module__, kind.__qualname__, said)).replace(" ", ""))
"""


def test_every_method_of_a_dataclass_put_off_becomes_the_one_it_would_have_been():
    early, late = python(f"{SERVER}\n{RECORDS}"), quick(SERVER, RECORDS)
    assert len(late) > 150
    assert not {*late} - {*early}


def test_a_method_of_a_dataclass_takes_its_place_when_it_is_looked_up():
    after = """
from toolbox_mcp.tools.results import Text
kind = lambda name: type(vars(Text)[name]).__name__
print(kind("__eq__"), kind("__hash__"), Text("a") == Text("a"), kind("__eq__"), kind("__hash__"))
"""
    assert quick(SERVER, after) == ["_LateMethod", "_LateMethod", "True", "function", "_LateMethod"]


KINDS = """
from dataclasses import dataclass, field

@dataclass(frozen=True)
class Frozen:
    n: int
    words: list[str] = field(default_factory=list, compare=False)

@dataclass(order=True, slots=True)
class Slotted:
    n: int

@dataclass
class Base:
    inner: object = None
    def __post_init__(self): self.seen = True

@dataclass(kw_only=True)
class Below(Base):
    other: int

@dataclass(unsafe_hash=True)
class Own:
    n: int
    def __repr__(self): return "own"
    def __eq__(self, other): return True

try:
    @dataclass(frozen=True)
    class Refused:
        n: int
        def __setattr__(self, name, value): pass
except TypeError as e:
    refusal = str(e)
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("Frozen(1) == Frozen(1, ['a']), Frozen(1) == Frozen(2), Frozen(1) == 1", "(True, False, False)"),
        ("len({Frozen(1), Frozen(1)})", "1"),
        ("Frozen(1).words is Frozen(1).words", "False"),
        ("Frozen(2)", "Frozen(n=2, words=[])"),
        ("refused(lambda: setattr(Frozen(1), 'n', 2)), refused(lambda: delattr(Frozen(1), 'n'))",
         "('FrozenInstanceError', 'FrozenInstanceError')"),
        ("refused(Frozen), refused(lambda: Frozen(n=1, m=2))", "('TypeError', 'TypeError')"),
        ("sorted([Slotted(2), Slotted(1)])", "[Slotted(n=1), Slotted(n=2)]"),
        ("hasattr(Slotted(1), '__dict__')", "False"),
        ("Below(1, other=2).seen, Below(1, other=2)", "(True, Below(inner=1, other=2))"),
        ("recursive()", "Base(inner=...)"),
        ("Own(1), Own(1) == Own(2), hash(Own(1)) == hash(Own(2))", "(own, True, False)"),
        ("refusal", "Cannot overwrite attribute __setattr__ in class Refused"),
        ("inspect.signature(Below)", "(inner: object = None, *, other: int) -> None"),
        ("pickle.loads(pickle.dumps(Frozen(3))) == replace(Frozen(3))", "True"),
        ("Frozen.__init__.__qualname__, Frozen.__hash__.__qualname__", "('Frozen.__init__', 'Frozen.__hash__')"),
    ],
)  # fmt: skip
def test_a_dataclass_of_the_block_does_what_dataclasses_do(tmp_path, expression, value):
    (tmp_path / "kinds.py").write_text(KINDS)
    after = f"""
import inspect, pickle
from dataclasses import replace
from kinds import *
def refused(act):
    try: act()
    except Exception as e: return type(e).__name__
def recursive():
    base = Base()
    base.inner = base
    return base
print(({expression}))
"""
    assert " ".join(quick(f"sys.path.append({str(tmp_path)!r}); import kinds", after)) == value


def test_what_a_web_application_needs_is_imported_by_its_first_use():
    after = """
import mcp.server.lowlevel.server as low
print(isinstance(low.Route("/", print), low.Route), "starlette.routing" in sys.modules)
class Application(low.Starlette): pass
print(Application.__mro__[1].__module__, type(low.Mount | None).__name__)
import starlette.applications
print(starlette.applications.Starlette is Application.__mro__[1])
"""
    assert quick(SERVER, after) == ["True", "True", "starlette.applications", "UnionType", "True"]


def test_a_web_application_is_made_with_the_numbers_that_are_its_defaults():
    after = """
import mcp.server.lowlevel.server as low
server = low.Server("other")
server.streamable_http_app()
import mcp.server.streamable_http_manager as manager
found = vars(server.session_manager)
print(found["max_sessions"] == manager.DEFAULT_MAX_SESSIONS)
print(found["session_idle_timeout"] == manager.DEFAULT_SESSION_IDLE_TIMEOUT)
"""
    assert quick(SERVER, after) == ["True", "True"]


def test_a_server_of_http_has_them_at_once():
    after = "import starlette.applications as a, mcp.server.lowlevel.server as low; print(low.Starlette is a.Starlette)"
    assert quick(SERVER, after, "web=True") == ["True"]


def test_what_is_defined_afterwards_is_built_at_once():
    after = """
import pydantic
class Own(pydantic.BaseModel): n: int
print(Own.__pydantic_complete__, isinstance(pydantic.TypeAdapter(int | None).validator, pydantic.TypeAdapter))
"""
    assert quick(SERVER, after) == ["True", "False"]


def test_the_collector_runs_again_without_what_was_imported():
    assert quick(SERVER, "print(gc.isenabled(), gc.get_freeze_count() > 50_000, gc.get_count()[2])")[:2] == [
        "True",
        "True",
    ]


def test_packages_that_are_imported_already_are_left_alone():
    text = "import mcp, mcp.server as s\n" + "from toolbox_mcp.server.sdk_import import quick_imports\n"
    text += "with quick_imports():\n    import mcp.server\nprint(mcp.server is s, type(mcp).__name__)"
    assert python(text) == ["True", "module"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_command_serves_both_eras_on_it(tmp_path, mode):
    (tmp_path / "a.txt").write_text("one\n")
    arguments = ["-m", "toolbox_mcp", "--root", str(tmp_path), "--set", "records=false"]
    async with Client(StdioServerParameters(command=sys.executable, args=arguments), mode=mode) as client:
        assert "read_file" in {tool.name for tool in (await client.list_tools()).tools}
        assert (await client.call_tool("read_file", {"path": "a.txt"})).content[0].text == "one"
