"""What a client lists under a configuration."""

import pytest

from toolbox_mcp.server.build import build_server, exposure
from toolbox_mcp.server.call.presentation import presented
from toolbox_mcp.tools.catalogue import load_tools

OPEN = ["--preset", "coder"]


@pytest.fixture
def listed(user):
    """Return what is listed under some flags, with an environment for the programs or None."""

    def names(argv, env=None):
        return set(exposure(user.load(argv), env=env).listed)

    return names


def test_what_nothing_is_allowed_for_is_not_listed(listed):
    everything = listed(OPEN)
    nothing = listed([*OPEN, "--set", "allowed_commands="])
    assert everything - nothing == {"bash", "process_start", "process_list", "process_input", "process_kill"}
    assert "process_output" in nothing
    only = listed([*OPEN, "--set", "allowed_commands=", "--toolsets", "process,read"])
    assert "process_output" not in only and "read_file" in only
    assert "bash" in listed([*OPEN, "--set", "allowed_commands=", "--set", "list_disabled=true"])


def test_what_is_not_installed_is_not_listed(listed, tmp_path):
    there = listed(OPEN, env={"PATH": str(tmp_path)})
    gone = listed(OPEN) - there
    assert {name for name in gone if not name.startswith("git_")} == {"run_python", "run_ruby", "run_node", "run_rust"}
    assert "git_status" in gone and "apply_patch" in there
    containers = listed([*OPEN, "--set", "sandbox_runtime=podman"], env={"PATH": str(tmp_path)})
    assert "run_ruby" in containers


def test_a_search_without_its_key_is_not_listed(listed, user):
    assert "web_search" not in listed(["--set", "search_adapter=searxng"])
    assert "web_search" in listed(["--set", "search_adapter=searxng", "--set", "searxng_url=http://localhost:8080"])
    user.write_settings("tavily_api_key: k\n")
    assert "web_search" in listed([])


def test_descriptions_name_what_is_allowed_and_unsafe_is_shown_where_it_is_granted(user, tmp_path):
    tools = {tool.name: tool.to_mcp() for tool in load_tools()}
    config = user.load(["--set", "allowed_commands=git,make"])
    assert presented(tools["bash"], config).description.endswith("\n\nAllowed: git, make.")
    many = user.load(["--set", "allowed_commands=" + ",".join(f"c{n}" for n in range(50))])
    assert presented(tools["process_start"], many).description.endswith("c39 and 10 more.")
    assert presented(tools["run_python"], config).description.endswith("At most 120 s and 256 MiB.")
    (tmp_path / "python3.12").touch(mode=0o755)
    (tmp_path / "python3").symlink_to("python3.12")
    env = {"PATH": str(tmp_path)}
    assert presented(tools["run_python"], config, env).description.endswith("At most 120 s and 256 MiB. Python 3.12.")
    (tmp_path / "python3").unlink()
    (tmp_path / "python3").touch(mode=0o755)
    assert presented(tools["run_python"], config, env).description.endswith("256 MiB.")
    docker = user.load(["--set", "sandbox_runtime=docker", "--set", "python_image=python:3.13"])
    assert presented(tools["run_python"], docker).description.endswith("Python of the image python:3.13.")
    opened = user.load(["--set", "sandbox_packages=site,/opt/more/lib"])
    assert presented(tools["run_python"], opened).description.endswith("\n\nAlso imports from site, lib.")
    assert "unsafe" in tools["bash"].input_schema["properties"]
    assert "unsafe" not in presented(tools["bash"], config).input_schema["properties"]
    granted = user.load(["--set", "allow_unsafe=true"])
    assert "unsafe" in presented(tools["bash"], granted).input_schema["properties"]


async def test_a_client_gets_this_listing_and_unsafe_stays_refused(user):
    from mcp import Client

    config = user.load(["--enable-exec", "--set", "allowed_commands=true"])
    async with build_server(config, {"PATH": "/usr/bin:/bin"}) as toolbox, Client(toolbox.server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["bash"].description.endswith("Allowed: true.")
        refused = await client.call_tool("bash", {"command": "true", "unsafe": True})
        assert refused.structured_content["code"] == "unsafe_denied"
