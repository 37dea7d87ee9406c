"""Every tool there is, in one list."""

from toolbox_mcp.tools.base import Tool
from toolbox_mcp.tools.command.bash import bash
from toolbox_mcp.tools.command.run_script import run_script
from toolbox_mcp.tools.command.shell import shell
from toolbox_mcp.tools.edit.create_directory import create_directory
from toolbox_mcp.tools.edit.delete_file import delete_file
from toolbox_mcp.tools.edit.edit_file import edit_file
from toolbox_mcp.tools.edit.edit_lines import edit_lines
from toolbox_mcp.tools.edit.move_file import move_file
from toolbox_mcp.tools.edit.multi_edit import multi_edit
from toolbox_mcp.tools.edit.replace_in_files import replace_in_files
from toolbox_mcp.tools.edit.undo import undo
from toolbox_mcp.tools.edit.write_file import write_file
from toolbox_mcp.tools.process.process_input import process_input
from toolbox_mcp.tools.process.process_kill import process_kill
from toolbox_mcp.tools.process.process_list import process_list
from toolbox_mcp.tools.process.process_output import process_output
from toolbox_mcp.tools.process.process_start import process_start
from toolbox_mcp.tools.read.file_info import file_info
from toolbox_mcp.tools.read.glob import glob
from toolbox_mcp.tools.read.grep_files import grep_files
from toolbox_mcp.tools.read.list_directory import list_directory
from toolbox_mcp.tools.read.read_file import read_file
from toolbox_mcp.tools.read.tree import tree
from toolbox_mcp.tools.sandbox.run_node import run_node
from toolbox_mcp.tools.sandbox.run_python import run_python
from toolbox_mcp.tools.sandbox.run_ruby import run_ruby
from toolbox_mcp.tools.sandbox.run_rust import run_rust
from toolbox_mcp.tools.util.calculator import calculator
from toolbox_mcp.tools.util.date_time import date_time
from toolbox_mcp.tools.util.diff import diff
from toolbox_mcp.tools.util.todo_write import todo_write
from toolbox_mcp.tools.verify.bundle import bundle
from toolbox_mcp.tools.verify.lint import lint
from toolbox_mcp.tools.verify.python_tests import python_tests
from toolbox_mcp.tools.verify.run_tests import run_tests

TOOLS: tuple[Tool, ...] = (
    bash,
    bundle,
    calculator,
    create_directory,
    date_time,
    delete_file,
    diff,
    edit_file,
    edit_lines,
    file_info,
    glob,
    grep_files,
    lint,
    list_directory,
    move_file,
    multi_edit,
    process_input,
    process_kill,
    process_list,
    process_output,
    process_start,
    python_tests,
    read_file,
    replace_in_files,
    run_node,
    run_python,
    run_ruby,
    run_rust,
    run_script,
    run_tests,
    shell,
    todo_write,
    tree,
    undo,
    write_file,
)
