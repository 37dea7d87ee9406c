"""Build the MCP bundle (.mcpb) that desktop clients install: the manifest, the wheel, and the project that installs it.

    python scripts/mcpb.py [FOLDER]      write toolbox-mcp-VERSION.mcpb into FOLDER (default: dist)

The server type is `uv`: the client's uv installs the wheel and its dependencies for its machine when the bundle first starts.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

MAIN = """\
import sys

from toolbox_mcp.server.cli import main

if __name__ == "__main__":
    sys.exit(main())
"""


def project() -> dict[str, Any]:
    """Return the project's metadata, the only place that the version and the description come from."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def manifest() -> dict[str, Any]:
    """Return the bundle's manifest."""
    about = project()
    start = ["run", "--directory", "${__dirname}", "main.py"]
    return {
        "manifest_version": "0.4",
        "name": about["name"],
        "display_name": "toolbox-mcp",
        "version": about["version"],
        "description": about["description"],
        "author": about["authors"][0],
        "repository": {"type": "git", "url": about["urls"]["Source"]},
        "documentation": about["urls"]["Documentation"],
        "license": about["license"],
        "keywords": about["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "main.py",
            "mcp_config": {
                "command": "uv",
                "args": [*start, "--root", "${user_config.root}", "--preset", "${user_config.preset}"],
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {"platforms": ["linux", "darwin"], "runtimes": {"python": about["requires-python"]}},
        "user_config": {
            "root": {
                "type": "directory",
                "title": "Folder",
                "description": "The folder that the tools may use",
                "required": True,
            },
            "preset": {
                "type": "string",
                "title": "Preset",
                "description": "reader only reads, editor also edits, coder also runs programs",
                "default": "reader",
                "required": True,
            },
        },
    }


def installer(wheel: str) -> str:
    """Return the pyproject.toml of the bundle, which installs the wheel beside it."""
    about = project()
    return f"""\
[project]
name = "toolbox-mcp-bundle"
version = "{about["version"]}"
requires-python = "{about["requires-python"]}"
dependencies = ["{about["name"]}"]

[tool.uv]
package = false

[tool.uv.sources]
{about["name"]} = {{ path = "{wheel}" }}
"""


def build(folder: Path) -> Path:
    """Write the bundle into a folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    bundle = folder / f"{project()['name']}-{project()['version']}.mcpb"
    with tempfile.TemporaryDirectory() as built:
        command = [sys.executable, "-m", "build", "--outdir", built, str(ROOT)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (wheel,) = Path(built).glob("*.whl")
        with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("manifest.json", json.dumps(manifest(), indent=2) + "\n")
            archive.writestr("pyproject.toml", installer(wheel.name))
            archive.writestr("main.py", MAIN)
            archive.write(ROOT / "LICENSE", "LICENSE")
            archive.write(wheel, wheel.name)
    return bundle


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")))
