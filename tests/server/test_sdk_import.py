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
